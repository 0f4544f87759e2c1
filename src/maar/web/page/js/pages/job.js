// Job: its story as a timeline, sizes, reasons, forecast, what would unblock it, and its pods on the grid.

import { sizes, startSpan } from "../charts.js";
import { h, put, sentence, show, table } from "../dom.js";
import { amount, clock, count, duration, percent, relative, short, span } from "../format.js";
import { Grid } from "../grid.js";
import { jobLink, jobLinks, missing, nodeLink, problem, tag } from "../parts.js";
import { colouring, nodeWords, tipOf } from "./cluster.js";

const PAUSE = 3000; // milliseconds between two requests for one job: each costs a decision. Tuned by hand
const SEARCH = 30000; // milliseconds between two searches for what would start it. Tuned by hand
const WAITS = new Set(["waiting", "starting", "suspended", "invalid"]);
const STARTED = new Set(["Started", "Scheduled"]); // the first change of a story that is whole
const BAD = /evicted|preempted|failed|invalid|suspended|stopped/i;
const GOOD = /scheduled|admitted|nominated|started|resumed|succeeded/i;

/** How a job is placed in its queue, and what is ahead of it. */
export function placeWords(place) {
  if (!place) return undefined;
  const ahead = (title, items) =>
    items?.length > 0 && h("details", {}, h("summary", {}, title), h("ul", {}, items.map((one) => h("li", {}, one.name?.includes("/") ? jobLink(one.name) : (one.name ?? "another job"), h("span", { class: "dim" }, ` by ${one.by}: `, sentence(one.words))))));
  return h(
    "div",
    { class: "place" },
    h("p", {}, `Place ${place.number} of ${place.waiting} in queue ${place.queue}.`),
    ahead(`${count(place.number - 1, "job")} ahead`, place.ahead),
    ahead(`${count(place.queuesAhead?.length ?? 0, "queue")} ahead`, place.queuesAhead),
    ahead(`${count(place.namespacesAhead?.length ?? 0, "namespace")} ahead`, place.namespacesAhead),
  );
}

const STARTS = { starts: "it starts at once", nominated: "it starts when the room is free", admitted: "it is admitted" };

/** The changes that would start a job. */
export function changes(unblock) {
  if (!unblock) return undefined;
  if (!unblock.changes.length)
    return h("p", { class: "dim" }, unblock.complete ? "No single change of the known kinds would start it." : "No change was found in the time for the search.");
  return h(
    "div",
    {},
    h("h3", {}, "What would start it"),
    h(
      "ol",
      { class: "changes" },
      unblock.changes.map((one) =>
        h(
          "li",
          { class: "wrap" },
          sentence(one.words),
          h("span", { class: "dim" }, `: ${STARTS[one.start] ?? one.start}`),
          (one.evicts.length > 0 || one.delays.length > 0 || one.othersLose > 0) &&
            h("div", { class: "warn" }, one.evicts.length > 0 && ["Loses workers: ", jobLinks(one.evicts), ". "], one.delays.length > 0 && ["Waits longer: ", jobLinks(one.delays), ". "], one.othersLose > 0 && `${count(one.othersLose, "other job")} would lose or wait.`),
        ),
      ),
    ),
    !unblock.complete && h("p", { class: "dim" }, "The time for the search ended before all kinds of change were tried."),
  );
}

/** The sizes that the story tells, as points. Before its first start a job has none; before any other change its size is not known. */
function sizePoints(story, job) {
  const told = story.filter((one) => (one.workers ?? null) !== null).sort((a, b) => a.at - b.at);
  const fromStart = STARTED.has(told[0]?.what);
  return [...(fromStart ? [[job.created, 0]] : []), ...told.map((one) => [one.at, one.workers])];
}

