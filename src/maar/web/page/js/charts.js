// Charts in SVG: utilisation over time and by queue, sizes over time, and when a job may start. What is not known is a
// gap: a series has spans, each with a beginning, an end and a value, and between two spans there may be nothing.

import { h, s } from "./dom.js";
import { clock, duration, span } from "./format.js";
import { patternOf, swatch } from "./parts.js";

const WIDE = 600;
const HIGH = 90;
const POINTS = 300; // of a line; more are not visible

/** Points as spans: each holds until the next one, or until it was last known (`until`). The last one holds until `end`. */
function spans(points, end) {
  return points.map((one, i) => ({ from: one.at, to: Math.max(one.at, Math.min(one.until ?? Infinity, points[i + 1]?.at ?? end)), one }));
}

/** Spans that follow each other without a gap, together. */
function runs(found) {
  const together = [];
  for (const each of found) {
    const last = together.at(-1);
    if (last && last.at(-1).to >= each.from) last.push(each);
    else together.push([each]);
  }
  return together;
}

/** Where nothing is known between `begin` and `end`, as `[from, to]`. */
function gaps(found, begin, end) {
  const free = [];
  let at = begin;
  for (const { from, to } of found) {
    if (from > at) free.push([at, from]);
    at = Math.max(at, to);
  }
  if (end > at) free.push([at, end]);
  return free;
}

/** The path of a line with steps; with `floor` it is the area below. */
function path(found, x, y, of, floor) {
  const parts = runs(found).map((run) => {
    let drawn = `M${x(run[0].from).toFixed(1)} ${y(of(run[0].one)).toFixed(1)}`;
    for (const { to, one } of run) drawn += `V${y(of(one)).toFixed(1)}H${x(to).toFixed(1)}`;
    return floor === undefined ? drawn : `${drawn}V${floor}H${x(run[0].from).toFixed(1)}Z`;
  });
  return parts.join("");
}

function unknown(found, begin, end, x) {
  return gaps(found, begin, end).map(([from, to]) => s("rect", { class: "gap", x: x(from).toFixed(1), width: Math.max(0.5, x(to) - x(from)).toFixed(1), y: 0, height: HIGH }));
}

const gapWords = (found, begin, end) => {
  const seconds = gaps(found, begin, end).reduce((sum, [from, to]) => sum + to - from, 0);
  return seconds >= 1 ? `; not known for ${duration(seconds)}` : "";
};

/** A line with steps. */
function steps(found, [begin, end], most, label) {
  const x = (at) => (end > begin ? ((at - begin) / (end - begin)) * WIDE : 0);
  const y = (value) => HIGH - 4 - (most > 0 ? value / most : 0) * (HIGH - 10);
  const value = (one) => one.value;
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `${label}${gapWords(found, begin, end)}` },
    unknown(found, begin, end, x),
    s("line", { class: "top", x1: 0, x2: WIDE, y1: y(most), y2: y(most) }),
    s("path", { class: "area", d: path(found, x, y, value, HIGH) }),
    s("path", { class: "line", d: path(found, x, y, value) }),
  );
}

/** At most `POINTS` of them, evenly, with the first and the last, and with the ends of what is known. */
function thin(points) {
  const every = Math.ceil(points.length / POINTS);
  return points.filter((one, i) => i % every === 0 || i === points.length - 1 || (one.until ?? null) !== null || (points[i - 1]?.until ?? null) !== null);
}

const share = (one) => Math.round((100 * one.used) / Math.max(1, one.total));

/** GPUs in use until now; `lost` is when the connection ended, if it has: nothing is known since then. */
export function utilisation(series, lost, now) {
  if (!series.length) return h("p", { class: "dim" }, "Nothing is known yet.");
  const samples = thin(series);
  const most = Math.max(1, ...samples.map((one) => one.total));
  const [first, last] = [samples[0], samples.at(-1)];
  const end = Math.max(now, last.at + 1);
  const label = `From ${share(first)} % to ${share(last)} % in ${duration(now - first.at)}`;
  const found = spans(samples.map((one) => ({ at: one.at, until: one.until, value: one.used })), lost ?? end);
  return h("div", {}, steps(found, [first.at, end], most, label), h("div", { class: "dim" }, `last ${duration(now - first.at)}`));
}

