// Fills the store, and keeps it current: all of it once, then what the stream says has changed.

const GREETING = 1000; // milliseconds to wait for the first event, which asks to fetch everything. Tuned by hand
const AGAIN = 3000; // milliseconds until everything is fetched again after a failure. Tuned by hand
const TOTALS = 1000; // milliseconds between two requests for totals, which the stream does not have. Tuned by hand

export class Live {
  constructor(api, store, state) {
    this.api = api;
    this.store = store;
    this.state = state; // called with whether the data is current: the stream is open, and all has been fetched since
    this.open = false;
  }

  /** The stream has begun or ended. After an end all is fetched again, which its first event asks for. */
  link(open) {
    this.open = open;
    if (!open) this.state(false);
  }

  /** Follow the stream, and fetch everything. The stream is opened first, so that no change falls between the two. */
  async begin() {
    this.stop();
    const ended = new AbortController();
    this.ended = ended;
    this.late = []; // events that arrive while everything is fetched
    const greeted = new Promise((resolve) => (this.greeted = resolve));
    this.api.stream((event) => this.take(event), (open) => ended.signal.aborted || this.link(open), ended.signal);
    await Promise.race([greeted, new Promise((resolve) => setTimeout(resolve, GREETING))]);
    await this.load();
  }

  /** Everything, in parallel; then the events that came meanwhile, each with the newest state of what it names. */
  async load() {
    const { api, store } = this;
    this.late ??= [];
    const [cluster, queues, nodes, jobs] = await Promise.all([api.get("cluster"), api.all("queues"), api.all("nodes"), api.all("jobs")]);
    store.time(cluster);
    store.setQueues(queues);
    store.setCluster(cluster.cluster);
    store.setNodes(nodes);
    store.setJobs(jobs);
    const late = this.late;
    this.late = undefined;
    if (this.open) this.state(true);
    for (const event of late) this.take(event);
  }

  /** One event of the stream. */
  take({ event, data }) {
    const { store } = this;
    if (event === "pulse" && !this.late) store.time(data);
    if (event !== "change") return;
    performance.mark("maar:event");
    if (this.greeted) {
      this.greeted();
      this.greeted = undefined;
      return;
    }
    if (this.late) {
      this.late.push({ event, data });
      return;
    }
    if (data.all) {
      this.reload();
      return;
    }
    store.time(data);
    const change = { decisions: true, jobs: data.jobs.length + data.gone.length > 0 };
    store.changeJobs(data.jobs, data.gone);
    if (data.nodes.length || data.goneNodes.length) {
      change.nodes = new Set([...data.nodes.map((one) => one.name), ...data.goneNodes]);
      change.moved = store.changeNodes(data.nodes, data.goneNodes);
    }
    store.tell(change);
    this.totals();
  }

  /** Everything again; if that fails, once more later. */
  async reload() {
    const { ended, store } = this;
    try {
      await this.load();
    } catch {
      setTimeout(() => ended.signal.aborted || this.reload(), AGAIN);
      return;
    }
    store.tell({ moved: true, jobs: true, queues: true, cluster: true, decisions: true });
  }

  /** Fetch totals and queues again, soon, but not for every event. */
  totals() {
    if (this.timer) return;
    this.timer = setTimeout(async () => {
      try {
        const [cluster, queues] = await Promise.all([this.api.get("cluster"), this.api.all("queues")]);
        this.store.time(cluster);
        this.store.setQueues(queues);
        this.store.setCluster(cluster.cluster);
        this.store.tell({ cluster: true, queues: true });
      } catch {
        // the next event asks again
      }
      this.timer = undefined;
    }, Math.max(0, (this.last ?? -TOTALS) + TOTALS - performance.now()));
    this.last = performance.now();
  }

  stop() {
    this.ended?.abort();
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
