// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The picture as something to move about in: what is zoomed, focused and scrolled to. The canvas is as large as the
// window onto it and stays in place; the room behind it is as tall as the whole tree and gives the scroll bar.

const ZOOM_MS = 140;

class Chart {
  // told: {zoomed(), focused(node), hovered(box, event), sizeText(node)}
  constructor(elements, painter, search, told) {
    Object.assign(this, elements);  // chart, room, canvas
    this.painter = painter;
    this.search = search;
    this.told = told;
    this.flame = false;
    this.focus = -1;
    this.zoom = 0;
    this.seen = {from: 0, to: 1};
    this.asked = 0;
    this.chart.addEventListener('scroll', () => this.repaint());
    new ResizeObserver(() => this.repaint()).observe(this.chart);
    this.canvas.addEventListener('pointermove', (event) => this.point(event));
    this.canvas.addEventListener('pointerleave', () => this.told.hovered(undefined));
    this.canvas.addEventListener('click', (event) => this.click(event));
    this.canvas.addEventListener('wheel', () => this.told.hovered(undefined), {passive: true});
  }

  // A new tree; what was zoomed stays so where the new tree has it.
  show(tree, keepZoom) {
    const path = keepZoom && this.tree !== undefined ? framesTo(this.tree, this.zoom) : [];
    this.tree = tree;
    this.zoom = nodeAt(tree, path);
    this.focus = -1;
    this.seen = this.wanted();
    this.zoomed();
  }

  wanted() {
    const from = this.tree.left[this.zoom];
    return {from, to: from + (this.tree.size[this.zoom] || 1)};
  }

  zoomTo(node) {
    const before = this.seen;
    this.zoom = node;
    this.focus = node;
    this.zoomed();
    const after = this.wanted();
    const started = performance.now();
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) return;
    const move = (now) => {
      const t = Math.min(Math.max((now - started) / ZOOM_MS, 0), 1);
      const eased = 1 - (1 - t) ** 3;
      this.seen = {from: before.from + (after.from - before.from) * eased, to: before.to + (after.to - before.to) * eased};
      this.repaint();
      if (t < 1 && this.zoom === node) requestAnimationFrame(move);
    };
    requestAnimationFrame(move);
  }

  zoomed() {
    this.seen = this.wanted();
    this.measure();
    this.chart.scrollTop = this.flame ? this.chart.scrollHeight : 0;
    this.told.zoomed();
    this.repaint();
  }

  setFlame(flame) {
    this.flame = flame;
    this.zoomed();
  }

  // Rows that the zoomed part needs: as deep as boxes are wide enough to be seen.
  measure() {
    const {tree, zoom} = this;
    const least = (tree.size[zoom] * NARROWEST) / Math.max(this.chart.clientWidth, 1);
    let deepest = tree.depth[zoom];
    const waiting = [zoom];
    while (waiting.length > 0) {
      const node = waiting.pop();
      deepest = Math.max(deepest, tree.depth[node]);
      for (let c = tree.childStart[node]; c < tree.childStart[node + 1]; ++c) {
        if (tree.size[tree.children[c]] < least) break;
        waiting.push(tree.children[c]);
      }
    }
    this.rows = deepest + 2;  // one for the strip of narrow boxes
    this.room.style.height = `${this.rows * ROW}px`;
  }

  repaint() {
    if (this.tree === undefined || this.asked !== 0) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.paint(this.chart.clientWidth, this.chart.clientHeight, this.chart.scrollTop);
    });
  }

  paint(width, height, scroll) {
    if (width === 0 || height === 0) return;
    const rows = this.flame ? Math.max(this.rows, height / ROW) : this.rows;
    this.painter.paint({tree: this.tree, zoom: this.zoom, ...this.seen, flame: this.flame, rows, scroll, width, height,
      search: this.search, focus: this.focus, sizeText: this.told.sizeText});
  }

  boxAt(event) {
    const at = this.canvas.getBoundingClientRect();
    return this.painter.boxAt(event.clientX - at.left, event.clientY - at.top);
  }

  point(event) {
    const box = this.boxAt(event);
    this.canvas.style.cursor = box !== undefined && box.node >= 0 ? 'pointer' : 'default';
    this.told.hovered(box, event);
  }

  // With a finger the first touch shows what a box is, the second zooms.
  click(event) {
    const box = this.boxAt(event);
    if (box === undefined) return;
    const node = box.node < 0 ? -1 - box.node : box.node;
    if (event.pointerType === 'touch' && this.focus !== node) {
      this.setFocus(node);
      this.told.hovered(box, event);
      return;
    }
    this.told.hovered(undefined);
    this.zoomTo(node);
  }

  setFocus(node) {
    this.focus = node;
    this.reveal(node);
    this.repaint();
    this.told.focused(node);
  }

  reveal(node) {
    const rows = this.flame ? Math.max(this.rows, this.chart.clientHeight / ROW) : this.rows;
    const depth = this.tree.depth[node];
    const top = (this.flame ? rows - 1 - depth : depth) * ROW;
    if (top < this.chart.scrollTop) this.chart.scrollTop = top;
    const bottom = top + ROW - this.chart.clientHeight;
    if (bottom > this.chart.scrollTop) this.chart.scrollTop = bottom;
  }

  // Where an arrow key leads from the focused box: 'out' to its parent, 'in' to its largest child, -1 and 1 to siblings.
  step(way) {
    const {tree} = this;
    const node = this.focus < 0 ? this.zoom : this.focus;
    if (this.focus < 0) return this.setFocus(node);
    if (way === 'out') return node === 0 ? undefined : this.setFocus(tree.parent[node]);
    if (way === 'in') {
      return tree.childStart[node] < tree.childStart[node + 1] ? this.setFocus(tree.children[tree.childStart[node]]) : undefined;
    }
    const parent = tree.parent[node];
    if (parent < 0) return undefined;
    const at = tree.children.indexOf(node, tree.childStart[parent]) + way;
    return at >= tree.childStart[parent] && at < tree.childStart[parent + 1] ? this.setFocus(tree.children[at]) : undefined;
  }

  // Jumps among the boxes that match, as far as they lie below what is zoomed.
  nextMatch(direction) {
    const nodes = this.search.matchesBelow(this.tree, this.zoom);
    if (nodes.length === 0) return;
    const at = nodes.indexOf(this.focus);
    this.setFocus(nodes[at < 0 ? 0 : (at + direction + nodes.length) % nodes.length]);
  }
}
