// Cluster: the grid of nodes in racks, what is special about some of them, and utilisation.

import { byQueue, utilisation } from "../charts.js";
import { h, put, say, show, table } from "../dom.js";
import { amount, count, percent, short } from "../format.js";
import { Grid } from "../grid.js";
import { jobLink, missing, nodeLink, swatch, tag } from "../parts.js";

const ROWS = 100; // of the table, on one page
const REDRAWN = 2000; // milliseconds between two drawings of utilisation by queue. Tuned by hand
const PAST = 60_000; // milliseconds between two requests for utilisation: `maar web` keeps a point each minute
const NAMED = { job: 12, queue: 36, state: 0 }; // in the legend, those with the most GPUs
const BY = [
  ["job", "Job"],
  ["queue", "Queue"],
  ["state", "State"],
];
const KINDS = [
  ["failed", "failed", (node) => node.failed],
  ["drained", "drained", (node) => node.drained],
  ["locked", "locked", (node) => node.locked],
  ["tainted", "tainted", (node) => node.tainted],
  ["free", "with free GPUs", (node) => !node.failed && !node.drained && node.used < node.gpus],
];

/** The colour of a cell, by what the viewer chose. */
export function colouring(app, by) {
  const { colours } = app;
  return (holder) => {
    if (holder.kind === "promised") return { colour: colours.locked };
    if (holder.key === null) return { colour: colours.other };
    if (by === "queue") return colours.queue(holder.queue);
    if (by === "state") return { colour: holder.leaving ? colours.locked : colours.busy };
    return colours.job(holder.key);
  };
}

function holderWords(holder) {
  if (holder.kind === "others") return "a job that you may not see";
  if (holder.kind === "system") return "the node's own pods";
  if (holder.kind === "promised") return "promised to a waiting job";
  return `${holder.key} (queue ${holder.queue})${holder.leaving ? ", leaving" : ""}`;
}

export function stateWords(node) {
  const words = [node.failed && "failed", node.drained && "drained", node.tainted && "tainted", node.locked && (node.view.lockedFor ? `locked for ${node.view.lockedFor}` : "locked")];
  return words.filter(Boolean).join(", ") || "ready";
}

function gpuWords(node) {
  return node.plain ? "no GPUs" : `${node.used} of ${node.gpus} GPUs in use`;
}

export function nodeWords(node) {
  const who = node.holders.map((one) => `${one.gpus} by ${holderWords(one)}`);
  return `${node.name}, ${node.rack || "no rack"}: ${stateWords(node)}, ${gpuWords(node)}${who.length ? `: ${who.join("; ")}` : ""}`;
}

export function tipOf(node, holder) {
  return [
    h("p", {}, h("strong", {}, node.name), ` ${stateWords(node)}`),
    h("p", { class: "dim" }, gpuWords(node)),
    h("p", {}, holder ? holderWords(holder) : node.failed || node.drained ? "" : "free"),
  ];
}

/** What one node has, beside the grid. */
function panel(app, node, chosen) {
  if (!node && chosen) return [h("h2", {}, "Node not found"), missing(["There is no node ", h("code", {}, chosen), "."], chosen, app.store.nodes.keys(), nodeLink), h("p", {}, h("a", { href: "#/cluster", "data-key": "all nodes" }, "Back to the cluster"))];
  if (!node) return [h("h2", {}, "Node"), h("p", { class: "dim" }, "Click a node, or move with the arrow keys and press Enter.")];
  const { view } = node;
  return [
    h("h2", { class: "wrap" }, node.name, " ", tag(view.state)),
    view.locked && h("p", {}, "Locked for ", view.lockedFor ? jobLink(view.lockedFor) : "a job that you may not see", "."),
    (view.shard ?? null) !== null && h("p", { class: "dim" }, `Shard ${view.shard}`),
    view.taints?.length > 0 && h("p", { class: "dim wrap" }, `Taints: ${view.taints.join(", ")}`),
    h("h3", {}, "Jobs"),
    node.holders.length
      ? h(
          "ul",
          {},
          node.holders.map((one) =>
            h("li", {}, one.key ? jobLink(one.key) : holderWords(one), h("span", { class: "dim" }, ` ${node.plain ? count(one.pods, "pod") : count(one.gpus, "GPU")}${one.leaving ? ", leaving" : ""}`)),
          ),
        )
      : h("p", { class: "dim" }, "None."),
    h("h3", {}, "Resources"),
    table(
      `Resources of ${node.name}`,
      ["Resource", "Used", "Of"],
      Object.keys(view.allocatable).map((name) =>
        h("tr", {}, h("td", {}, short(name)), h("td", { class: "num" }, amount(name, view.used[name] ?? 0)), h("td", { class: "num" }, amount(name, view.allocatable[name]))),
      ),
    ),
    Object.keys(view.domains ?? {}).length > 0 && h("p", { class: "dim wrap" }, Object.entries(view.domains).map(([label, value]) => `${short(label)} ${value}`).join(", ")),
  ];
}

