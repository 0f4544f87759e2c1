// Colours of jobs, queues and states on the canvas. A name keeps its colour while the page is open, on every page.

const HUES = 12; // more can hardly be told apart
const SLOTS = 2 * HUES; // each hue light and dark
const STEP = 7; // to the next slot, far away on the wheel; shares no factor with SLOTS

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

/** The colours of the theme in force, read from the style sheet once for each theme. */
export class Colours {
  constructor() {
    this.slots = new Map();
    this.taken = new Set();
    this.read();
  }

  read() {
    const probe = document.createElement("span");
    document.body.append(probe);
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

  /** The colour of a job or a queue. As long as there are unused colours, no two names share one. */
  named(name) {
    let slot = this.slots.get(name);
    if (slot === undefined) {
      slot = hash(name) % SLOTS;
      while (this.taken.size < SLOTS && this.taken.has(slot)) slot = (slot + STEP) % SLOTS;
      this.taken.add(slot);
      this.slots.set(name, slot);
    }
    const tone = this.dark ? [0.72, 0.58][slot % 2] : [0.62, 0.46][slot % 2];
    return `oklch(${tone} 0.14 ${((slot >> 1) * 360) / HUES + 20})`;
  }
}