/** GPUs in use by top-level queue, one above the other, with what there is and what waits. */
export function byQueue(series, lost, now, colours, unit) {
  if (!series.length) return h("p", { class: "dim" }, "Nothing is known yet.");
  const points = thin(series);
  const [first, last] = [points[0], points.at(-1)];
  const end = Math.max(now, last.at + 1);
  const found = spans(points, lost ?? end);
  const x = (at) => ((at - first.at) / (end - first.at)) * WIDE;
  // What waits may be many times the cluster: the line then leaves the chart at the top.
  const most = Math.max(1, ...points.map((one) => Math.max(one.total, one.used, Math.min(one.waiting, 1.5 * one.total))));
  const y = (value) => HIGH - 4 - (Math.min(value, most) / most) * (HIGH - 10);
  const sum = new Map();
  for (const one of points) for (const [name, value] of Object.entries(one.queues)) sum.set(name, (sum.get(name) ?? 0) + value);
  const names = [...sum].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
  const line = (of, floor) => path(found, x, y, of, floor);
  const layers = []; // the highest first: each covers the one below it with its own colour
  const patterns = [];
  const below = new Map(points.map((one) => [one, 0]));
  names.forEach((name, i) => {
    for (const one of points) below.set(one, below.get(one) + (one.queues[name] ?? 0));
    const until = new Map(below);
    const look = colours.queue(name);
    if (look.pattern) patterns.push(patternOf(look, `layer-${i}`));
    layers.unshift(s("path", { class: "layer", d: line((one) => until.get(one), HIGH), css: { fill: look.pattern ? `url(#layer-${i})` : look.colour } }));
  });
  layers.unshift(s("path", { class: "layer rest", d: line((one) => Math.max(one.used, below.get(one)), HIGH) }));
  const mean = points.reduce((total, one) => total + share(one), 0) / points.length;
  const label = `${unit} in use in the last ${duration(end - first.at)}: from ${share(first)} % to ${share(last)} %, about ${Math.round(mean)} % on average; ${last.waiting} waiting now${gapWords(found, first.at, end)}`;
  const blank = unknown(found, first.at, end, x);
  return [
    s("svg", { class: "chart tall", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, s("defs", {}, patterns), blank, layers, s("path", { class: "all", d: line((one) => one.total) }), s("path", { class: "waits", d: line((one) => one.waiting) })),
    h("div", { class: "row between dim" }, h("span", {}, clock(first.at, now)), h("span", {}, "now")),
    h(
      "div",
      { class: "legend" },
      names.map((name) => h("span", {}, swatch(colours.queue(name)), name, h("span", { class: "dim" }, ` ${last.queues[name] ?? 0}`))),
      h("span", {}, h("span", { class: "swatch other" }), "all else"),
      h("span", {}, h("span", { class: "swatch all" }), `all ${unit}`, h("span", { class: "dim" }, ` ${last.total.toLocaleString("en")}`)),
      h("span", {}, h("span", { class: "swatch waits" }), "waiting", h("span", { class: "dim" }, ` ${last.waiting.toLocaleString("en")}`)),
      blank.length > 0 && h("span", {}, h("span", { class: "swatch gap" }), "not known"),
    ),
  ];
}

/** The number of workers over time, from `begin`; `points` are `[time, workers]`. */
export function sizes(points, begin, most, now) {
  const words = points.map(([at, size]) => `${size} at ${clock(at, now)}`).join(", ");
  const end = Math.max(now, points.at(-1)[0] + 1);
  return steps(spans(points.map(([at, value]) => ({ at, value })), end), [begin, end], most, `Workers: ${words}`);
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
