// Submit: a manifest of any supported kind, created with the viewer's own token. Only where `maar web` allows writes.

import { h, show } from "../dom.js";
import { span } from "../format.js";
import { jobLink, problem } from "../parts.js";

export function submit(root, app) {
  const text = h("textarea", { id: "manifest", rows: 18, spellcheck: "false", required: true, value: app.kept.manifest ?? "", placeholder: "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n..." });
  const told = h("div", { role: "status" });
  const send = h("button", { type: "submit", class: "main" }, "Submit");
  root.append(
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
            const key = made.job?.namespace ? `${made.job.namespace}/${made.job.name}` : `${made.namespace}/${made.name}`;
            const forecast = made.forecast;
            show(told, h("p", { class: "good" }, "Created: ", jobLink(key)), forecast && h("p", {}, forecast.known ? `Starts ${span(forecast.startP50, forecast.startP90, app.store.now())}.` : forecast.words), (made.warnings ?? []).map((one) => h("p", { class: "warn" }, one)));
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
