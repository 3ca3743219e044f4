// The pool as a picture: a block is a leaf, a row a node, a cell an accelerator.  One canvas; after the
// first picture only the rows that changed are drawn again.
const GAP = 1;
const ROWS = 32; // of a block; a larger leaf goes on in the next block
const TITLE = 15;
const SPINE = 18;
const BLOCK_GAP = 14;
const TALLEST = 780;
const CPU_CELLS = 5; // as wide as so many cells is the bar of a node without accelerators
const NAMED_FROM = 12; // px of a cell from which there is room for the nodes' names
export const PALETTE = [
  "#3b6fd4", "#d98324", "#2f9d6a", "#b0488f", "#1d93a8", "#8a6bd6", "#b8a022", "#c2564a", "#5d7f2c", "#7d6152",
];
export const REST = "#8793a0";
export const FREE = -1; // the holder of a cell that nobody holds
export const NO_PLACE = -1; // where a rank is that holds cores and no accelerator

export class PoolMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.colours = null;
    this.cursor = null; // {node, place}
  }

  // layout: from the server; look(node, place) -> {fill, edge, dim}
  show(layout, look) {
    this.layout = layout;
    this.look = look;
    this.blocks = this.cut(layout);
    this.arrange();
    this.draw();
  }

  cut(layout) {
    const leaves = layout.leaves.map(() => []);
    layout.nodes.forEach((node, number) => leaves[node[1]].push(number));
    const blocks = [];
    leaves.forEach((nodes, leaf) => {
      for (let from = 0; from < nodes.length; from += ROWS) {
        const part = nodes.slice(from, from + ROWS);
        const cells = Math.max(...part.map((number) => layout.nodes[number][3].length || CPU_CELLS));
        blocks.push({ leaf, nodes: part, cells, first: from === 0 });
      }
    });
    return blocks;
  }

  arrange() {
    const width = Math.max(this.canvas.parentElement.clientWidth, 120);
    for (this.cell = 22; this.cell > 6; this.cell -= 1) {
      if (this.flow(width) <= TALLEST) break;
    }
    this.height = this.flow(width);
    this.width = width;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  font(size) {
    return `${size}px ${this.family || "sans-serif"}`;
  }

  flow(width) {
    const named = this.cell >= NAMED_FROM;
    this.context.font = this.font(12);
    const names = named ? this.layout.nodes.map((node) => this.context.measureText(node[0]).width) : [];
    this.named = named ? Math.min(Math.ceil(Math.max(...names)) + 8, 180) : 0;
    const step = this.cell + GAP;
    let x = 0, y = 0, tallest = 0, spine = null;
    for (const block of this.blocks) {
      this.context.font = this.font(11);
      const title = this.context.measureText(this.title(block)).width;
      block.width = Math.max(this.named + block.cells * step, title);
      const height = SPINE + TITLE + block.nodes.length * step + 12;
      if (x > 0 && x + block.width > width) {
        x = 0;
        y += tallest;
        tallest = 0;
        spine = null;
      }
      const name = this.layout.leaves[block.leaf][1];
      block.spine = name === spine ? null : name;
      spine = name;
      block.x = x;
      block.y = y;
      tallest = Math.max(tallest, height);
      x += block.width + BLOCK_GAP;
    }
    return y + tallest;
  }

  title(block) {
    return this.layout.leaves[block.leaf][0] + (block.first ? "" : " …");
  }

  draw() {
    const { context } = this;
    context.clearRect(0, 0, this.width, this.height);
    this.rows = new Map();
    for (const block of this.blocks) this.drawTitle(block);
    for (const block of this.blocks) {
      block.nodes.forEach((node, row) => {
        this.rows.set(node, { block, row });
        this.drawNode(node);
      });
    }
    this.drawCursor();
  }

  drawTitle(block) {
    const { context } = this;
    if (block.spine !== null) {
      context.font = this.font(11);
      context.fillStyle = this.colours.soft;
      context.fillText(block.spine, block.x, block.y + 11);
      const from = block.x + context.measureText(block.spine).width + 6;
      const last = this.lastOfSpine(block);
      context.fillStyle = this.colours.line;
      context.fillRect(from, block.y + 7, Math.max(last.x + last.width - from, 0), 1);
    }
    context.font = this.font(11);
    context.fillStyle = this.colours.ink;
    context.fillText(this.title(block), block.x, block.y + SPINE + 10);
  }

  lastOfSpine(block) {
    const start = this.blocks.indexOf(block);
    let last = block;
    for (let next = start + 1; next < this.blocks.length; next += 1) {
      if (this.blocks[next].y !== block.y || this.blocks[next].spine !== null) break;
      last = this.blocks[next];
    }
    return last;
  }

  place(node, place) {
    const { block, row } = this.rows.get(node);
    const step = this.cell + GAP;
    return { x: block.x + this.named + place * step, y: block.y + SPINE + TITLE + row * step };
  }

  drawNode(node) {
    const { context, cell } = this;
    const count = this.layout.nodes[node][3].length;
    const { block } = this.rows.get(node);
    const start = this.place(node, 0);
    context.clearRect(block.x - 1, start.y - 1, block.width + 2, cell + 2);
    if (this.named) {
      context.font = this.font(12);
      context.fillStyle = this.colours.ink;
      context.fillText(this.layout.nodes[node][0], block.x, start.y + cell / 2 + 4, this.named - 6);
    }
    const width = count ? cell : block.cells * (cell + GAP) - GAP;
    for (let place = 0; place < Math.max(count, 1); place += 1) {
      const look = this.look(node, place);
      const at = this.place(node, place);
      context.globalAlpha = look.dim ? 0.18 : 1;
      context.fillStyle = look.back || look.fill;
      context.fillRect(at.x, at.y, width, cell);
      if (look.back) {
        context.fillStyle = look.fill;
        context.fillRect(at.x, at.y, Math.round(width * look.part), cell);
      }
      if (look.edge) {
        context.strokeStyle = look.edge;
        context.lineWidth = 1;
        context.strokeRect(at.x + 0.5, at.y + 0.5, width - 1, cell - 1);
      }
    }
    context.globalAlpha = 1;
  }

  // The nodes of `changed` again; the cursor stays on top.
  update(changed) {
    for (const node of changed) this.drawNode(node);
    this.drawCursor();
  }

  drawCursor() {
    if (!this.cursor) return;
    const { context, cell } = this;
    const at = this.place(this.cursor.node, this.cursor.place);
    context.strokeStyle = this.colours.ink;
    context.lineWidth = 2;
    const bar = this.layout.nodes[this.cursor.node][3].length === 0;
    const width = bar ? this.rows.get(this.cursor.node).block.cells * (cell + GAP) - GAP : cell;
    context.strokeRect(at.x - 0.5, at.y - 0.5, width + 1, cell + 1);
  }

  moveCursor(cursor) {
    const before = this.cursor;
    this.cursor = cursor;
    if (before) {
      // the frame reaches into the neighbours above and below
      const { block, row } = this.rows.get(before.node);
      for (const near of [row - 1, row, row + 1]) {
        if (block.nodes[near] !== undefined) this.drawNode(block.nodes[near]);
      }
    }
    this.drawCursor();
  }

  // The cell under a point of the canvas, or null.
  at(x, y) {
    const step = this.cell + GAP;
    for (const block of this.blocks) {
      const row = Math.floor((y - block.y - SPINE - TITLE) / step);
      if (x < block.x || x > block.x + block.width || row < 0 || row >= block.nodes.length) continue;
      const node = block.nodes[row];
      const count = Math.max(this.layout.nodes[node][3].length, 1);
      const place = Math.floor((x - block.x - this.named) / step);
      return { node, place: Math.min(Math.max(place, 0), count - 1) };
    }
    return null;
  }

  // The cell that an arrow key leads to.
  next(cursor, key) {
    const { block, row } = this.rows.get(cursor.node);
    const number = this.blocks.indexOf(block);
    const count = Math.max(this.layout.nodes[cursor.node][3].length, 1);
    const step = (to, line) => {
      const target = this.blocks[Math.min(Math.max(to, 0), this.blocks.length - 1)];
      const node = target.nodes[Math.min(line, target.nodes.length - 1)];
      return { node, place: Math.min(cursor.place, Math.max(this.layout.nodes[node][3].length, 1) - 1) };
    };
    if (key === "ArrowRight" && cursor.place < count - 1) return { ...cursor, place: cursor.place + 1 };
    if (key === "ArrowLeft" && cursor.place > 0) return { ...cursor, place: cursor.place - 1 };
    if (key === "ArrowRight") return { ...step(number + 1, row), place: 0 };
    if (key === "ArrowLeft") return step(number - 1, row);
    if (key === "ArrowDown") return row + 1 < block.nodes.length ? step(number, row + 1) : step(number + 1, 0);
    if (key === "ArrowUp") return row > 0 ? step(number, row - 1) : step(number - 1, ROWS);
    if (key === "PageDown") return step(number + 1, row);
    if (key === "PageUp") return step(number - 1, row);
    if (key === "Home") return step(0, 0);
    if (key === "End") return step(this.blocks.length - 1, ROWS);
    return null;
  }
}
