// Decisions: what each cycle decided, newest first; step back and forth with the buttons or the arrow keys. The cycles
// are those of the shadow, or those of a recording of the scheduler.

import { h, put, sentence, show, table } from "../dom.js";
import { clock, count, duration } from "../format.js";
import { jobLink, nodeLink, problem, tag } from "../parts.js";

const AT_ONCE = 50; // cycles of one request; `maar web` keeps as many of the shadow
const READ_ON = 500; // milliseconds until the next part of a long recording is asked for. Tuned by hand
const NEWEST = "newest"; // in addresses, instead of a number
const KINDS = { bind: "pods bound", nominate: "pods nominated", evict: "pods evicted", admit: "jobs admitted", resize: "jobs resized" };

/** What a plan does, in one line. */
export function tally(one) {
  const pods = (moves) => moves.reduce((sum, move) => sum + Object.keys(move.pods).length, 0);
  const parts = [
    [pods(one.bind) + (one.others.bind ?? 0), "bound"],
    [pods(one.nominate) + (one.others.nominate ?? 0), "nominated"],
    [one.evict.reduce((sum, each) => sum + each.pods.length, 0) + (one.others.evict ?? 0), "evicted"],
    [one.sizes.length + (one.others.resize ?? 0), "resized"],
    [one.admit.length + (one.others.admit ?? 0), "admitted"],
  ];
  return parts.filter(([number]) => number).map(([number, words]) => `${number} ${words}`).join(", ") || "nothing to do";
}

function moves(title, list) {
  return list.length > 0 && [h("h3", {}, title), table(title, ["Job", "Pods and nodes"], list.map((one) => h("tr", {}, h("td", {}, jobLink(one.job)), h("td", { class: "wrap" }, Object.entries(one.pods).slice(0, 64).map(([pod, node], i) => [i > 0 && ", ", `${pod} on `, nodeLink(node)]), Object.keys(one.pods).length > 64 && ` and ${Object.keys(one.pods).length - 64} more`))))];
}

/** How the cluster is now, beside what a decision would do. */
function outcome(now) {
  const parts = [
    ["of the pods that it would bind or promise room", [[now.sameNode, "on the same node"], [now.otherNode, "on another"], [now.waiting, "still waiting"], [now.gone, "gone"]]],
    ["of the jobs that it would admit", [[now.admitted, "admitted"], [now.notAdmitted, "not"]]],
    ["of the pods that it would evict", [[now.evicted, "gone or leaving"], [now.stayed, "still there"]]],
    ["of the jobs that it would resize", [[now.resized, "with that size"], [now.otherSize, "with another"]]],
  ];
  const told = ([title, counts]) => `${title}, ${counts.filter(([number]) => number).map(([number, words]) => `${number} ${words}`).join(", ")}`;
  return parts.filter(([, counts]) => counts.some(([number]) => number)).map(told).join("; ");
}

/** What a plan does, in tables. */
export function operations(one) {
  return [
    moves("Bound", one.bind),
    moves("Nominated: promised room that is being freed", one.nominate),
    one.evict.length > 0 && [h("h3", {}, "Evicted"), table("Evicted", ["Job", "Pods", "For", "Why"], one.evict.map((each) => h("tr", {}, h("td", {}, jobLink(each.job)), h("td", { class: "wrap" }, each.pods.join(", ")), h("td", {}, jobLink(each.beneficiary)), h("td", { class: "wrap" }, sentence(each.reason)))))],
    one.sizes.length > 0 && [h("h3", {}, "Sizes"), table("Sizes", ["Job", "Before", "After", "Why"], one.sizes.map((each) => h("tr", {}, h("td", {}, jobLink(each.job)), h("td", {}, each.before), h("td", {}, each.after || "suspended"), h("td", { class: "wrap" }, sentence(each.why)))))],
    one.admit.length > 0 && [h("h3", {}, "Admitted"), h("p", {}, one.admit.map((key, i) => [i > 0 && ", ", jobLink(key)]))],
    Object.keys(one.others).length > 0 && h("p", { class: "dim" }, "Of jobs that you may not see: ", Object.entries(one.others).map(([kind, number]) => `${number} ${KINDS[kind] ?? kind}`).join(", "), "."),
  ];
}

/** One decision, in tables. */
export function plan(one, now) {
  const happened = outcome(one.happened ?? {});
  return [
    h("p", {}, tag(one.shadow ? "shadow" : "recorded"), ` Decided at ${clock(one.at, now)}${one.seconds ? ` in ${one.seconds < 1 ? `${Math.round(one.seconds * 1000)} ms` : duration(one.seconds)}` : ""}.`, ` ${count(one.waiting, "job waits", "jobs wait")}.`),
    one.shadow
      ? h("p", { class: "dim" }, "Decided by this process in shadow, from the same cluster and configuration. The scheduler decides by itself.")
      : h("p", { class: "dim wrap" }, `Decided by the scheduler, before brakes: from its recording ${one.recording}.`),
    one.shadow && happened && h("p", {}, `What happened: ${happened}.`),
    operations(one),
    h("p", {}, h("a", { href: `#/what-if?decision=${one.number}${one.recording ? `&recording=${encodeURIComponent(one.recording)}` : ""}`, "data-key": "replay" }, "Decide it again with another configuration or other edits")),
    (one.wakeAt ?? null) !== null && h("p", { class: "dim" }, `The decision changes by itself at ${clock(one.wakeAt, now)}.`),
  ];
}

