// What the page knows of the cluster: filled from the API, kept current by the stream. Pages read it and are told what
// changed; nothing here touches the document.

const HOLDS = 60; // seconds for which a point of a `maar web` that has restarted holds
const SAMPLES = 720; // of utilisation while the page is open, at most; older ones are dropped

/** The holder of a GPU on the grid. Jobs that the viewer may not see have no key. */
function holdersOf(view, accelerators) {
  const amount = (amounts) => accelerators.reduce((sum, name) => sum + (amounts?.[name] ?? 0), 0);
  const holders = view.jobs.map((one) => ({ key: one.job, queue: one.queue, leaving: one.leaving, gpus: amount(one.amounts), pods: one.pods }));
  if (view.others?.pods) holders.push({ key: null, kind: "others", gpus: amount(view.others.amounts), pods: view.others.pods });
  if (view.system && amount(view.system.amounts)) holders.push({ key: null, kind: "system", gpus: amount(view.system.amounts), pods: view.system.pods });
  const promised = amount(view.promised);
  if (promised) holders.push({ key: null, kind: "promised", gpus: promised, pods: 0 });
  return { holders, gpus: amount(view.allocatable) };
}

const identity = (holder) => `${holder.key ?? `/${holder.kind}`} ${holder.leaving ?? false}`;

/** A cell for each GPU. A job keeps the cells that it had, so that a change elsewhere on the node moves nothing. */
function cellsOf(holders, gpus, before) {
  const cells = Array.from({ length: gpus });
  const left = new Map(holders.map((holder) => [identity(holder), { holder, count: holder.gpus }]));
  before?.forEach((old, i) => {
    const found = old && i < gpus ? left.get(identity(old)) : undefined;
    if (found?.count > 0) {
      cells[i] = found.holder;
      found.count -= 1;
    }
  });
  let at = 0;
  for (const { holder, count } of left.values()) {
    for (let n = 0; n < count; n++) {
      while (at < gpus && cells[at]) at += 1;
      if (at >= gpus) return cells;
      cells[at] = holder;
    }
  }
  return cells;
}

/** The label by which nodes are drawn in blocks: a rack if there is one, else the finest that groups nodes at all. */
export function rackLabel(views) {
  const values = new Map();
  for (const view of views)
    for (const [label, value] of Object.entries(view.domains ?? {})) {
      if (!values.has(label)) values.set(label, new Set());
      values.get(label).add(value);
    }
  const groups = [...values].filter(([label, found]) => found.size > 1 || views.length === 1 || /rack/i.test(label));
  const racks = groups.filter(([label]) => /rack/i.test(label));
  const fine = (racks.length ? racks : groups).filter(([, found]) => found.size <= Math.max(1, views.length / 2));
  fine.sort((a, b) => b[1].size - a[1].size || (a[0] < b[0] ? -1 : 1));
  return fine[0]?.[0] ?? "";
}

export class Store {
  constructor() {
    this.nodes = new Map();
    this.jobs = new Map();
    this.queues = new Map();
    this.cluster = undefined;
    this.accelerators = [];
    this.asOf = 0;
    this.samples = [];
    this.past = []; // utilisation before the page was opened, as `maar web` kept it
    this.listeners = new Set();
    this.rack = "";
    this.lost = undefined; // when the connection ended: nothing is known since then
  }

  /** The connection has ended: what comes next begins after a gap. */
  disconnected() {
    if (this.lost !== undefined) return;
    this.lost = this.now();
    const last = this.samples.at(-1);
    if (last) last.until = Math.max(last.at, this.lost);
  }

  connected() {
    this.lost = undefined;
  }

  /** The cluster's time, in seconds since 1970: that of the last answer, moved on by this browser's clock. */
  now() {
    return this.asOf ? this.asOf + this.age + (performance.now() - this.received) / 1000 : Date.now() / 1000;
  }

