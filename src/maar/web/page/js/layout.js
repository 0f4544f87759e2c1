// Where each node of the grid is drawn: racks as blocks, from left to right, with a tile for each node.
// Pure: sizes in, positions out. `grid.js` draws it.

const PAD = 2; // around the cells of a node
const GAP = 1; // between cells
const BETWEEN = 3; // between nodes
const BLOCKS = 14; // between racks
const HEAD = 16; // the name of a rack
const NAME = 13; // the name of a node, where there is room
const SIZES = [22, 18, 15, 12, 10, 8, 7, 6]; // edges of a cell, largest first
const WIDEST = 4; // cells in one row of a node

function tile(gpus, cell) {
  const columns = Math.max(1, Math.min(WIDEST, gpus));
  const rows = Math.max(1, Math.ceil(gpus / columns));
  const named = cell >= 15;
  return {
    columns,
    cell,
    named,
    width: columns * (cell + GAP) - GAP + 2 * PAD,
    height: rows * (cell + GAP) - GAP + 2 * PAD + (named ? NAME : 0),
  };
}

function place(racks, size, width) {
  const stepX = size.width + BETWEEN;
  const stepY = size.height + BETWEEN;
  const most = Math.max(1, Math.floor((width + BETWEEN) / stepX));
  const blocks = [];
  let x = 0;
  let y = 0;
  let line = 0;
  for (const [rack, members] of racks) {
    const square = Math.ceil(Math.sqrt((members.length * stepY * 1.7) / stepX));
    const columns = Math.min(most, members.length, Math.max(square, Math.min(members.length, 4)));
    const rows = Math.ceil(members.length / columns);
    const blockWidth = columns * stepX - BETWEEN;
    const blockHeight = HEAD + rows * stepY - BETWEEN;
    if (x > 0 && x + blockWidth > width) [x, y, line] = [0, y + line + BLOCKS, 0];
    blocks.push({ rack, members, columns, x, y, width: blockWidth, height: blockHeight });
    x += blockWidth + BLOCKS;
    line = Math.max(line, blockHeight);
  }
  return { size, blocks, stepX, stepY, height: y + line };
}

/** The layout with the largest cells that fit into the height, or with the smallest cells. */
export function layout(nodes, width, height) {
  const byRack = new Map();
  let gpus = 1;
  for (const node of nodes) {
    gpus = Math.max(gpus, Math.min(node.gpus, 16));
    const members = byRack.get(node.rack);
    if (members) members.push(node.name);
    else byRack.set(node.rack, [node.name]);
  }
  const order = new Intl.Collator("en", { numeric: true });
  const racks = [...byRack].sort(([a], [b]) => order.compare(a, b));
  for (const [, members] of racks) members.sort(order.compare);
  let found;
  for (const cell of SIZES) {
    const size = tile(gpus, cell);
    if (cell !== SIZES.at(-1) && (nodes.length * size.width * size.height > width * height * 1.2 || size.width > width)) continue;
    found = place(racks, size, width);
    if (found.height <= height) break;
  }
  const at = new Map();
  const sequence = [];
  for (const block of found.blocks) {
    block.members.forEach((name, i) => {
      const left = block.x + (i % block.columns) * found.stepX;
      const top = block.y + HEAD + Math.floor(i / block.columns) * found.stepY;
      at.set(name, { x: left, y: top, block, order: sequence.length });
      sequence.push(name);
    });
  }
  return { ...found, at, sequence };
}

/** The name of the node at a point, and the number of its cell; `undefined` between nodes. */
export function nodeAt(laid, x, y) {
  for (const block of laid.blocks) {
    if (x < block.x || x >= block.x + block.width || y < block.y + HEAD || y >= block.y + block.height) continue;
    const column = Math.floor((x - block.x) / laid.stepX);
    const row = Math.floor((y - block.y - HEAD) / laid.stepY);
    const name = block.members[row * block.columns + column];
    if (name === undefined || column >= block.columns) return undefined;
    const inX = x - block.x - column * laid.stepX - PAD;
    const inY = y - block.y - HEAD - row * laid.stepY - PAD - (laid.size.named ? NAME : 0);
    if (inX >= laid.size.width || inY >= laid.size.height) return undefined;
    const step = laid.size.cell + GAP;
    const cell = Math.floor(Math.max(0, inY) / step) * laid.size.columns + Math.min(laid.size.columns - 1, Math.floor(Math.max(0, inX) / step));
    return { name, cell };
  }
  return undefined;
}

/** The neighbour of a node in a direction, for the arrow keys. */
export function neighbour(laid, name, key) {
  const here = laid.at.get(name);
  if (!here) return laid.sequence[0];
  if (key === "Home") return laid.sequence[0];
  if (key === "End") return laid.sequence.at(-1);
  if (key === "ArrowRight") return laid.sequence[here.order + 1] ?? name;
  if (key === "ArrowLeft") return laid.sequence[here.order - 1] ?? name;
  const down = key === "ArrowDown" || key === "PageDown";
  let best = name;
  let least = Infinity;
  const far = key.startsWith("Page") ? 10 * laid.stepY : 0;
  for (const [other, spot] of laid.at) {
    const ahead = (down ? spot.y - here.y : here.y - spot.y) - far;
    if (ahead <= 0) continue;
    const distance = ahead * 3 + Math.abs(spot.x - here.x);
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}

export const METRICS = { PAD, GAP, HEAD, NAME };
