// Colours of jobs, queues and states on the canvas. A name keeps its colour, on every page and after a reload.

const STEPS = 48; // distinct hues; more cannot be told apart

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

/** The colours of the theme in force, read from the style sheet once for each theme. */
export class Colours {
  constructor() {
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
    this.made = new Map();
  }

  /** The colour of a job or a queue. */
  named(name) {
    let colour = this.made.get(name);
    if (colour === undefined) {
      const value = hash(name);
      const hue = Math.round((((value % STEPS) * 360) / STEPS + 7) % 360);
      const tone = (value >>> 8) % 3;
      const light = this.dark ? 52 + 9 * tone : 38 + 8 * tone;
      colour = `hsl(${hue} ${60 + 10 * ((value >>> 12) % 3)}% ${light}%)`;
      this.made.set(name, colour);
    }
    return colour;
  }
}
