// Submit: a manifest of any supported kind, created with the viewer's own token. Only where `maar web` allows writes.

import { h, put, sentence, show } from "../dom.js";
import { span } from "../format.js";
import { jobLink, problem } from "../parts.js";

/** What became of one manifest. */
function created(one, now) {
  const { forecast } = one;
  return [
    h("p", { class: "good" }, `Created: ${one.kind} `, jobLink(`${one.namespace}/${one.name}`)),
    one.completed.length > 0 && h("p", { class: "dim wrap" }, "With ", one.completed.map((line, i) => [i > 0 && ", ", h("code", {}, line)])),
    forecast && h("p", {}, forecast.known ? `Starts ${span(forecast.startP50, forecast.startP90, now)}.` : forecast.words),
    one.warnings.map((line) => h("p", { class: "warn" }, sentence(line))),
  ];
}

export function submit(root, app) {
  const text = h("textarea", { id: "manifest", rows: 18, spellcheck: "false", required: true, value: app.kept.manifest ?? "", placeholder: "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n..." });
  const told = h("div", { role: "status" });
  const send = h("button", { type: "submit", class: "main" }, "Submit");
  put(
    root,
    h("h1", {}, "Submit a job"),
    h(
      "form",
      {
        class: "card",
        async onsubmit(event) {
          event.preventDefault();
          app.kept.manifest = text.value;
          send.disabled = true;
          show(told, h("p", { class: "dim" }, "Submitting."));
          try {
            const made = await app.api.request("POST", "jobs", { body: { manifests: text.value } });
            show(told, made.created.map((one) => created(one, app.store.now())));
            app.kept.manifest = "";
          } catch (error) {
            show(told, problem(error));
          }
          send.disabled = false;
        },
      },
      h("label", { for: "manifest" }, "Manifest, as YAML"),
      text,
      h("div", { class: "row" }, send),
      h("p", { class: "dim" }, "It is created with your own rights. Maar fills in the scheduler name, and suspends the job where its kind allows that."),
      told,
    ),
  );
  return { update() {} };
}