/** How fast an elastic job is with more workers. */
function speedUp(speeds) {
  if (!speeds?.length) return undefined;
  const row = (one) => h("tr", {}, h("td", {}, one.workers), h("td", {}, `${one.speed.toFixed(2)} times`), h("td", {}, percent(one.speed, one.workers)), h("td", { class: "dim" }, one.measured ? "measured" : "computed"));
  return [h("h3", {}, "Speed-up, compared with one worker"), table("Speed-up", ["Workers", "Speed", "Of linear", ""], speeds.map(row))];
}

const SOURCES = { object: "its object", event: "events", history: "the history" };

function story(items, without, now) {
  if (!items.length && !without?.length) return h("p", { class: "dim" }, "Nothing has been recorded yet.");
  const kind = (what) => (BAD.test(what) ? "bad" : GOOD.test(what) ? "good" : "");
  return [
    h(
      "ol",
      { class: "story" },
      [...items]
        .sort((a, b) => a.at - b.at)
        .map((one) => h("li", { class: kind(one.what) }, h("time", { datetime: new Date(one.at * 1000).toISOString() }, clock(one.at, now)), " ", h("strong", {}, one.what), h("div", { class: "wrap" }, sentence(one.words)), h("span", { class: "dim" }, `from ${SOURCES[one.source] ?? one.source}`))),
    ),
    without?.length > 0 && h("p", { class: "warn" }, `Not complete: ${without.join(" and ")} cannot be read now.`),
  ];
}

function reasons(list) {
  return h(
    "ul",
    { class: "reasons" },
    list.map((one) => h("li", { class: "wrap" }, one.never && h("strong", { class: "bad" }, "Never as things are: "), sentence(one.message), h("span", { class: "dim" }, ` (${one.plugin}: ${one.code})`))),
  );
}

/** How good forecasts of such jobs were. */
function trust(of) {
  if (!of || (of.coverageP90 ?? null) === null || of.judged === of.censored) return undefined;
  const error = (of.medianError ?? null) === null ? "" : ` The median error of the first time was ${duration(of.medianError)}.`;
  return h("p", { class: "dim" }, `So far ${percent(of.coverageP90, 1)} of ${count(of.judged, "job")} of queue ${of.queue} (forecast ${of.age}) started by the second time.${error}`);
}

function forecast(one, job, now) {
  if (one?.verdict === "never") return h("p", {}, h("strong", { class: "bad" }, "Never as things are: "), sentence(one.words.replace(/^never: /, "")));
  if (!one?.known) return h("p", { class: "dim" }, one?.words || "unknown");
  return [
    job.state !== "running" && startSpan(one.startP50, one.startP90, now),
    (one.finishP50 ?? null) !== null && h("p", {}, `Ends ${span(one.finishP50, one.finishP90, now)}.`),
    (one.withinHour ?? null) !== null && job.state !== "running" && h("p", {}, `Starts within the hour with a chance of ${percent(one.withinHour, 1)}.`),
    one.words && h("p", { class: "dim" }, one.words),
    one.rollouts > 0 && (one.startP50 ?? one.finishP50 ?? null) !== null && h("p", { class: "dim" }, `From ${count(one.rollouts, "roll-out")} ${one.arrivals ? "with" : "without"} jobs that come later. The first time is as likely too late as too early; 9 of 10 times it happens before the second.${(one.age ?? null) === null ? "" : ` Made ${duration(one.age)} ago.`}`),
    trust(one.trust),
  ];
}

/** A form for changes. It is beside what is drawn again and again, so that nothing that is typed gets lost. */
function changing(act) {
  const fields = [
    ["minWorkers", "Fewest workers", "number"],
    ["maxWorkers", "Most workers", "number"],
    ["queue", "Queue", "text"],
    ["priorityClass", "Priority class", "text"],
  ].map(([name, label, type]) => ({ name, label, type, input: h("input", { type, min: type === "number" && 1, autocomplete: "off" }) }));
  const send = (event) => {
    event.preventDefault();
    const stated = fields.filter(({ input }) => input.value !== "");
    act("Changed.", "PATCH", Object.fromEntries(stated.map(({ name, type, input }) => [name, type === "number" ? Number(input.value) : input.value])));
  };
  return h(
    "details",
    { class: "card" },
    h("summary", {}, "Change it"),
    h("form", { onsubmit: send }, h("div", { class: "row" }, fields.map(({ label, input }) => h("label", {}, label, input)), h("button", { type: "submit" }, "Change")), h("p", { class: "dim" }, "An empty field stays as it is. What the kind of the job does not allow is refused with the reason.")),
  );
}

