// Times, amounts and names as people read them. All functions are pure: they take the time as an argument.

const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** `3 h 20 min`: at most two units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "unknown";
  let rest = Math.round(Math.abs(seconds));
  const parts = [];
  for (const [name, size] of UNITS) {
    const count = Math.floor(rest / size);
    if (!count && !parts.length) continue;
    if (parts.length && !count) break;
    parts.push(`${count} ${name}`);
    rest -= count * size;
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0 s";
}

/** Whole minutes above ten minutes: a forecast is not better than that. */
const rough = (seconds) => (Math.abs(seconds) > 600 ? Math.round(seconds / 60) * 60 : seconds);

/** `in 20 min`, `5 min ago`, `now`. */
export function relative(at, now) {
  if (at === null || at === undefined) return "unknown";
  const difference = at - now;
  if (Math.abs(difference) < 1) return "now";
  return difference > 0 ? `in ${duration(difference)}` : `${duration(difference)} ago`;
}

/** The time of day, with the date if it is another day than `now`. */
export function clock(at, now) {
  if (at === null || at === undefined) return "unknown";
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const same = date.toDateString() === new Date(now * 1000).toDateString();
  return same ? time : `${date.toLocaleDateString([], { month: "short", day: "numeric" })} ${time}`;
}

/** The time between two quantiles: `in 20 min to 1 h 5 min`. */
export function span(p50, p90, now) {
  if ((p50 ?? null) === null) return "unknown";
  const from = relative(now + rough(p50 - now), now);
  if ((p90 ?? null) === null) return `${from} or later`;
  const to = relative(now + rough(p90 - now), now);
  return from === to ? from : `${from} to ${to.replace(/^in /, "")}`;
}

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/** An amount of a resource in whole units, as Maar counts: CPU in milli, memory in bytes, all else in units. */
export function amount(resource, value) {
  if (value === null || value === undefined) return "no limit";
  if (resource === "cpu") return value % 1000 ? `${+(value / 1000).toFixed(1)}` : `${value / 1000}`;
  if (/memory|storage/.test(resource)) {
    let power = 0;
    let shown = value;
    while (Math.abs(shown) >= 1024 && power < BINARY.length - 1) [shown, power] = [shown / 1024, power + 1];
    return `${+shown.toFixed(1)} ${BINARY[power]}`.trim();
  }
  return value.toLocaleString("en");
}

/** The short name of a resource: `gpu` for `nvidia.com/gpu`. */
export function short(resource) {
  return resource.split("/").pop();
}

/** `1 node`, `2 nodes`. */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "0 %";
}
