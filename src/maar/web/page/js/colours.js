// Colours of jobs, queues and states, on the canvas and beside it. A name keeps its look while the page is open, on
// every page; queues have theirs by the set of their names, so that all viewers see the same.

import { put } from "./dom.js";

// Twelve colours that people with any kind of colour blindness can tell apart, from each other and from the greys of the
// grid: found by a search for the largest smallest distance (OKLab, with the eyes of Machado et al. 2009).
const QUEUES = {
  light: ["#b06753", "#4c0787", "#720211", "#e8b543", "#6349c1", "#745877", "#acb8fe", "#993519", "#3bd0a3", "#5f7cb9", "#05424e", "#cd8817"],
  dark: ["#bb6802", "#cff7b1", "#d59cf8", "#ce9c20", "#6f3bb2", "#55af8f", "#87f2fc", "#b76ce0", "#7d460b", "#99d298", "#e0dc26", "#285e6b"],
};
const HUES = 12; // of jobs; more can hardly be told apart
const STEP = 7; // to the next slot, far away on the wheel; shares no factor with 12 or 24
export const PATTERNS = ["", "stripes", "dots"]; // when all colours are taken, the same colours with a pattern

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

/** Numbers for names: no two names share one as long as there are unused ones. */
class Slots {
  constructor(colours) {
    this.colours = colours;
    this.of = new Map();
    this.taken = new Map(); // how many names have each slot
  }

  get(name) {
    let slot = this.of.get(name);
    if (slot === undefined) {
      slot = this.next(hash(name) % this.colours);
      this.of.set(name, slot);
      this.taken.set(slot, (this.taken.get(slot) ?? 0) + 1);
    }
    return slot;
  }

  /** The first slot with the fewest names: all plain colours come before those with a pattern. */
  next(from) {
    let best;
    for (let round = 0; round < PATTERNS.length; round++)
      for (let i = 0; i < this.colours; i++) {
        const slot = round * this.colours + ((from + i * STEP) % this.colours);
        const names = this.taken.get(slot) ?? 0;
        if (!names) return slot;
        if (best === undefined || names < best.names) best = { slot, names };
      }
    return best.slot;
  }

  /** Forget all names but these, and have a slot for each of these. */
  keep(names) {
    const known = new Set(names);
    for (const [name, slot] of this.of)
      if (!known.has(name)) {
        this.of.delete(name);
        this.taken.set(slot, this.taken.get(slot) - 1);
      }
    for (const name of [...known].sort()) this.get(name);
  }
}

/** The colours of the theme in force, read from the style sheet once for each theme. */
export class Colours {
  constructor() {
    this.jobs = new Slots(2 * HUES); // each hue light and dark
    this.queues = new Slots(QUEUES.light.length);
    this.read();
  }

  read() {
    const probe = document.createElement("span");
    put(document.body, probe);
    const of = (name) => {
      probe.style.setProperty("color", `var(--${name})`);
      return getComputedStyle(probe).color;
    };
    const chosen = document.documentElement.dataset.theme;
    this.dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    this.free = of("gpu-free");
    this.gone = of("gpu-gone");
    this.edge = of("node-edge");
    this.text = of("dim");
    this.busy = of("gpu-busy");
    this.other = of("gpu-other");
    this.failed = of("failed");
    this.drained = of("drained");
    this.locked = of("locked");
    this.focus = of("focus");
    this.faded = of("gpu-faded");
    probe.remove();
  }

  /** The colour and the pattern of a job. */
  job(key) {
    const slot = this.jobs.get(key);
    const at = slot % (2 * HUES);
    const tone = this.dark ? [0.72, 0.58][at % 2] : [0.62, 0.46][at % 2];
    return { colour: `oklch(${tone} 0.14 ${((at >> 1) * 360) / HUES + 20})`, pattern: PATTERNS[Math.floor(slot / (2 * HUES))] };
  }

  /** The colour and the pattern of a queue. */
  queue(name) {
    const slot = this.queues.get(name);
    const palette = this.dark ? QUEUES.dark : QUEUES.light;
    return { colour: palette[slot % palette.length], pattern: PATTERNS[Math.floor(slot / palette.length)] };
  }
}