export function job(root, app, [namespace, name]) {
  const { store, api } = app;
  const key = `${namespace}/${name}`;
  const path = `jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const head = h("div");
  const left = h("div");
  const right = h("div");
  const told = h("div", { role: "status" });
  const host = h("section", { class: "card", "aria-label": "Pods on the grid" }, h("h2", {}, "Its pods on the grid"));
  const title = h("h1", { class: "wrap" }, key);
  const change = app.can.write ? changing(act) : undefined;
  put(root, title, head, told, change, h("div", { class: "halves" }, left, right), host);
  let grid;
  let found; // the changes that the last search found
  let searched = -Infinity;
  let asked = -Infinity;
  let seen; // the job as the last answer had it, to see whether it changed

  async function act(words, method, body) {
    show(told);
    try {
      const made = await api.request(method, path, { body });
      show(told, h("p", { class: "good" }, words), (made.warnings ?? []).map((one) => h("p", { class: "warn" }, sentence(one))));
      await load();
    } catch (error) {
      show(told, problem(error));
    }
  }

  function buttons(view) {
    if (!app.can.write) return undefined;
    const runs = view.state === "running" || view.state === "starting";
    return h(
      "div",
      { class: "row" },
      h("button", { type: "button", "data-key": "hold", onclick: () => (view.held ? act("Released.", "PATCH", { hold: false }) : act("Held.", "PATCH", { hold: true })) }, view.held ? "Release" : "Hold"),
      runs && h("button", { type: "button", "data-key": "stop", onclick: () => act("Held, and it stops.", "PATCH", { hold: true, stop: true }) }, "Hold and stop"),
      h("button", { type: "button", "data-key": "cancel", onclick: () => confirm(`Delete ${key}?`) && act("Deleted.", "DELETE") }, "Cancel the job"),
    );
  }

  /** That there is no such job: nothing else is shown, so that it does not look like one. */
  function absent() {
    show(title, "Job not found");
    show(head, missing(["There is no such job, or you may not see it: ", h("code", {}, key), "."], key, store.jobs.keys(), jobLink), h("p", {}, h("a", { href: "#/waiting", "data-key": "back" }, "Back to the waiting jobs")));
    show(left);
    show(right);
    host.hidden = true;
    if (change) change.hidden = true;
  }

  function draw(detail, searching) {
    const { job: view } = detail;
    if (title.textContent !== key) show(title, key);
    if (change) change.hidden = false;
    const now = store.now();
    const waits = WAITS.has(view.state);
    const points = sizePoints(detail.story, view);
    const pods = Object.entries(view.pods).map(([state, number]) => `${number} ${state}`).join(", ");
    show(
      head,
      h("p", {}, tag(view.state), view.held && " held by its owner,", ` queue ${view.queue}, priority ${view.priority}, created ${relative(view.created, now)}`, waits && `, waits for ${duration(now - view.since)}`, view.owner && h("span", { class: "dim" }, `, ${view.owner.kind} ${view.owner.name}`)),
      buttons(view),
    );
    show(
      left,
      waits && h("section", { class: "card", "aria-label": "Why it waits" }, h("h2", {}, "Why it waits"), detail.reasons.length ? reasons(detail.reasons) : h("p", { class: "dim" }, view.why ? sentence(view.why) : "Not known yet."), placeWords(detail.place), searching ? h("p", { class: "dim" }, "Searching for changes that would start it.") : changes(detail.unblock)),
      h("section", { class: "card", "aria-label": "Forecast" }, h("h2", {}, "Forecast"), forecast(detail.forecast, view, now)),
      h(
        "section",
        { class: "card", "aria-label": "What it needs and has" },
        h("h2", {}, "What it needs and has"),
        h("p", {}, `At least ${count(view.minimum, "pod")}; has ${pods || "no pods"}.`),
        view.elastic && h("p", {}, `Elastic: ${view.elastic.now} workers, from ${view.elastic.min} to ${view.elastic.max}.`),
        view.elastic && points.length > 0 && sizes(points, view.created, Math.max(view.elastic?.max ?? 1, ...points.map(([, size]) => size)), now),
        speedUp(detail.speeds),
        table("Amounts", ["Resource", "Requested", "Has"], Object.keys(view.requests).map((one) => h("tr", {}, h("td", {}, short(one)), h("td", {}, amount(one, view.requests[one])), h("td", {}, amount(one, view.allocated[one] ?? 0))))),
        detail.needs.length > 0 && h("ul", {}, detail.needs.map((one) => h("li", {}, `${count(one.pods, "pod")}${one.role ? ` (${one.role})` : ""}: `, Object.entries(one.requests).map(([resource, text]) => `${short(resource)} ${text}`).join(", ")))),
      ),
    );
    show(
      right,
      h("section", { class: "card", "aria-label": "Story" }, h("h2", {}, "Story"), story(detail.story, detail.storyWithout, now)),
      h("details", { class: "card" }, h("summary", {}, count(detail.pods.length, "pod")), table("Pods", ["Pod", "Status", "Node"], detail.pods.slice(0, 500).map((pod) => h("tr", {}, h("td", { class: "wrap" }, pod.name, pod.role && h("span", { class: "dim" }, ` ${pod.role}`)), h("td", {}, pod.status), h("td", {}, pod.node ? nodeLink(pod.node) : ""))))),
    );
    const on = new Set(detail.pods.map((pod) => pod.node).filter(Boolean));
    host.hidden = on.size === 0;
    if (!on.size) return;
    if (!grid) {
      grid = new Grid(host, app.colours, { colourOf: colouring(app, "job"), tip: tipOf, words: nodeWords, choose: (node) => app.go(`#/cluster/${encodeURIComponent(node.name)}`), height: 320, label: `Nodes of ${key}` });
      grid.holder = key;
    }
    grid.show(new Map([...store.nodes].filter(([node]) => on.has(node))));
  }

  async function load(again = false) {
    try {
      seen = JSON.stringify(store.jobs.get(key));
      asked = performance.now();
      const { detail } = await api.get(path, { unblock: "false" }, stop.signal);
      const search = WAITS.has(detail.job.state) && asked > searched + SEARCH;
      draw(search || !found ? detail : { ...detail, unblock: found }, search);
      if (!search) return;
      searched = asked;
      const whole = (await api.get(path, {}, stop.signal)).detail;
      found = whole.unblock;
      draw(whole, false);
    } catch (error) {
      if (error.name === "AbortError" || (again && error.status !== 404)) return;
      if (error.status === 404) absent();
      else show(head, problem(error));
    }
  }

  const stop = new AbortController();
  const look = setInterval(() => JSON.stringify(store.jobs.get(key)) !== seen && load(true), PAUSE);
  show(head, h("p", { class: "dim" }, "Loading."));
  load();
  return {
    update(change) {
      const now = JSON.stringify(store.jobs.get(key));
      if (change.jobs && now !== seen && performance.now() > asked + PAUSE) app.later("job", () => load(true));
      else if (grid && change.nodes) {
        for (const node of change.nodes) if (grid.nodes.has(node)) grid.nodes.set(node, store.nodes.get(node));
        grid.changed(change.nodes);
      }
    },
    themed: () => grid?.redraw(),
    close() {
      stop.abort();
      clearInterval(look);
      grid?.close();
    },
  };
}
