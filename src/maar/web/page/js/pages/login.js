// Log in with a bearer token. It stays in this tab.

import { h, put, show } from "../dom.js";
import { problem } from "../parts.js";

export function login(root, app, message) {
  const input = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const told = h("div", {}, message && h("p", { class: "error", role: "alert" }, message));
  put(
    root,
    h(
      "form",
      {
        class: "card login",
        "aria-label": "Log in",
        async onsubmit(event) {
          event.preventDefault();
          try {
            await app.enter(input.value.trim());
          } catch (error) {
            show(told, problem(error.status === 401 ? new Error("The cluster does not accept this token.") : error));
          }
        },
      },
      h("h1", {}, "Log in"),
      h("p", {}, "Paste a token of the cluster, for example from ", h("code", {}, "kubectl create token NAME"), "."),
      h("label", { for: "token" }, "Token"),
      input,
      h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Log in")),
      told,
      h("p", { class: "dim" }, "The token stays in this tab and is forgotten when you close it. You see the jobs of namespaces in which you may list pods."),
    ),
  );
  input.focus();
  return { update() {}, close() {} };
}
