// Queues: the tree, each with deserved, used, borrowed, guaranteed and waiting as one bar.

import { h, put, show, table } from "../dom.js";
import { amount, count, duration, percent, short } from "../format.js";

/** One bar: used up to what is deserved, borrowed above it, waiting after it; lines for deserved and guaranteed. */
function bar(queue, resource, most) {
  const of = (amounts) => amounts?.[resource] ?? 0;
  const used = of(queue.allocated);
  const borrowed = Math.min(used, of(queue.borrowed));
  const at = (value) => `${((100 * Math.min(value, most)) / most).toFixed(2)}%`;
  const piece = (kind, from, size) => size > 0 && h("span", { class: kind, css: { left: at(from), width: at(size) } });
  const mark = (kind, value) => value > 0 && h("span", { class: `mark ${kind}`, css: { left: `calc(${at(value)} - 1px)` } });
  return h("div", { class: "bar", "aria-hidden": "true" }, piece("used", 0, used - borrowed), piece("borrowed", used - borrowed, borrowed), piece("waiting", used, of(queue.waiting)), mark("deserved", of(queue.deserved)), mark("guarantee", of(queue.guarantee)));
}

function words(queue, resource) {
  const of = (amounts) => amount(resource, amounts?.[resource] ?? 0);
  const has = (amounts) => (amounts?.[resource] ?? 0) > 0;
  return [
    `${of(queue.allocated)} used`,
    has(queue.deserved) && `${of(queue.deserved)} deserved`,
    has(queue.borrowed) && `${of(queue.borrowed)} borrowed`,
    has(queue.guarantee) && `${of(queue.guarantee)} guaranteed`,
    queue.capability?.[resource] !== undefined && `limit ${of(queue.capability)}`,
    has(queue.waiting) && `${of(queue.waiting)} waiting`,
  ]
    .filter(Boolean)
    .join(", ");
}

function jobsOf(queue) {
  const parts = Object.entries(queue.jobs).filter(([, number]) => number > 0);
  return parts.length ? parts.map(([state, number]) => `${number} ${state}`).join(", ") : "no jobs";
}

export function queues(root, app) {
  const { store } = app;
  const tree = h("div");
  const quality = h("section", { class: "card", "aria-label": "How good forecasts were", hidden: true });
  const pick = h("select", { id: "resource", onchange: () => { app.kept.resource = pick.value; draw(); } });
  const key = (kind, text) => h("span", { class: "key" }, h("span", { class: "bar" }, h("span", { class: kind, css: { left: "0", width: "100%" } })), ` ${text} `);
  const line = (kind, text) => h("span", { class: "key" }, h("span", { class: "bar" }, h("span", { class: `mark ${kind}`, css: { left: "50%" } })), ` ${text} `);
  put(
    root,
    h("h1", {}, "Queues"),
    h("div", { class: "card" }, h("div", { class: "row" }, h("label", {}, "Resource", pick), h("span", { class: "dim" }, key("used", "used"), key("borrowed", "borrowed"), key("waiting", "waiting"), line("deserved", "deserved"), line("guarantee", "guaranteed"))), tree),
    quality,
  );

  function item(queue, resource, most, children, depth = 0) {
    const below = children.get(queue.name) ?? [];
    return h(
      "li",
      {},
      h(
        "div",
        { class: "queue", "data-queue": queue.name, css: { "--depth": String(depth) } },
        h("div", { class: "name" }, h("strong", { class: "wrap" }, queue.name), !queue.open && h("span", { class: "tag waiting" }, "closed"), queue.broken && h("div", { class: "bad" }, queue.broken), h("div", { class: "dim" }, `weight ${queue.weight}${queue.priority ? `, priority ${queue.priority}` : ""}`)),
        bar(queue, resource, most),
        h("div", {}, h("div", {}, words(queue, resource)), h("div", { class: "dim" }, h("a", { href: `#/waiting?queue=${encodeURIComponent(queue.name)}`, "data-key": `queue ${queue.name}` }, jobsOf(queue)))),
      ),
      below.length > 0 && h("ul", { class: "tree" }, below.map((one) => item(one, resource, most, children, depth + 1))),
    );
  }

  function draw() {
    const all = [...store.queues.values()];
    const resources = new Set(all.flatMap((queue) => [queue.allocated, queue.deserved, queue.waiting, queue.capability].flatMap((amounts) => Object.keys(amounts ?? {}))));
    for (const name of store.accelerators) resources.add(name);
    const order = [...resources].filter((name) => name !== "pods").sort((a, b) => Number(store.accelerators.includes(b)) - Number(store.accelerators.includes(a)) || (a < b ? -1 : 1));
    const resource = order.includes(app.kept.resource) ? app.kept.resource : (order[0] ?? "cpu");
    show(pick, order.map((name) => h("option", { value: name, selected: name === resource }, short(name))));
    const total = store.cluster?.allocatable?.[resource] ?? 0;
    const largest = (queue) => Math.max((queue.allocated?.[resource] ?? 0) + (queue.waiting?.[resource] ?? 0), queue.deserved?.[resource] ?? 0);
    const names = new Set(all.map((queue) => queue.name));
    const tops = all.filter((queue) => !names.has(queue.parent) || queue.parent === queue.name);
    const most = Math.max(1, ...(total ? [total] : all.map(largest)));
    const children = new Map();
    for (const queue of all) if (!tops.includes(queue)) children.set(queue.parent, [...(children.get(queue.parent) ?? []), queue]);
    show(tree, h("ul", { class: "tree" }, tops.map((one) => item(one, resource, most, children))), h("p", { class: "dim" }, `A full bar is ${amount(resource, most)} ${short(resource)}, all of the cluster. ${count(all.length, "queue")}.`));
  }

  /** How good forecasts were, of each queue; nothing where none were judged. */
  async function judge() {
    try {
      const found = await app.api.get("forecasts");
      const share = (value) => ((value ?? null) === null ? "-" : percent(value, 1));
      const row = (one) => h("tr", {}, h("td", {}, one.queue), h("td", {}, one.age), h("td", {}, one.judged), h("td", {}, share(one.coverageP90)), h("td", {}, (one.medianError ?? null) === null ? "-" : duration(one.medianError)));
      const about = found.madeAt ? `The newest forecast is from ${count(found.rollouts, "roll-out")} and ${count(found.finishedJobs, "finished job")}, ${found.arrivals ? "with" : "without"} jobs that come later.` : "No forecast has been made yet.";
      const none = found.notKept ? `Forecasts are not judged: ${found.notKept}.` : "No forecast has been judged yet.";
      show(quality, h("h2", {}, "How good forecasts were"), h("p", { class: "dim" }, about, " ", found.quality.length ? "" : none), found.quality.length > 0 && table("Judged forecasts", ["Queue", "Forecast made", "Jobs", "Started by p90", "Median error of p50"], found.quality.map(row)));
      quality.hidden = false;
    } catch {
      quality.hidden = true; // an older server
    }
  }

  draw();
  judge();
  return { update: (change) => (change.queues || change.cluster) && app.later("queues", draw) };
}
