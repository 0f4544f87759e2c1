// The names that are nearest to one that does not exist, for "did you mean".

const MOST = 3; // names that are offered
const LOOKED = 5000; // names that are compared, at most

/** The number of letters to change, or more than `limit`. */
function distance(a, b, limit) {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let before = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) row[j] = Math.min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    before = row;
  }
  return before[b.length];
}

/** Names that differ by a third of their letters at most, or begin with the name; the nearest first. */
export function nearest(name, names) {
  const limit = Math.max(1, Math.floor(name.length / 3));
  const found = [];
  for (const one of [...names].slice(0, LOOKED)) {
    const far = name && one.startsWith(name) ? 0 : distance(name, one, limit);
    if (far <= limit) found.push([far, one]);
  }
  return found.sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1)).slice(0, MOST).map(([, one]) => one);
}
