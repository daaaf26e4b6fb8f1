// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Paints the part of the tree that can be seen, and remembers what it painted where, for the pointer. What is narrower
// than a pixel is painted as one grey strip a row, so that nothing is left out in silence.

const ROW = 21;          // height of a row, in CSS pixels
const NARROWEST = 0.8;   // of a box of its own
const TEXT_FROM = 26;    // narrowest box with text
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif';

// Hue, saturation and lightness by kind; lightness varies a little by name so that neighbours can be told apart.
const PALETTES = {
  light: {
    kinds: [[27, 92, 70], [47, 85, 68], [211, 68, 79], [152, 38, 74], [280, 22, 82], [215, 14, 82], [0, 0, 86], [215, 18, 88]],
    spread: 5, text: '#1a1c20', aside: 'rgba(20,22,28,.82)', page: '#ffffff', found: '#d5157f', foundText: '#ffffff',
    focus: '#0b57d0', narrow: '#c9ced6', stripe: 'rgba(0,0,0,.13)',
  },
  dark: {
    kinds: [[25, 62, 29], [45, 50, 27], [212, 38, 33], [152, 26, 27], [280, 16, 34], [215, 9, 32], [0, 0, 28], [215, 14, 26]],
    spread: 4, text: '#f3f4f6', aside: 'rgba(240,242,246,.84)', page: '#16181d', found: '#ff4fae', foundText: '#1b0612',
    focus: '#8ab4f8', narrow: '#3d434d', stripe: 'rgba(255,255,255,.13)',
  },
};

class Painter {
  constructor(canvas, frames) {
    this.canvas = canvas;
    this.frames = frames;
    this.widths = new Map();  // text -> its width
    this.setTheme('light');
  }

  setTheme(name) {
    this.palette = PALETTES[name];
    this.fills = new Map();
  }

  fill(frame) {
    let fill = this.fills.get(frame);
    if (fill === undefined) {
      const [hue, saturation, lightness] = this.palette.kinds[this.frames.kindOf(frame)];
      let hash = 0;
      for (const c of this.frames.name(frame)) hash = (Math.imul(hash, 31) + c.codePointAt(0)) | 0;
      const shift = (((hash >>> 3) % 101) / 50 - 1) * this.palette.spread;
      fill = `hsl(${hue} ${saturation}% ${(lightness + shift).toFixed(1)}%)`;
      this.fills.set(frame, fill);
    }
    return fill;
  }

