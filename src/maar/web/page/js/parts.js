// Small pieces that several pages use.

import { h, s } from "./dom.js";
import { nearest } from "./nearest.js";

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

/** A small square with the colour and the pattern of a job or a queue. */
export function swatch({ colour, pattern }) {
  return h("span", { class: `swatch ${pattern ?? ""}`, css: { "background-color": colour } });
}

/** The same for areas of charts. */
export function patternOf({ colour, pattern }, id) {
  const marks = pattern === "stripes" ? s("path", { class: "mark-line", d: "M-1 5L5 -1M-1 9L9 -1M3 9L9 3" }) : s("circle", { class: "mark-dot", cx: 4, cy: 4, r: 1.6 });
  return s("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse" }, s("rect", { width: 8, height: 8, css: { fill: colour } }), marks);
}

/** That there is no such thing, with names that are near, as links. */
export function missing(words, name, names, link) {
  const near = nearest(name, names);
  return h("p", { class: "warn", role: "alert" }, words, near.length > 0 && [" Did you mean ", near.map((one, i) => [i > 0 && (i + 1 === near.length ? " or " : ", "), link(one)]), "?"]);
}

export function problem(error) {
  return h("p", { class: "error", role: "alert" }, error.message);
}