  time({ asOf, age }) {
    this.asOf = asOf;
    this.age = age;
    this.received = performance.now();
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell(change) {
    for (const listener of this.listeners) listener(change);
  }

  setCluster(view) {
    this.cluster = view;
    this.accelerators = view.accelerators;
    this.sample(view, this.asOf);
  }

  sample(view, at) {
    const of = (amounts) => this.accelerators.reduce((sum, name) => sum + (amounts[name] ?? 0), 0);
    const last = this.samples.at(-1);
    const top = [...this.queues.values()].filter((queue) => queue.parent && !this.queues.get(queue.parent)?.parent);
    const queues = Object.fromEntries(top.map((queue) => [queue.name, of(queue.allocated)]).filter(([, value]) => value > 0));
    const one = { at, used: of(view.used), total: of(view.allocatable), waiting: of(view.waiting), queues };
    if (last && at <= last.at) return;
    this.samples.push(one);
    if (this.samples.length > SAMPLES) this.samples.shift();
  }

  /** What `maar web` knows of the past. If it has restarted, it knows less than before: the older points stay. */
  setPast(items) {
    const from = items[0]?.at ?? Infinity;
    const older = this.past.filter((one) => one.at < from);
    const last = older.at(-1);
    if (last && last.until === undefined) older[older.length - 1] = { ...last, until: last.at + HOLDS };
    this.past = [...older, ...items.map(({ until, ...one }) => ((until ?? null) === null ? one : { ...one, until }))];
  }

  /** Utilisation from the oldest that is known until now: what the page saw itself, and before and between the past. */
  series() {
    const seen = []; // when the page was connected, as `[from, to]`
    this.samples.forEach((one, i) => {
      if (i === 0 || this.samples[i - 1].until !== undefined) seen.push([one.at, Infinity]);
      if (one.until !== undefined) seen.at(-1)[1] = one.until;
    });
    const before = this.past.filter((one) => !seen.some(([from, to]) => from <= one.at && one.at <= to));
    return [...before, ...this.samples].sort((a, b) => a.at - b.at);
  }

  node(view, before) {
    const { holders, gpus } = holdersOf(view, this.accelerators);
    const plain = gpus === 0; // a node without GPUs has one cell: something runs there or not
    const shown = plain ? holders.filter((one) => one.pods).slice(0, 1).map((one) => ({ ...one, gpus: 1 })) : holders;
    return {
      name: view.name,
      rack: this.rack ? (view.domains?.[this.rack] ?? "") : "",
      gpus: plain ? 1 : gpus,
      plain,
      used: plain ? 0 : Math.min(gpus, holders.reduce((sum, one) => sum + (one.kind === "promised" ? 0 : one.gpus), 0)),
      cells: cellsOf(shown, plain ? 1 : gpus, before?.cells),
      holders,
      failed: view.state === "failed",
      drained: view.state === "cordoned",
      tainted: view.state === "tainted",
      locked: view.locked,
      view,
    };
  }

  setNodes(views) {
    const before = this.nodes;
    this.rack = rackLabel(views);
    this.nodes = new Map(views.map((view) => [view.name, this.node(view, before.get(view.name))]));
  }

  /** Put changed nodes in; the answer says whether the grid must be laid out again. */
  changeNodes(views, gone = []) {
    let moved = false;
    for (const view of views) {
      const before = this.nodes.get(view.name);
      const after = this.node(view, before);
      moved ||= !before || before.rack !== after.rack || before.gpus !== after.gpus;
      this.nodes.set(view.name, after);
    }
    for (const name of gone) moved = this.nodes.delete(name) || moved;
    return moved;
  }

  setJobs(views) {
    this.jobs = new Map(views.map((view) => [keyOf(view), view]));
  }

  changeJobs(views, gone = []) {
    for (const view of views) this.jobs.set(keyOf(view), view);
    for (const key of gone) this.jobs.delete(key);
  }

  /** The names of all queues below the root, which no job is in. */
  queueNames() {
    return [...this.queues.values()].filter((queue) => queue.parent).map((queue) => queue.name);
  }

  setQueues(views) {
    this.queues = new Map(views.map((view) => [view.name, view]));
  }
}

export function keyOf(job) {
  return `${job.namespace}/${job.name}`;
}