export function cluster(root, app, [chosen]) {
  const { store } = app;
  let by = app.kept.by ?? "job";
  let only; // the kind of nodes that stands out
  let page = 0;
  let text = "";

  const cards = h("div", { class: "cards" });
  const marks = h("div", { class: "legend", role: "group", "aria-label": "Show nodes that are" });
  const aside = h("aside", { class: "card", "aria-label": "Node", id: "node" });
  const list = h("div");
  const shards = h("section", { class: "card", "aria-label": "Shards", id: "shards", hidden: true });
  const chart = h("div");
  const host = h("div");
  const names = h("div", { class: "legend", "aria-label": "Colours" });
  const modes = h("div", { class: "row", role: "group", "aria-label": "Colour by" });
  const search = h("input", { type: "search", id: "node-filter", placeholder: "name, rack, job or state", oninput: () => { text = search.value.trim().toLowerCase(); page = 0; rows(); } });
  put(
    root,
    h("h1", {}, "Cluster"),
    cards,
    h("div", { class: "split" }, h("section", { class: "card", "aria-label": "Grid of nodes" }, modes, marks, host, names), aside),
    h("section", { class: "card", "aria-label": "Utilisation", id: "utilisation" }, h("h2", {}, "In use by queue"), chart),
    shards,
    h("details", { class: "card", id: "as-table", ontoggle: () => rows() }, h("summary", {}, "Nodes as a table"), h("div", { class: "row" }, h("label", {}, "Filter", search)), list),
  );
  const details = root.querySelector("#as-table");
  const grid = new Grid(host, app.colours, {
    colourOf: colouring(app, by),
    tip: tipOf,
    words: nodeWords,
    choose: (node) => app.go(`#/cluster/${encodeURIComponent(node.name)}`, true),
    label: "Grid of nodes",
  });

  function choose(name) {
    chosen = name;
    show(aside, panel(app, store.nodes.get(name), name));
    const node = store.nodes.get(name);
    if (name) say(node ? nodeWords(node) : `There is no node ${name}`);
  }

  function modeButtons() {
    show(
      modes,
      h("span", { class: "dim" }, "Colour by"),
      BY.map(([key, words]) =>
        h("button", { type: "button", "data-key": `by-${key}`, "aria-pressed": String(by === key), onclick: () => { by = app.kept.by = key; grid.colourOf = colouring(app, by); modeButtons(); legend(); grid.redraw(); } }, words),
      ),
    );
  }

  function markButtons() {
    const nodes = [...store.nodes.values()];
    show(
      marks,
      KINDS.map(([key, words, test]) => {
        const found = nodes.filter(test).length;
        if (!found) return undefined;
        return h("button", { type: "button", "data-key": `only-${key}`, "aria-pressed": String(only === key), onclick: () => { only = only === key ? undefined : key; grid.marked = only && test; markButtons(); grid.redraw(); } }, h("span", { class: `swatch ${key}` }), `${found.toLocaleString("en")} ${words}`);
      }),
    );
  }

  function legend() {
    const found = new Map();
    let hidden = 0;
    for (const node of store.nodes.values())
      for (const one of node.holders) {
        if (one.key === null) hidden += one.kind === "others" ? one.gpus : 0;
        else found.set(by === "queue" ? one.queue : one.key, (found.get(by === "queue" ? one.queue : one.key) ?? 0) + one.gpus);
      }
    const most = [...found].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, NAMED[by]);
    const more = by === "state" ? 0 : found.size - most.length;
    const items = by === "state" ? [h("span", {}, swatch({ colour: app.colours.busy }), "in use"), h("span", {}, swatch({ colour: app.colours.locked }), "leaving or promised")] : most.map(([name, gpus]) => h("span", {}, swatch(by === "queue" ? app.colours.queue(name) : app.colours.job(name)), by === "queue" ? name : jobLink(name), h("span", { class: "dim" }, ` ${gpus}`)));
    show(names, items, more > 0 && h("span", { class: "dim" }, `and ${count(more, by)} more`), hidden > 0 && h("span", {}, h("span", { class: "swatch other" }), `jobs that you may not see: ${hidden}`), h("span", {}, h("span", { class: "swatch free" }), "free"));
  }

  function summary() {
    const view = store.cluster;
    const accelerators = store.accelerators.length ? store.accelerators : ["cpu"];
    const sum = (amounts) => accelerators.reduce((total, name) => total + (amounts[name] ?? 0), 0);
    const unit = store.accelerators.length ? "GPUs" : "CPUs";
    const shown = (value) => amount(accelerators[0], value);
    const bad = (view.nodes.failed ?? 0) + (view.nodes.cordoned ?? 0) + (view.nodes.locked ?? 0);
    const total = Object.values(view.nodes).reduce((a, b) => a + b, 0);
    show(
      cards,
      h("div", { class: "card" }, h("div", { class: "dim" }, `${unit} in use`), h("div", { class: "big", id: "in-use" }, `${shown(sum(view.used))} of ${shown(sum(view.allocatable))}`), h("div", { class: "dim" }, percent(sum(view.used), sum(view.allocatable)))),
      h("div", { class: "card" }, h("div", { class: "dim" }, "Nodes"), h("div", { class: "big" }, total.toLocaleString("en")), h("div", { class: bad ? "warn" : "dim" }, bad ? `${bad} failed, drained or locked` : "all ready")),
      h("div", { class: "card" }, h("div", { class: "dim" }, "Jobs"), h("div", { class: "big" }, `${view.jobs.running ?? 0} running`), h("div", {}, h("a", { href: "#/waiting" }, `${(view.jobs.waiting ?? 0) + (view.jobs.suspended ?? 0)} waiting`))),
      h("div", { class: "card" }, h("div", { class: "dim" }, `${unit} in use over time`), utilisation(store.series(), store.lost, store.now())),
    );
  }

  /** The schedulers that share the cluster; nothing if one leads. */
  function shared() {
    const found = store.cluster.shards ?? [];
    shards.hidden = found.length === 0;
    if (!found.length) return;
    show(
      shards,
      h("h2", {}, "Shards"),
      table(
        "Shards",
        ["Shard", "Holder", "Epoch", "Nodes", "Lent", "Borrowed", "Queues", "Waiting", "Wants"],
        found.map((one) =>
          h(
            "tr",
            {},
            h("td", {}, one.wanted ? String(one.shard) : `${one.shard} (ends)`),
            h("td", { class: "wrap" }, one.holder ?? h("span", { class: "dim" }, "not shown")),
            [one.epoch, one.nodes, one.lent, one.borrowed, one.queues, one.waiting, one.wants].map((n) => h("td", { class: "num" }, n.toLocaleString("en"))),
          ),
        ),
      ),
    );
  }

  function rows() {
    if (!details.open) return;
    const all = [...store.nodes.values()].filter((node) => !text || nodeWords(node).toLowerCase().includes(text));
    all.sort((a, b) => (a.name < b.name ? -1 : 1));
    const pages = Math.max(1, Math.ceil(all.length / ROWS));
    page = Math.min(page, pages - 1);
    const turn = (by) => () => { page += by; rows(); };
    show(
      list,
      table(
        "Nodes",
        ["Node", "Rack", "State", "GPUs in use", "Jobs"],
        all.slice(page * ROWS, (page + 1) * ROWS).map((node) =>
          h("tr", {}, h("td", {}, nodeLink(node.name)), h("td", {}, node.rack), h("td", {}, stateWords(node)), h("td", {}, gpuWords(node)), h("td", { class: "wrap" }, node.holders.map((one, i) => [i > 0 && ", ", one.key ? jobLink(one.key) : holderWords(one)]))),
        ),
        { class: "folds" },
      ),
      pages > 1 && h("div", { class: "row" }, h("button", { type: "button", "data-key": "back", disabled: page === 0, onclick: turn(-1) }, "Previous"), h("span", {}, `Page ${page + 1} of ${pages}`), h("button", { type: "button", "data-key": "on", disabled: page + 1 >= pages, onclick: turn(1) }, "Next")),
    );
  }

  let drawn = -Infinity;
  let due;
  function history() {
    clearTimeout(due);
    const wait = drawn + REDRAWN - performance.now();
    if (wait > 0) {
      due = setTimeout(history, wait);
      return;
    }
    drawn = performance.now();
    show(chart, byQueue(store.series(), store.lost, store.now(), app.colours, store.accelerators.length ? "GPUs" : "thousandths of a CPU"));
  }

  /** Fetch what was in use before the page was opened. */
  async function past() {
    try {
      store.setPast((await app.api.get("utilisation")).items);
    } catch {
      return; // the line then begins when the page was opened
    }
    drawn = -Infinity;
    history();
    summary();
  }

  function around() {
    summary();
    shared();
    history();
    markButtons();
    legend();
    rows();
    show(aside, panel(app, store.nodes.get(chosen), chosen));
  }

  modeButtons();
  grid.show(store.nodes);
  around();
  past();
  const timer = setInterval(past, PAST);
  if (chosen) choose(chosen);
  if (store.nodes.has(chosen)) grid.move(chosen);
  return {
    update(change) {
      if (change.moved) grid.show(store.nodes);
      else if (change.nodes) grid.changed(change.nodes);
      app.later("cluster", around);
    },
    params([name]) {
      choose(name);
      if (store.nodes.has(name) && name !== grid.chosen) grid.move(name);
    },
    lost() {
      drawn = -Infinity;
      history();
      summary();
    },
    themed() {
      drawn = -Infinity;
      history();
      legend();
      grid.redraw();
    },
    close() {
      clearInterval(timer);
      clearTimeout(due);
      grid.close();
    },
  };
}
