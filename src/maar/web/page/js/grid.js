// The grid of nodes on a canvas, a cell for each GPU. It draws only what is in view, and after an update only the
// nodes that changed. The canvas says nothing to screen readers: the element around it takes the keys and speaks.

import { h, put, say, show } from "./dom.js";
import { layout, METRICS, nodeAt, neighbour } from "./layout.js";

const { PAD, GAP, HEAD, NAME } = METRICS;
const LEGIBLE = 8; // pixels of a cell in which a pattern can be seen
const KEYS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"]);

export class Grid {
  /**
   * `colourOf(holder)` is the colour and the pattern of a cell; `tip(node, cell)` describes it, as elements; `words(node)` for screen readers;
   * `choose(node, cell)` is called on a click or Enter.
   */
  constructor(host, colours, { colourOf, tip, words, choose, height = 620, label = "Nodes" }) {
    this.colours = colours;
    this.colourOf = colourOf;
    this.tip = tip;
    this.words = words;
    this.choose = choose;
    this.tallest = height;
    this.nodes = new Map();
    this.chosen = undefined;
    this.marked = undefined; // a predicate on nodes: all others are faded
    this.holder = undefined; // the job whose cells stand out
    this.dirty = new Set();
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.space = h("div", { class: "grid-space" }, this.canvas);
    this.frame = h(
      "div",
      { class: "grid", tabindex: "0", role: "application", "aria-label": label, "aria-describedby": "grid-keys", "data-key": `grid:${label}` },
      this.space,
    );
    this.frame.grid = this; // for tests, and for the curious
    this.bubble = h("div", { class: "tip", hidden: true });
    put(host, this.frame, this.bubble, h("p", { id: "grid-keys", class: "unseen" }, "Arrow keys move between nodes; Enter opens the node. The table below has the same content."));
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.frame.addEventListener("scroll", () => this.redraw());
    this.frame.addEventListener("pointermove", (event) => this.hover(event));
    this.frame.addEventListener("pointerleave", () => (this.bubble.hidden = true));
    this.frame.addEventListener("click", (event) => this.click(event));
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.frame.addEventListener("focus", () => this.redraw());
    this.frame.addEventListener("blur", () => this.redraw());
    this.watch = new ResizeObserver(() => this.arrange());
    this.watch.observe(this.frame);
  }

  close() {
    this.watch.disconnect();
    cancelAnimationFrame(this.pending);
  }

  /** All nodes, by name: `{name, rack, gpus, cells, failed, drained, locked}`. */
  show(nodes) {
    this.nodes = nodes;
    this.arrange();
  }

  /** Draw these nodes again, in the next frame. */
  changed(names) {
    for (const name of names) this.dirty.add(name);
    this.ask();
  }

  redraw() {
    this.whole = true;
    this.ask();
  }

