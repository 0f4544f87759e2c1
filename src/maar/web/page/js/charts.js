// Charts in SVG: utilisation over time and by queue, sizes over time, and when a job may start.

import { h, s } from "./dom.js";
import { clock, duration, span } from "./format.js";

const WIDE = 600;
const HIGH = 90;
const POINTS = 300; // of a line; more are not visible

/** A line with steps; `points` are `[time, value]`, ascending. */
function steps(points, most, label) {
  const [begin, end] = [points[0][0], points.at(-1)[0]];
  const x = (at) => (end > begin ? ((at - begin) / (end - begin)) * WIDE : 0);
  const y = (value) => HIGH - 4 - (most > 0 ? value / most : 0) * (HIGH - 10);
  let path = `M0 ${y(points[0][1])}`;
  for (const [at, value] of points.slice(1)) path += `H${x(at).toFixed(1)}V${y(value).toFixed(1)}`;
  path += `H${WIDE}`;
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("line", { class: "top", x1: 0, x2: WIDE, y1: y(most), y2: y(most) }),
    s("path", { class: "area", d: `${path}V${HIGH}H0Z` }),
    s("path", { class: "line", d: path }),
  );
}

/** At most `POINTS` of them, evenly, with the first and the last. */
function thin(points) {
  const every = Math.ceil(points.length / POINTS);
  return points.filter((_, i) => i % every === 0 || i === points.length - 1);
}

const share = (one) => Math.round((100 * one.used) / Math.max(1, one.total));

/** GPUs in use until now. */
export function utilisation(series, now) {
  if (series.length < 2) return h("p", { class: "dim" }, "Collecting: the line appears after the next change.");
  const samples = thin(series);
  const most = Math.max(1, ...samples.map((one) => one.total));
  const [first, last] = [samples[0], samples.at(-1)];
  const label = `From ${share(first)} % to ${share(last)} % in ${duration(now - first.at)}`;
  return h("div", {}, steps([...samples.map((one) => [one.at, one.used]), [Math.max(now, last.at + 1), last.used]], most, label), h("div", { class: "dim" }, `last ${duration(now - first.at)}`));
}

/** GPUs in use by top-level queue, one above the other, with what there is and what waits. */
export function byQueue(series, now, colours, unit) {
  if (series.length < 2) return h("p", { class: "dim" }, "Collecting: the chart appears after the next change.");
  const points = thin(series);
  const [first, last] = [points[0], points.at(-1)];
  const end = Math.max(now, last.at + 1);
  const x = (at) => ((at - first.at) / (end - first.at)) * WIDE;
  // What waits may be many times the cluster: the line then leaves the chart at the top.
  const most = Math.max(1, ...points.map((one) => Math.max(one.total, one.used, Math.min(one.waiting, 1.5 * one.total))));
  const y = (value) => HIGH - 4 - (Math.min(value, most) / most) * (HIGH - 10);
  const sum = new Map();
  for (const one of points) for (const [name, value] of Object.entries(one.queues)) sum.set(name, (sum.get(name) ?? 0) + value);
  const names = [...sum].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
  const line = (of) => {
    let path = `M0 ${y(of(first)).toFixed(1)}`;
    for (const one of points.slice(1)) path += `H${x(one.at).toFixed(1)}V${y(of(one)).toFixed(1)}`;
    return `${path}H${WIDE}`;
  };
  const layers = []; // the highest first: each covers the one below it with its own colour
  const below = new Map(points.map((one) => [one, 0]));
  for (const name of names) {
    for (const one of points) below.set(one, below.get(one) + (one.queues[name] ?? 0));
    const until = new Map(below);
    layers.unshift(s("path", { class: "layer", d: `${line((one) => until.get(one))}V${HIGH}H0Z`, css: { fill: colours.named(`queue ${name}`) } }));
  }
  layers.unshift(s("path", { class: "layer rest", d: `${line((one) => Math.max(one.used, below.get(one)))}V${HIGH}H0Z` }));
  const mean = points.reduce((total, one) => total + share(one), 0) / points.length;
  const label = `${unit} in use in the last ${duration(end - first.at)}: from ${share(first)} % to ${share(last)} %, about ${Math.round(mean)} % on average; ${last.waiting} waiting now`;
  const swatch = (colour) => h("span", { class: "swatch", css: { background: colour } });
  return [
    s("svg", { class: "chart tall", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, layers, s("path", { class: "all", d: line((one) => one.total) }), s("path", { class: "waits", d: line((one) => one.waiting) })),
    h("div", { class: "row between dim" }, h("span", {}, clock(first.at, now)), h("span", {}, "now")),
    h(
      "div",
      { class: "legend" },
      names.map((name) => h("span", {}, swatch(colours.named(`queue ${name}`)), name, h("span", { class: "dim" }, ` ${last.queues[name] ?? 0}`))),
      h("span", {}, h("span", { class: "swatch other" }), "all else"),
      h("span", {}, h("span", { class: "swatch all" }), `all ${unit}`, h("span", { class: "dim" }, ` ${last.total.toLocaleString("en")}`)),
      h("span", {}, h("span", { class: "swatch waits" }), "waiting", h("span", { class: "dim" }, ` ${last.waiting.toLocaleString("en")}`)),
    ),
  ];
}

/** The number of workers over time. */
export function sizes(points, most, now) {
  const all = [...points, [Math.max(now, points.at(-1)[0] + 1), points.at(-1)[1]]];
  const words = points.map(([at, size]) => `${size} at ${clock(at, now)}`).join(", ");
  return steps(all, most, `Workers: ${words}`);
}

/** A bar from the middle estimate to the late one, on a line that begins now. */
export function startSpan(p50, p90, now) {
  if ((p50 ?? null) === null) return h("span", { class: "dim" }, "unknown");
  const late = p90 ?? p50 + 2 * Math.max(60, p50 - now);
  const end = Math.max(late - now, 1) * 1.15;
  const x = (at) => 4 + (Math.max(0, at - now) / end) * (WIDE - 8);
  const words = span(p50, p90, now);
  return h(
    "div",
    {},
    s(
      "svg",
      { class: "span-chart", viewBox: `0 0 ${WIDE} 16`, preserveAspectRatio: "none", role: "img", "aria-label": `Starts ${words}` },
      s("line", { class: "axis", x1: 4, x2: WIDE - 4, y1: 8, y2: 8 }),
      s("rect", { class: "likely", x: x(p50), width: Math.max(4, x(late) - x(p50)), y: 3, height: 10, rx: 3 }),
      s("rect", { class: "now", x: 2, width: 4, y: 2, height: 12 }),
    ),
    h("div", {}, words),
  );
}
