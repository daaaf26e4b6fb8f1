// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The timeline as something to move about in: wheel and drag zoom, a click chooses a moment, keys step from row to row.

const NARROWEST_VIEW = 1e-7;  // of the whole run

class Timeline {
  // told: {chosen(row), viewed(), hovered(row, event), singles() -> marks of single events or null, single(mark)}
  constructor(canvas, told) {
    this.canvas = canvas;
    this.told = told;
    this.painter = new TimelinePainter();
    this.hidden = new Set();
    this.lit = -1;
    this.brush = null;
    this.asked = 0;
    new ResizeObserver(() => this.repaint()).observe(canvas.parentElement);
    canvas.addEventListener('pointerdown', (event) => this.down(event));
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => this.up(event));
    canvas.addEventListener('pointercancel', () => this.stopDragging());
    canvas.addEventListener('pointerleave', () => this.told.hovered(-1));
    canvas.addEventListener('wheel', (event) => this.wheel(event), {passive: false});
    canvas.addEventListener('dblclick', () => this.viewAll());
  }

  // what: {device, by, x, upTo: 'use' | 'reserved' | 'capacity', lanes, marks, whole: [from, to] of x}
  show(what) {
    const kept = this.what !== undefined && this.what.x === what.x && this.what.device === what.device;
    if (this.what === undefined || this.what.by !== what.by || this.what.device !== what.device) this.hidden.clear();
    this.what = what;
    this.layers = what.device.layers(what.by);
    if (!kept) [this.from, this.to] = what.whole;
    this.repaint();
  }

  get column() {
    return this.what.x === 'time' ? 'time_ns' : 'event';
  }

  get top() {
    const {device, upTo} = this.what;
    if (upTo === 'capacity' && device.capacity > 0) return device.capacity * 1.02;
    if (upTo === 'use') return device.mostHeld * 1.04;
    return Math.max(device.mostTotal, device.mostHeld) * 1.04;  // what others recorded may lack what was reserved
  }

  scene(width, height, theme) {
    const {device, by, x, lanes, marks} = this.what;
    return {device, layers: this.layers, by, x, from: this.from, to: this.to, top: this.top, hidden: this.hidden, lit: this.lit, lanes, marks,
      singles: this.singles, row: this.row, brush: this.brush, width, height, theme};
  }

  get plotWidth() {
    return Math.max(this.canvas.parentElement.clientWidth - PLOT.left - PLOT.right, 1);
  }

  // The single event under the pointer; undefined: none.
  singleAt(event) {
    return this.painter.singleAt(this.place(event));
  }

  repaint() {
    if (this.what === undefined || this.asked !== 0) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.paintNow();
    });
  }

  paintNow() {
    const {clientWidth: width, clientHeight: height} = this.canvas.parentElement;
    if (width === 0) return;
    this.singles = this.told.singles();
    this.painter.paint(prepareCanvas(this.canvas, width, height), this.scene(width, height, this.theme));
  }

  choose(row, inView = true) {
    this.row = Math.min(Math.max(row, 0), this.what.device.rowCount - 1);
    const at = this.what.device.rows[this.column][this.row];
    if (inView && (at < this.from || at > this.to)) this.view(at - (this.to - this.from) / 2, at + (this.to - this.from) / 2);
    this.repaint();
    this.told.chosen(this.row);
  }

  view(from, to) {
    const [least, most] = this.what.whole;
    const span = Math.min(Math.max(to - from, (most - least) * NARROWEST_VIEW), most - least);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, least), most - span);
    this.to = this.from + span;
    this.repaint();
    this.told.viewed();
  }

  viewAll() {
    this.view(...this.what.whole);
  }

  get zoomed() {
    const [least, most] = this.what.whole;
    return this.from > least || this.to < most;
  }

  zoom(factor, at = this.what.device.rows[this.column][this.row]) {
    const center = Math.min(Math.max(at, this.from), this.to);
    this.view(center - (center - this.from) * factor, center + (this.to - center) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.view(this.from + by, this.to + by);
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return event.clientX - box.left;
  }

  down(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.pressed = {x: this.place(event), from: this.from, to: this.to, pans: event.shiftKey || event.pointerType === 'touch'};
  }

  move(event) {
    const x = this.place(event);
    if (this.pressed === undefined) {
      this.told.hovered(this.painter.rowAt(x), event);
      return;
    }
    if (this.pressed.pans) {
      const by = (this.pressed.x - x) / this.painter.plot.width * (this.pressed.to - this.pressed.from);
      this.view(this.pressed.from + by, this.pressed.to + by);
    } else if (Math.abs(x - this.pressed.x) > 4 || this.brush !== null) {
      this.brush = [this.pressed.x, x];
      this.told.hovered(-1);
      this.repaint();
    }
  }

  up(event) {
    if (this.pressed === undefined) return;
    const x = this.place(event);
    const {brush, pressed} = this;
    this.stopDragging();
    if (brush !== null && Math.abs(brush[1] - brush[0]) > 4) {
      const [from, to] = brush.map((at) => this.painter.valueAt(at)).sort((a, b) => a - b);
      this.view(from, to);
    } else if (Math.abs(x - pressed.x) <= 4) {
      const single = this.painter.singleAt(x);
      const row = single?.row ?? this.painter.rowAt(x);
      if (row >= 0) this.choose(row);
      if (single !== undefined) this.told.single(single);
    }
  }

  stopDragging() {
    this.pressed = undefined;
    this.brush = null;
    this.repaint();
  }

  wheel(event) {
    if (event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      if (event.ctrlKey) return;
      event.preventDefault();
      this.pan(event.deltaX / 600);
      return;
    }
    event.preventDefault();
    this.zoom(Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 120) / 500), this.painter.valueAt(this.place(event)));
  }
}

// A canvas as large as asked for, in the pixels that the screen has; its context draws in CSS pixels.
function prepareCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d', {alpha: false});
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