/** The number in an address; undefined: follow the newest. */
const numberOf = (text) => (text && text !== NEWEST ? Number(text) : undefined);

export function decisions(root, app, [wanted, chosen = ""]) {
  const { store, api } = app;
  let all = [];
  let next; // of a recording: where older cycles begin
  let about; // the recording
  let recordings = [];
  let recording = chosen;
  let at = numberOf(wanted);
  let timer;
  const list = h("ol", { class: "cycles", "aria-label": "Cycles" });
  const view = h("section", { class: "card", "aria-label": "Decision", id: "decision" });
  const bar = h("div", { class: "row" });
  const source = h("div", { class: "row" });
  const state = h("p", { class: "dim wrap", id: "recording", role: "status" });
  put(root, h("h1", {}, "Decisions"), source, state, bar, h("div", { class: "split" }, view, h("section", { class: "card", "aria-label": "Cycles" }, list)));
  const index = () => (at === undefined ? 0 : all.findIndex((one) => one.number === at));

  async function step(by) {
    const i = index() + by;
    if (i >= all.length && next) await older();
    const found = all[i];
    if (found) choose(found.number);
  }

  function choose(number) {
    at = number;
    const hash = recording ? `#/decisions/${number ?? NEWEST}/${encodeURIComponent(recording)}` : number === undefined ? "#/decisions" : `#/decisions/${number}`;
    app.go(hash, true);
    draw();
  }

  /** Cycles of the shadow (no name), or of a recording. */
  function open(name) {
    recording = name;
    all = [];
    next = about = undefined;
    choose(undefined);
    load();
  }

  function sources() {
    show(
      source,
      (recordings.length > 0 || recording) &&
        h(
          "label",
          {},
          "Decisions of",
          h("select", { "data-key": "source", id: "source", onchange: (event) => open(event.target.value) }, h("option", { value: "", selected: !recording }, "this process, in shadow"), names().map((name) => h("option", { value: name, selected: name === recording }, `recording ${name}`))),
        ),
    );
  }

  function names() {
    const known = recordings.filter((one) => !one.problem).map((one) => one.name);
    return recording && !known.includes(recording) ? [recording, ...known] : known;
  }

  function draw() {
    const now = store.now();
    const i = index();
    const one = all[i];
    show(
      bar,
      h("button", { type: "button", "data-key": "older", disabled: i < 0 || (i + 1 >= all.length && !next), onclick: () => step(1) }, "← Step back"),
      h("button", { type: "button", "data-key": "newer", disabled: i <= 0, onclick: () => step(-1) }, "Step forward →"),
      h("button", { type: "button", "data-key": "follow", "aria-pressed": String(at === undefined), onclick: () => choose(undefined) }, recording ? "The newest" : "Follow the newest"),
    );
    const words = about && [`${count(about.cycles, "cycle")} read`, !about.complete && "reading on", about.dropped > 0 && `${about.dropped} older ones are not listed`, about.problem].filter(Boolean);
    show(state, about && `${words.join("; ")}. Cycles that decided nothing new are left out.`);
    show(view, one ? [h("h2", {}, `Cycle ${one.number}`), plan(one, now)] : h("p", { class: "dim" }, all.length ? "This cycle is not listed." : "No decision yet."));
    show(
      list,
      all.map((each) => h("li", {}, h("button", { type: "button", "data-key": `cycle ${each.number}`, "aria-current": each === one && "true", onclick: () => choose(each.number) }, `${each.number} `, h("span", { class: "dim" }, `${clock(each.at, now)}: ${tally(each)}`)))),
      next && h("li", {}, h("button", { type: "button", "data-key": "more", onclick: () => older() }, "Older cycles")),
    );
  }

  async function load() {
    const asked = recording;
    try {
      const answer = await api.get("decisions", { limit: AT_ONCE, recording: asked });
      if (asked !== recording) return;
      all = [...answer.items].sort((a, b) => b.number - a.number);
      next = answer.next ?? undefined;
      about = answer.recording ?? undefined;
      while (next && at !== undefined && at < all.at(-1).number) await older();
      draw();
      if (about && !about.complete) timer = setTimeout(load, READ_ON);
    } catch (error) {
      show(state);
      show(view, problem(error));
    }
  }

  async function older() {
    const asked = recording;
    const answer = await api.get("decisions", { limit: AT_ONCE, recording: asked, before: next });
    if (asked !== recording) return;
    all = all.concat(answer.items);
    next = answer.next ?? undefined;
    draw();
  }

  function key(event) {
    if (event.target.closest("textarea, input, select") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowLeft") step(1);
    else if (event.key === "ArrowRight") step(-1);
    else return;
    event.preventDefault();
  }
  document.addEventListener("keydown", key);
  load();
  api
    .get("recordings")
    .then((answer) => {
      recordings = answer.items;
      sources();
    })
    .catch(() => sources());
  return {
    update: (change) => change.decisions && !recording && app.later("decisions", load),
    params([number, name = ""]) {
      at = numberOf(number);
      if (name === recording) draw();
      else {
        recording = name;
        all = [];
        next = about = undefined;
        sources();
        load();
      }
    },
    close() {
      clearTimeout(timer);
      document.removeEventListener("keydown", key);
    },
  };
}
