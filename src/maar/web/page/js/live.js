// Fills the store, and keeps it current: all of it once, then what the stream says has changed.

export class Live {
  constructor(api, store, state) {
    this.api = api;
    this.store = store;
    this.state = state;
  }

  /** Everything, in parallel. */
  async load() {
    const { api, store } = this;
    const [cluster, queues, nodes, jobs] = await Promise.all([api.get("cluster"), api.all("queues"), api.all("nodes"), api.all("jobs")]);
    store.time(cluster.asOf);
    store.setCluster(cluster.cluster ?? cluster);
    store.setQueues(queues.items);
    store.setNodes(nodes.items);
    store.setJobs(jobs.items);
    return cluster;
  }

  /** Follow the stream until `stop` is called. */
  follow() {
    this.ended = new AbortController();
    this.api.stream((event) => this.take(event), this.state, this.ended.signal);
  }

  /** One event of the stream. */
  take({ event, data }) {
    const { store } = this;
    performance.mark("maar:event");
    store.time(data.asOf);
    const change = {};
    if (event === "cluster") {
      store.setCluster(data.cluster);
      change.cluster = true;
    } else if (event === "nodes") {
      change.nodes = new Set([...data.items.map((one) => one.name), ...(data.gone ?? [])]);
      change.moved = store.changeNodes(data.items, data.gone);
    } else if (event === "jobs") {
      store.changeJobs(data.items, data.gone);
      change.jobs = true;
    } else if (event === "queues") {
      store.setQueues(data.items);
      change.queues = true;
    } else if (event === "decision") change.decisions = true;
    store.tell(change);
  }

  stop() {
    this.ended?.abort();
  }
}
