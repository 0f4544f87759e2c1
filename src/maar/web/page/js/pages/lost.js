// Not found: an address that leads to no page. It says so, and leads back.

import { h, put } from "../dom.js";

export function lost(root, app) {
  const writes = /^#\/submit\b/.test(location.hash) && !app.can.write;
  put(
    root,
    h("h1", {}, "Page not found"),
    h("div", { class: "card" }, h("p", { role: "alert", class: "wrap" }, "There is no page at ", h("code", {}, location.hash || "/"), writes && ": this Maar does not allow writes", "."), h("p", {}, h("a", { href: "#/cluster", "data-key": "back" }, "Back to the cluster"))),
  );
  return { update() {} };
}
