// Waiting: every waiting job with its place, why it waits, and when it may start. What would unblock a job is searched
// when its row is opened, because each search decides many times.

import { h, put, sentence, show } from "../dom.js";
import { count, duration, short, amount, span } from "../format.js";
import { cell, jobLink, missing, problem, tag } from "../parts.js";
import { changes, placeWords } from "./job.js";
import { keyOf } from "../store.js";

const STATES = new Set(["waiting", "suspended", "starting", "invalid"]);
const ROWS = 50;

export function waiting(root, app, _params, query) {
  const { store } = app;
  const opened = new Map(); // key to what is known: JobDetail, an error, or undefined while it loads
  let page = 0;
  const list = h("div");
  const queue = h("select", { id: "queue", onchange: () => { page = 0; draw(); } });
  const text = h("input", { type: "search", id: "filter", placeholder: "name or reason", oninput: () => { page = 0; draw(); } });
  const asked = query.get("queue");
  const unknown = asked && !store.queues.has(asked) && missing(["There is no queue ", h("code", {}, asked), ": these are the jobs of all queues."], asked, store.queues.keys(), (name) => h("a", { href: `#/waiting?queue=${encodeURIComponent(name)}` }, name));
  put(root, h("h1", {}, "Waiting jobs"), unknown, h("div", { class: "card" }, h("div", { class: "row" }, h("label", {}, "Queue", queue), h("label", {}, "Filter", text)), list));
  show(queue, h("option", { value: "" }, "all"), [...store.queues.keys()].map((name) => h("option", { value: name, selected: name === asked }, name)));

  async function open(job) {
    const key = keyOf(job);
    if (opened.has(key)) {
      opened.delete(key);
      draw();
      return;
    }
    opened.set(key, undefined);
    draw();
    try {
      opened.set(key, (await app.api.get(`jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`)).detail);
    } catch (error) {
      opened.set(key, error);
    }
    draw();
  }

  function more(key) {
    const found = opened.get(key);
    if (!found) return h("p", { class: "dim" }, "Searching for changes that would start it.");
    if (found instanceof Error) return problem(found);
    return [placeWords(found.place), changes(found.unblock)];
  }

  function draw() {
    const words = text.value.trim().toLowerCase();
    const jobs = [...store.jobs.values()].filter((job) => STATES.has(job.state) && (!queue.value || job.queue === queue.value) && (!words || `${keyOf(job)} ${job.why}`.toLowerCase().includes(words)));
    jobs.sort((a, b) => (a.queue < b.queue ? -1 : a.queue > b.queue ? 1 : 0) || (a.place ?? Infinity) - (b.place ?? Infinity) || a.since - b.since || (keyOf(a) < keyOf(b) ? -1 : 1));
    const pages = Math.max(1, Math.ceil(jobs.length / ROWS));
    page = Math.min(page, pages - 1);
    const now = store.now();
    const gpus = (job) => store.accelerators.map((name) => job.requests[name] ?? 0).reduce((a, b) => a + b, 0);
    const row = (job) => {
      const key = keyOf(job);
      const { forecast } = job;
      const isOpen = opened.has(key);
      return [
        h(
          "tr",
          { "data-job": key },
          cell("Job", jobLink(key), " ", tag(job.state)),
          cell("Queue and place", job.queue, job.place ? h("span", { class: "dim" }, `, place ${job.place}`) : ""),
          cell("Needs", store.accelerators.length ? count(gpus(job), "GPU") : `${amount("cpu", job.requests.cpu ?? 0)} ${short("cpu")}`),
          cell("Waits", duration(now - job.since)),
          h("td", { class: "wrap" }, job.why ? sentence(job.why) : h("span", { class: "dim" }, "not known yet")),
          cell("Starts", forecast?.verdict === "never" ? h("strong", { class: "bad" }, "never as things are") : forecast ? span(forecast.startP50, forecast.startP90, now) : "unknown"),
          h("td", {}, h("button", { type: "button", "data-key": `open ${key}`, "aria-expanded": String(isOpen), onclick: () => open(job) }, isOpen ? "Close" : "What would start it?")),
        ),
        isOpen && h("tr", {}, h("td", { colspan: 7, class: "more" }, more(key))),
      ];
    };
    const turn = (by) => () => { page += by; draw(); };
    const heads = ["Job", "Queue and place", "Needs", "Waits", "Why", "Starts (p50 to p90)", ""];
    show(
      list,
      h("p", { class: "dim" }, count(jobs.length, "job waits", "jobs wait")),
      h(
        "div",
        { class: "scroll" },
        h("table", { class: "folds" }, h("caption", { class: "unseen" }, "Waiting jobs"), h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, jobs.length ? jobs.slice(page * ROWS, (page + 1) * ROWS).map(row) : h("tr", {}, h("td", { colspan: 7, class: "dim" }, "No job waits.")))),
      ),
      pages > 1 && h("div", { class: "row" }, h("button", { type: "button", "data-key": "back", disabled: page === 0, onclick: turn(-1) }, "Previous"), h("span", {}, `Page ${page + 1} of ${pages}`), h("button", { type: "button", "data-key": "on", disabled: page + 1 >= pages, onclick: turn(1) }, "Next")),
    );
  }

  draw();
  return { update: (change) => change.jobs && app.later("waiting", draw) };
}