  // scene: {tree, zoom, from, to (what of the tree's width is seen), flame, rows (of the whole picture), scroll, width, height,
  // search, focus, sizeText: node -> "8.11 GiB"}
  paint(scene) {
    const ratio = window.devicePixelRatio || 1;
    const {canvas} = this;
    const [width, height] = [Math.round(scene.width * ratio), Math.round(scene.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    canvas.style.width = `${scene.width}px`;
    canvas.style.height = `${scene.height}px`;
    const context = canvas.getContext('2d', {alpha: false});
    this.context = context;
    this.scene = scene;
    this.boxes = [];  // {node, x, y, width}; node < 0: a strip of narrow ones below node -1 - node
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.palette.page;
    context.fillRect(0, 0, scene.width, scene.height);
    context.font = FONT;
    context.textBaseline = 'middle';
    this.paintWay();
    this.paintBelow(scene.zoom);
    this.paintFocus();
  }

  rowTop(depth) {
    const {flame, rows, scroll} = this.scene;
    return Math.round((flame ? rows - 1 - depth : depth) * ROW - scroll);
  }

  seen(y) {
    return y + ROW > 0 && y < this.scene.height;
  }

  // What the zoomed frame stands on, over the whole width.
  paintWay() {
    const {tree, zoom, width} = this.scene;
    for (let node = tree.parent[zoom]; node >= 0; node = tree.parent[node]) {
      const y = this.rowTop(tree.depth[node]);
      if (this.seen(y)) this.paintBox(node, 0, y, width, true);
    }
  }

  paintBelow(root) {
    const {tree, from, to, width} = this.scene;
    const scale = width / (to - from);
    const waiting = [root];
    while (waiting.length > 0) {
      const node = waiting.pop();
      const x = (tree.left[node] - from) * scale;
      const y = this.rowTop(tree.depth[node]);
      if (this.seen(y)) this.paintBox(node, x, y, tree.size[node] * scale, false);
      for (let c = tree.childStart[node]; c < tree.childStart[node + 1]; ++c) {
        const child = tree.children[c];
        const childWidth = tree.size[child] * scale;
        const childX = (tree.left[child] - from) * scale;
        if (childX >= width) break;
        if (childWidth < NARROWEST) {
          this.paintStrip(node, childX, c, scale);
          break;  // the rest is no wider
        }
        if (childX + childWidth > 0) waiting.push(child);
      }
    }
  }

  paintStrip(node, x, first, scale) {
    const {tree} = this.scene;
    const y = this.rowTop(tree.depth[node] + 1);
    const last = tree.children[tree.childStart[node + 1] - 1];
    const width = (tree.left[last] + tree.size[last]) * scale - tree.left[tree.children[first]] * scale;
    if (!this.seen(y) || width < 0.15) return;
    this.context.fillStyle = this.palette.narrow;
    this.context.fillRect(x, y, Math.max(width, 0.5), ROW - 1);
    this.boxes.push({node: -1 - node, first, x, y, width});
  }

  paintBox(node, x, y, width, passed) {
    const {context, palette, scene} = this;
    const left = Math.max(x, 0);
    const right = Math.min(x + width, scene.width);
    if (right <= left) return;
    const frame = scene.tree.frame[node];
    const found = scene.search.matches(frame);
    const dimmed = passed || (scene.search.active && !found);
    context.globalAlpha = dimmed ? 0.5 : 1;
    context.fillStyle = found ? palette.found : this.fill(frame);
    context.fillRect(left, y, Math.max(right - left - (width > 3 ? 1 : 0.2), 0.6), ROW - 1);
    if (this.frames.kindOf(frame) === KIND_MERGED && width > 4) this.paintStripes(left, y, right - left - 1);
    context.globalAlpha = dimmed ? 0.75 : 1;
    if (right - left >= TEXT_FROM) this.paintText(node, left, y, right - left - 8, found);
    context.globalAlpha = 1;
    this.boxes.push({node, x: left, y, width: right - left});
  }

  paintStripes(x, y, width) {
    const {context} = this;
    context.save();
    context.beginPath();
    context.rect(x, y, width, ROW - 1);
    context.clip();
    context.strokeStyle = this.palette.stripe;
    context.beginPath();
    for (let at = x - ROW; at < x + width; at += 7) {
      context.moveTo(at, y + ROW);
      context.lineTo(at + ROW, y);
    }
    context.stroke();
    context.restore();
  }

  // The name; where there is room also the size, at the right end, and the place.
  paintText(node, x, y, room, found) {
    const {context, palette} = this;
    const frame = this.scene.tree.frame[node];
    const middle = y + ROW / 2;
    const name = this.frames.name(frame);
    const shown = this.fitted(name, room);
    context.fillStyle = found ? palette.foundText : palette.text;
    context.fillText(shown, x + 4, middle);
    if (shown !== name) return;
    const used = this.measured(name) + 10;
    const size = this.scene.sizeText(node);
    const sizeRoom = this.measured(size) + 10;
    context.fillStyle = found ? palette.foundText : palette.aside;
    if (room - used < sizeRoom) return;
    context.fillText(size, x + 4 + room - this.measured(size), middle);
    const place = this.frames.place(frame);
    if (place !== '' && room - used - sizeRoom >= 40) context.fillText(this.fitted(place, room - used - sizeRoom), x + 4 + used, middle);
  }

  measured(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > 50000) this.widths.clear();
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  // As much of the text as fits, with an ellipsis where it does not.
  fitted(text, room) {
    if (text.length * 3 < room && text.length * 14 < room) return text;
    if (this.measured(text.slice(0, 400)) <= room && text.length <= 400) return text;
    let [fits, tooLong] = [0, Math.min(text.length, 400)];
    while (fits + 1 < tooLong) {
      const middle = (fits + tooLong) >> 1;
      if (this.measured(`${text.slice(0, middle)}…`) <= room) fits = middle;
      else tooLong = middle;
    }
    return fits === 0 ? '' : `${text.slice(0, fits)}…`;
  }

  paintFocus() {
    if (this.scene.focus < 0) return;
    const box = this.boxes.find(({node}) => node === this.scene.focus);
    if (box === undefined) return;
    this.context.strokeStyle = this.palette.focus;
    this.context.lineWidth = 2;
    this.context.strokeRect(box.x + 1, box.y + 1, Math.max(box.width - 3, 1), ROW - 3);
  }

  boxAt(x, y) {
    for (let i = this.boxes.length - 1; i >= 0; --i) {
      const box = this.boxes[i];
      if (y >= box.y && y < box.y + ROW && x >= box.x && x < box.x + Math.max(box.width, 1)) return box;
    }
    return undefined;
  }
}
