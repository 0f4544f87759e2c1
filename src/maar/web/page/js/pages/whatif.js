// What if: edits of the live cluster, and the difference that they would make. Nothing is written.

import { h, put, sentence, show, table } from "../dom.js";
import { count, duration, span } from "../format.js";
import { jobLink, jobLinks, problem } from "../parts.js";
import { operations, tally } from "./decisions.js";

/** The edits that the form offers. Names of fields are those of the API; `read` makes a field's value from its text. */
const words = (text) => text.split(/[\s,]+/).filter(Boolean);
const number = (text) => Number(text);
const EDITS = {
  "add-nodes-like": { label: "Add nodes", fields: [["like", "Copies of node", "", String, "nodes"], ["count", "How many", "2", number]] },
  cordon: { label: "Cordon nodes", fields: [["nodes", "Nodes", "n1 n2", words, "nodes"]] },
  uncordon: { label: "Uncordon nodes", fields: [["nodes", "Nodes", "n1 n2", words, "nodes"]] },
  "remove-nodes": { label: "Remove nodes", fields: [["nodes", "Nodes", "n1 n2", words, "nodes"]] },
  "set-weight": { label: "Weight of a queue", fields: [["queue", "Queue", "", String, "queues"], ["weight", "Weight", "4", number]] },
  "set-amounts": {
    label: "Limit, guarantee or deserved of a queue",
    fields: [["queue", "Queue", "", String, "queues"], ["of", "Which", "capability", String, ["capability", "guarantee", "deserved"]], ["resource", "Resource", "nvidia.com/gpu", String, "resources"], ["amount", "Amount (CPU in thousandths)", "16", number]],
    make: ({ queue, of, resource, amount }) => ({ queue, of, amounts: { [resource]: amount } }),
  },
  "open-queue": { label: "Open a queue", fields: [["queue", "Queue", "", String, "queues"]] },
  "set-priority": { label: "Priority of a job", fields: [["job", "Job", "namespace/name", String, "jobs"], ["priority", "Priority", "1000", number]] },
  "set-queue": { label: "Move a job to another queue", fields: [["job", "Job", "namespace/name", String, "jobs"], ["queue", "Queue", "", String, "queues"]] },
  "set-minimum": { label: "Minimum of a job", fields: [["job", "Job", "namespace/name", String, "jobs"], ["minimum", "Pods", "2", number]] },
  "end-jobs": { label: "End jobs", fields: [["jobs", "Jobs", "namespace/name", words, "jobs"]] },
  "set-algorithm": { label: "Elastic algorithm of a pool", fields: [["pool", "Pool", "default", String], ["algorithm", "Algorithm", "afs-l", String]] },
};

function evictions(title, list) {
  return list.length > 0 && [h("h3", {}, title), table(title, ["Job", "Pods", "For", "Why"], list.map((one) => h("tr", {}, h("td", {}, jobLink(one.job)), h("td", {}, one.pods.length), h("td", {}, jobLink(one.beneficiary)), h("td", { class: "wrap" }, sentence(one.reason)))))];
}

const said = (reasons) => (reasons.length ? reasons.map((one) => one.message).join("; ") : "does not wait");

/** The answer, as before and after. */
export function answer(found, now) {
  const others = found.others ?? {};
  const nothing = !found.starts.length && !found.stays.length && !found.evicted.length && !found.spared.length && !found.resized.length && !found.reasons.length && !Object.keys(others).length && !found.forecasts?.length;
  const shift = (one) => {
    const [before, after] = [one.before?.startP50 ?? null, one.after?.startP50 ?? null];
    if (before === null || after === null) return "";
    const by = after - before;
    return Math.abs(by) < 30 ? "the same" : h("span", { class: by < 0 ? "good" : "bad" }, `${duration(by)} ${by < 0 ? "earlier" : "later"}`);
  };
  return [
    h("h2", {}, "If"),
    h("ul", {}, found.edits.map((one) => h("li", { class: "wrap" }, sentence(one)))),
    h("h2", {}, "then"),
    nothing && h("p", {}, "nothing changes in the decision."),
    found.starts.length > 0 && h("p", {}, h("strong", { class: "good" }, "Starts: "), jobLinks(found.starts, others.starts)),
    found.stays.length > 0 && h("p", {}, h("strong", { class: "bad" }, "No longer starts: "), jobLinks(found.stays, others.stays)),
    evictions("Evicted only with the edits", found.evicted),
    evictions("No longer evicted", found.spared),
    found.resized.length > 0 && [h("h3", {}, "Sizes"), table("Sizes", ["Job", "Before", "After"], found.resized.map((one) => h("tr", {}, h("td", {}, jobLink(one.job)), h("td", {}, one.before), h("td", {}, one.after || "suspended"))))],
    found.reasons.length > 0 && [h("h3", {}, "Why jobs wait"), table("Why jobs wait", ["Job", "Before", "After"], found.reasons.map((one) => h("tr", {}, h("td", {}, jobLink(one.job)), h("td", { class: "wrap", "data-head": "Before" }, sentence(said(one.before))), h("td", { class: "wrap", "data-head": "After" }, sentence(said(one.after))))), { class: "folds" })],
    found.forecasts?.length > 0 && [h("h3", {}, "Forecast start"), table("Forecast start", ["Job", "Before", "After", "Difference"], found.forecasts.map((one) => h("tr", {}, h("td", {}, jobLink(one.job)), h("td", {}, span(one.before?.startP50, one.before?.startP90, now)), h("td", {}, span(one.after?.startP50, one.after?.startP90, now)), h("td", {}, shift(one))))), h("p", { class: "dim" }, `From ${count(found.forecast?.rollouts ?? 0, "roll-out")} of the same futures, ${found.forecast?.arrivals ? "with" : "without"} jobs that come later: once without and once with the edits.${found.forecast?.others ? ` ${count(found.forecast.others, "job")} of others wait too.` : ""}`)],
    found.forecast?.words && h("p", { class: "dim" }, `Forecast starts: ${found.forecast.words}.`),
    found.plan && h("details", {}, h("summary", {}, `The whole plan with the edits: ${tally(found.plan)}`), operations(found.plan)),
    Object.keys(others).length > 0 && h("p", { class: "dim" }, "Of jobs that you may not see: ", Object.entries(others).map(([kind, value]) => `${value} in “${kind}”`).join(", "), "."),
  ];
}

