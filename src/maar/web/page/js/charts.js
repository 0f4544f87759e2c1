// Charts in SVG: utilisation over time, sizes over time, and when a job may start.

import { h, s } from "./dom.js";
import { clock, duration, span } from "./format.js";

const WIDE = 600;
const HIGH = 90;

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

/** GPUs in use until now. */
export function utilisation(samples, now) {
  if (samples.length < 2) return h("p", { class: "dim" }, "Collecting: the line appears after the next change.");
  const most = Math.max(1, ...samples.map((one) => one.all));
  const share = (one) => Math.round((100 * one.used) / Math.max(1, one.all));
  const [first, last] = [samples[0], samples.at(-1)];
  const label = `From ${share(first)} % to ${share(last)} % in ${duration(now - first.at)}`;
  return h("div", {}, steps([...samples.map((one) => [one.at, one.used]), [Math.max(now, last.at + 1), last.used]], most, label), h("div", { class: "dim" }, `last ${duration(now - first.at)}`));
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
