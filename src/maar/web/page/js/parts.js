// Small pieces that several pages use.

import { h } from "./dom.js";

export function jobHref(key) {
  const [namespace, ...name] = key.split("/");
  return `#/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name.join("/"))}`;
}

/** A link to a job by its key; without a name if the viewer may not know it. */
export function jobLink(key) {
  return key ? h("a", { href: jobHref(key), "data-key": `job ${key}`, class: "key" }, key) : h("span", { class: "dim" }, "another job");
}

export function nodeLink(name) {
  return h("a", { href: `#/cluster/${encodeURIComponent(name)}`, "data-key": `node ${name}` }, name);
}

export function tag(state) {
  return h("span", { class: `tag ${state}` }, state);
}

/** Links for a list of jobs, and how many more there are. */
export function jobLinks(keys, hidden = 0) {
  const links = keys.map((key, i) => [i > 0 && ", ", jobLink(key)]);
  if (hidden) links.push(keys.length ? " and " : "", `${hidden} ${hidden === 1 ? "job" : "jobs"} that you may not see`);
  return links;
}

/** A cell that names its column at narrow widths. */
export function cell(head, ...children) {
  return h("td", { "data-head": head }, ...children);
}

export function problem(error) {
  return h("p", { class: "error", role: "alert" }, error.message);
}