export function whatIf(root, app, _params, query) {
  const decision = query.get("decision"); // an earlier cycle, to be decided again
  const recording = query.get("recording"); // the recording that it is from
  const { store, api } = app;
  const kept = (app.kept.edits ??= []); // survives a visit to another page
  const edits = h("div", { id: "edits" });
  const result = h("section", { class: "card", "aria-live": "polite", "aria-label": "Answer", hidden: true });
  const kind = h("select", { id: "kind" }, Object.entries(EDITS).map(([key, one]) => h("option", { value: key }, one.label)));
  const manifests = h("textarea", { id: "manifests", spellcheck: "false", placeholder: "Manifests of jobs, nodes or queues to add, as YAML" });
  const config = h("textarea", { id: "other-config", spellcheck: "false", placeholder: "Another scheduler configuration; empty: the present one" });
  const ask = h("button", { type: "submit", class: "main" }, "What would happen?");
  const lists = h("div", {}, choices("nodes", [...store.nodes.keys()].slice(0, 500)), choices("queues", store.queues.keys()), choices("jobs", [...store.jobs].filter(([, job]) => job.state !== "finished").map(([key]) => key).slice(0, 500)), choices("resources", new Set([...store.accelerators, ...Object.keys(store.cluster?.allocatable ?? {})])));
  put(
    root,
    h("h1", {}, "What if"),
    decision
      ? h("p", { id: "about" }, h("strong", {}, `About cycle ${decision}${recording ? ` of the recording ${recording}` : ""}. `), "Maar decides it again, as it was and with your edits, and shows the difference. ", h("a", { href: "#/what-if" }, "Ask about now instead"), ".")
      : h("p", { class: "dim" }, "Maar decides once as things are and once with your edits, on the live cluster, and shows the difference. Nothing is written."),
    h(
      "div",
      { class: "halves" },
      h(
        "form",
        { class: "card", onsubmit: submit, "aria-label": "Edits" },
        edits,
        h("div", { class: "row" }, h("label", {}, "Kind of edit", kind), h("button", { type: "button", onclick: () => { kept.push({ kind: kind.value, values: {} }); draw(); edits.lastElementChild?.querySelector("input, select")?.focus(); } }, "Add this edit")),
        h("details", {}, h("summary", {}, "Add jobs, nodes or queues"), h("label", { for: "manifests" }, "Manifests"), manifests),
        h("details", { open: Boolean(decision) }, h("summary", {}, "Another configuration"), h("label", { for: "other-config" }, "Configuration"), config),
        h("div", { class: "row" }, ask),
        lists,
      ),
      result,
    ),
  );

  function choices(name, values) {
    return h("datalist", { id: `known-${name}` }, [...values].map((value) => h("option", { value })));
  }

  function field(edit, [name, label, hint, , known], i) {
    const set = (event) => (edit.values[name] = event.target.value);
    if (Array.isArray(known)) {
      edit.values[name] ??= known[0];
      return h("label", {}, label, h("select", { name, "data-key": `${i} ${name}`, onchange: set }, known.map((one) => h("option", { value: one, selected: edit.values[name] === one }, one))));
    }
    return h("label", {}, label, h("input", { name, "data-key": `${i} ${name}`, value: edit.values[name] ?? "", placeholder: hint, list: known && `known-${known}`, required: true, autocomplete: "off", oninput: set }));
  }

  function draw() {
    show(
      edits,
      kept.map((edit, i) =>
        h("fieldset", { class: "edit" }, h("legend", {}, EDITS[edit.kind].label), h("div", { class: "row" }, EDITS[edit.kind].fields.map((one) => field(edit, one, i)), h("button", { type: "button", "data-key": `${i} remove`, onclick: () => { kept.splice(i, 1); draw(); } }, "Remove"))),
      ),
    );
  }

  function body() {
    const made = kept.map((edit) => {
      const { fields, make } = EDITS[edit.kind];
      const values = Object.fromEntries(fields.map(([name, , , read]) => [name, read((edit.values[name] ?? "").trim())]));
      return { edit: edit.kind, ...(make ? make(values) : values) };
    });
    if (config.value.trim()) made.push({ edit: "use-config", text: config.value });
    return { edits: made, ...(manifests.value.trim() ? { manifests: manifests.value } : {}), ...(decision ? { decision: Number(decision) } : {}), ...(recording ? { recording } : {}) };
  }

  async function submit(event) {
    event.preventDefault();
    const asked = body();
    result.hidden = false;
    if (!asked.edits.length && !asked.manifests) {
      show(result, h("p", { class: "dim" }, "Add an edit first."));
      return;
    }
    ask.disabled = true;
    show(result, h("p", { class: "dim" }, `Deciding with ${count(asked.edits.length, "edit")}.`));
    try {
      show(result, answer((await api.request("POST", "what-if", { body: asked })).whatIf, store.now()));
    } catch (error) {
      show(result, problem(error));
    }
    ask.disabled = false;
  }

  draw();
  return { update() {} };
}