  ask() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = undefined;
      this.draw();
    });
  }

  arrange() {
    const width = this.frame.clientWidth - 2;
    if (width <= 0 || !this.nodes.size) return;
    this.laid = layout([...this.nodes.values()], width, this.tallest);
    const height = Math.min(this.laid.height + 6, this.tallest);
    this.space.style.setProperty("height", `${this.laid.height + 6}px`);
    this.frame.style.setProperty("height", `${height + 2}px`);
    const scale = window.devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.setProperty("width", `${width}px`);
    this.canvas.style.setProperty("height", `${height}px`);
    this.scale = scale;
    this.whole = true;
    this.draw(); // at once: a canvas that was resized is blank
  }

  draw() {
    if (!this.laid) return;
    const top = this.frame.scrollTop;
    const c = this.context;
    c.setTransform(this.scale, 0, 0, this.scale, 0, -top * this.scale);
    if (this.whole) {
      this.back = getComputedStyle(this.frame).backgroundColor;
      c.fillStyle = this.back;
      c.fillRect(0, top, this.width, this.height);
      c.textBaseline = "alphabetic";
      for (const block of this.laid.blocks) {
        if (block.y > top + this.height || block.y + block.height < top) continue;
        c.fillStyle = this.colours.text;
        c.font = "11px system-ui, sans-serif";
        c.fillText(fit(c, block.rack || "no rack", block.width), block.x, block.y + HEAD - 5);
        for (const name of block.members) this.node(c, name, top);
      }
    } else {
      for (const name of this.dirty) this.node(c, name, top);
    }
    this.whole = false;
    this.dirty.clear();
    this.drawn = (this.drawn ?? 0) + 1;
    this.frame.dataset.drawn = this.drawn;
  }

  node(c, name, top) {
    const spot = this.laid.at.get(name);
    const node = this.nodes.get(name);
    const { size } = this.laid;
    if (!spot || !node || spot.y > top + this.height || spot.y + size.height < top) return;
    const faded = this.marked !== undefined && !this.marked(node);
    c.globalAlpha = 1;
    c.fillStyle = this.back;
    c.fillRect(spot.x - 2, spot.y - 2, size.width + 4, size.height + 4);
    c.globalAlpha = faded ? 0.18 : 1;
    c.fillStyle = this.colours.edge;
    c.fillRect(spot.x, spot.y, size.width, size.height);
    let y = spot.y + PAD;
    if (size.named) {
      c.fillStyle = this.colours.text;
      c.font = "10px system-ui, sans-serif";
      c.fillText(fit(c, name, size.width - 4, true), spot.x + PAD, y + 9);
      y += NAME;
    }
    const shown = Math.min(node.gpus, 16);
    for (let i = 0; i < shown; i++) {
      const holder = node.cells[i];
      const left = spot.x + PAD + (i % size.columns) * (size.cell + GAP);
      const above = y + Math.floor(i / size.columns) * (size.cell + GAP);
      const look = holder ? this.colour(holder, node) : { colour: this.free(node) };
      c.fillStyle = look.colour;
      c.fillRect(left, above, size.cell, size.cell);
      if (look.pattern && size.cell >= LEGIBLE) this.pattern(c, look.pattern, left, above, size.cell);
    }
    this.state(c, node, spot, size);
    c.globalAlpha = 1;
    if (name === this.chosen) {
      c.strokeStyle = this.colours.focus;
      c.lineWidth = 2;
      c.strokeRect(spot.x - 1, spot.y - 1, size.width + 2, size.height + 2);
    }
  }

  colour(holder, node) {
    if (this.holder !== undefined && holder.key !== this.holder) return { colour: this.colours.faded };
    return this.colourOf(holder, node);
  }

  /** The same patterns as in legends: for jobs and queues that share a colour. */
  pattern(c, kind, x, y, edge) {
    c.fillStyle = c.strokeStyle = this.back;
    if (kind === "dots") {
      const size = Math.round(edge / 3);
      c.fillRect(x + (edge - size) / 2, y + (edge - size) / 2, size, size);
      return;
    }
    c.lineWidth = Math.max(1, edge / 9);
    c.beginPath();
    for (const part of [0.7, 1.3]) {
      const [low, high] = [Math.max(0, part - 1) * edge, Math.min(1, part) * edge];
      c.moveTo(x + low, y + high);
      c.lineTo(x + high, y + low);
    }
    c.stroke();
  }

  free(node) {
    return node.failed ? this.colours.gone : this.colours.free;
  }

  /** Failed: a red cross. Drained: stripes. Locked: a thick edge. Different forms, not only different colours. */
  state(c, node, { x, y }, { width, height }) {
    if (node.failed) {
      c.strokeStyle = this.colours.failed;
      c.lineWidth = 2;
      c.strokeRect(x + 1, y + 1, width - 2, height - 2);
      c.beginPath();
      c.moveTo(x + 2, y + 2);
      c.lineTo(x + width - 2, y + height - 2);
      c.moveTo(x + width - 2, y + 2);
      c.lineTo(x + 2, y + height - 2);
      c.stroke();
    } else if (node.drained) {
      c.save();
      c.beginPath();
      c.rect(x, y, width, height);
      c.clip();
      c.strokeStyle = this.colours.drained;
      c.lineWidth = 1.5;
      c.beginPath();
      for (let i = -height; i < width; i += 6) {
        c.moveTo(x + i, y + height);
        c.lineTo(x + i + height, y);
      }
      c.stroke();
      c.strokeRect(x + 0.75, y + 0.75, width - 1.5, height - 1.5);
      c.restore();
    }
    if (node.locked) {
      c.strokeStyle = this.colours.locked;
      c.lineWidth = 2.5;
      c.strokeRect(x + 1, y + 1, width - 2, height - 2);
    }
  }

  hit(event) {
    if (!this.laid) return undefined;
    const box = this.frame.getBoundingClientRect();
    return nodeAt(this.laid, event.clientX - box.left - 1, event.clientY - box.top - 1 + this.frame.scrollTop);
  }

  hover(event) {
    const found = this.hit(event);
    const node = found && this.nodes.get(found.name);
    this.frame.classList.toggle("hits", Boolean(node));
    this.bubble.hidden = !node;
    if (!node) return;
    const key = `${found.name} ${found.cell}`;
    if (this.bubble.dataset.of !== key) show(this.bubble, this.tip(node, node.cells[found.cell]));
    this.bubble.dataset.of = key;
    const left = Math.max(4, Math.min(event.clientX + 14, window.innerWidth - this.bubble.offsetWidth - 8));
    const below = event.clientY + 18 + this.bubble.offsetHeight < window.innerHeight;
    this.bubble.style.setProperty("left", `${left}px`);
    this.bubble.style.setProperty("top", `${below ? event.clientY + 16 : event.clientY - this.bubble.offsetHeight - 10}px`);
  }

  click(event) {
    const found = this.hit(event);
    if (found) this.pick(found.name, this.nodes.get(found.name).cells[found.cell]);
  }

  key(event) {
    if (!this.laid || event.ctrlKey || event.metaKey || event.altKey) return;
    if (KEYS.has(event.key)) {
      event.preventDefault();
      this.move(neighbour(this.laid, this.chosen, event.key));
      say(this.words(this.nodes.get(this.chosen)));
    } else if ((event.key === "Enter" || event.key === " ") && this.nodes.has(this.chosen)) {
      event.preventDefault();
      this.pick(this.chosen, undefined);
    }
  }

  /** Mark a node and bring it into view. */
  move(name) {
    const before = this.chosen;
    this.chosen = name;
    const spot = this.laid?.at.get(name);
    if (spot) {
      const { scrollTop } = this.frame;
      if (spot.y - HEAD < scrollTop) this.frame.scrollTop = spot.y - HEAD;
      else if (spot.y + this.laid.size.height + 6 > scrollTop + this.height) this.frame.scrollTop = spot.y + this.laid.size.height + 6 - this.height;
    }
    this.changed([before, name].filter(Boolean));
  }

  pick(name, holder) {
    this.move(name);
    this.choose(this.nodes.get(name), holder);
  }
}

/** The text, cut to a width; the end of a node's name tells most. */
function fit(c, text, width, end = false) {
  if (c.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const part = end ? `…${text.slice(-middle)}` : `${text.slice(0, middle)}…`;
    if (c.measureText(part).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? (end ? `…${text.slice(-low)}` : `${text.slice(0, low)}…`) : "";
}
