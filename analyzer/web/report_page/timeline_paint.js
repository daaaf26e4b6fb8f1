// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Paints a timeline on a context: a canvas', or one that writes SVG. Each column of pixels shows the highest row in it,
// whole: its layers are those of one and the same moment, so that their sum was in use.

const PLOT = {left: 76, right: 14, top: 16, band: 15, axis: 22};
const MOST_MARK = 40;  // characters
const LABEL_FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif';

class TimelinePainter {
  // scene: {device, layers, by, x: 'time' | 'events', from, to (of x), top (bytes), hidden: Set of layers, lit: place of a layer or -1,
  //         lanes: [[{label, short, from, to}]], marks: [{at, text, bad}], singles: of single_events.js or null, row, brush: [from, to] or null, width, height, theme}
  paint(context, scene) {
    this.context = context;
    this.scene = scene;
    const {width, height, theme} = scene;
    this.plot = {x: PLOT.left, y: PLOT.top, width: Math.max(width - PLOT.left - PLOT.right, 1),
      height: Math.max(height - PLOT.top - PLOT.axis - (scene.lanes.length > 0 ? scene.lanes.length * (PLOT.band + 1) + 2 : 0), 1)};
    context.fillStyle = theme.page;
    context.fillRect(0, 0, width, height);
    context.font = LABEL_FONT;
    context.textBaseline = 'middle';
    this.rows = this.rowsOfColumns();
    this.paintGrid();
    this.paintLayers();
    this.paintLines();
    this.paintTimes();
    scene.lanes.forEach((bands, lane) => this.paintBands(bands, lane));
    this.paintMarks();
    paintSingleEvents(this);
    this.paintCursor();
  }

  xOf(value) {
    const {from, to} = this.scene;
    return this.plot.x + ((value - from) / (to - from)) * this.plot.width;
  }

  valueAt(x) {
    const {from, to} = this.scene;
    return from + ((x - this.plot.x) / this.plot.width) * (to - from);
  }

  yOf(bytes) {
    return this.plot.y + this.plot.height * (1 - bytes / this.scene.top);
  }

  // For each column of pixels the row that it shows: the highest whose moment lies in it, else the one that still holds.
  rowsOfColumns() {
    const {device, x} = this.scene;
    const name = x === 'time' ? 'time_ns' : 'event';
    const values = device.rows[name];
    const columns = new Int32Array(Math.ceil(this.plot.width));
    const start = this.valueAt(this.plot.x);
    let next = device.rowAt(name, start);
    if (values[next] < start) ++next;
    for (let column = 0; column < columns.length; ++column) {
      const end = this.valueAt(this.plot.x + column + 1);
      let best = -1;
      for (; next < values.length && values[next] < end; ++next) {
        if (best < 0 || device.held[next] > device.held[best]) best = next;
      }
      columns[column] = best >= 0 ? best : next - 1;
    }
    return columns;
  }

  paintGrid() {
    const {context, scene, plot} = this;
    context.textAlign = 'right';
    for (const tick of byteTicks(scene.top, Math.max(Math.floor(plot.height / 38), 1))) {
      const y = Math.round(this.yOf(tick)) + 0.5;
      context.fillStyle = scene.theme.line;
      context.fillRect(plot.x, y - 0.5, plot.width, 1);
      context.fillStyle = scene.theme.aside;
      context.fillText(formatBytes(tick), plot.x - 7, y);
    }
  }

  paintLayers() {
    const {context, scene, rows, plot} = this;
    const boxes = boxesFor(context, plot);
    const base = new Float64Array(rows.length);
    for (const place of scene.device.steadyFirst(scene.by)) {
      if (scene.hidden.has(place)) continue;
      const {values, name} = scene.layers[place];
      boxes.begin(fillOf(scene.by, name, place), scene.lit >= 0 && scene.lit !== place ? 0.3 : 1);
      for (let start = 0; start < rows.length;) {
        let stop = start + 1;
        while (stop < rows.length && rows[stop] === rows[start] && base[stop] === base[start]) ++stop;
        const bytes = rows[start] < 0 ? 0 : values[rows[start]];
        if (bytes > 0) {
          const y = this.yOf(base[start] + bytes);
          boxes.add(plot.x + start, y, stop - start, this.yOf(base[start]) - y);
        }
        for (let column = start; column < stop; ++column) base[column] += bytes;
        start = stop;
      }
      boxes.end();
    }
    boxes.show();
  }

  paintLines() {
    const {scene, plot, rows} = this;
    const {device} = scene;
    const line = (values, color, dash) => {
      const {context} = this;
      context.strokeStyle = color;
      context.lineWidth = 1.3;
      context.setLineDash(dash);
      context.beginPath();
      for (let column = 0; column < rows.length; ++column) {
        const y = this.yOf(Math.min(rows[column] < 0 ? 0 : values(rows[column]), scene.top * 1.02));
        column === 0 ? context.moveTo(plot.x, y) : context.lineTo(plot.x + column, y);
        context.lineTo(plot.x + column + 1, y);
      }
      context.stroke();
      context.setLineDash([]);
    };
    const {reserved, other} = device.rows;
    line((row) => reserved[row] + other[row], scene.theme.reserved, []);
    if (device.capacity > 0 && device.capacity <= scene.top) line(() => device.capacity, scene.theme.capacity, [6, 4]);
  }

  paintTimes() {
    const {context, scene, plot} = this;
    const ticks = ticksOf(scene.from, scene.to, Math.max(Math.floor(plot.width / 110), 1));
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : scene.to - scene.from;
    context.textAlign = 'center';
    for (const tick of ticks) {
      const x = Math.round(this.xOf(tick));
      context.fillStyle = scene.theme.strong;
      context.fillRect(x, plot.y + plot.height, 1, 4);
      context.fillStyle = scene.theme.aside;
      const text = scene.x === 'time' ? formatTime(tick, step) : formatCount(Math.round(tick));
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(Math.max(x, plot.x + half - 20), plot.x + plot.width - half + 10), plot.y + plot.height + 12);
    }
  }

  paintBands(bands, lane) {
    const {context, scene, plot} = this;
    const y = scene.height - (scene.lanes.length - lane) * (PLOT.band + 1);
    context.textAlign = 'left';
    let before = -Infinity;
    bands.forEach((band, place) => {
      const left = Math.max(this.xOf(band.from), plot.x);
      const right = Math.min(this.xOf(band.to), plot.x + plot.width);
      if (right <= plot.x || left >= plot.x + plot.width || right - before < 0.7) return;  // no wider than a pixel
      before = right;
      context.fillStyle = place % 2 === 0 ? scene.theme.line : scene.theme.band;
      context.fillRect(left, y, Math.max(right - left - 1, 0.6), PLOT.band);
      const room = right - left - 8;
      const text = [band.label, band.short].find((each) => context.measureText(each).width <= room);
      context.fillStyle = scene.theme.aside;
      if (text !== undefined) context.fillText(text, left + 4, y + PLOT.band / 2 + 0.5);
    });
  }

  // A line each; its words where they are in nobody's way.
  paintMarks() {
    const {context, scene, plot} = this;
    let free = plot.x;
    context.textAlign = 'left';
    for (const mark of scene.marks) {
      const x = this.xOf(mark.at);
      if (x < plot.x || x > plot.x + plot.width) continue;
      context.fillStyle = mark.bad ? scene.theme.capacity : scene.theme.strong;
      context.fillRect(Math.round(x), plot.y, mark.bad ? 2 : 1, plot.height);
      const text = mark.text.length > MOST_MARK ? `${mark.text.slice(0, MOST_MARK - 1)}…` : mark.text;
      const width = context.measureText(text).width + 6;
      if (x < free || x + width > plot.x + plot.width) continue;
      free = x + width + 4;
      context.fillStyle = scene.theme.page;
      context.fillRect(x + 3, plot.y, width, 14);
      context.fillStyle = mark.bad ? scene.theme.capacity : scene.theme.aside;
      context.fillText(text, x + 6, plot.y + 7);
    }
  }

  paintCursor() {
    const {context, scene, plot} = this;
    if (scene.brush !== null) {
      const [left, right] = scene.brush.map((x) => Math.min(Math.max(x, plot.x), plot.x + plot.width)).sort((a, b) => a - b);
      context.fillStyle = scene.theme.brush;
      context.fillRect(left, plot.y, right - left, plot.height);
    }
    const value = scene.device.rows[scene.x === 'time' ? 'time_ns' : 'event'][scene.row];
    const x = this.xOf(value);
    if (x < plot.x - 1 || x > plot.x + plot.width + 1) return;
    context.fillStyle = scene.theme.accent;
    context.fillRect(Math.round(x) - 1, plot.y - 6, 2, plot.height + 6);
    context.beginPath();
    context.moveTo(x - 5, plot.y - 9);
    context.lineTo(x + 5, plot.y - 9);
    context.lineTo(x, plot.y - 2);
    context.fill();
  }

  markX(mark) {
    return this.xOf(this.scene.device.rows[this.scene.x === 'time' ? 'time_ns' : 'event'][mark.row]);
  }

  // The nearest single event; undefined: none is near.
  singleAt(x) {
    const near = (this.scene?.singles ?? []).map((mark) => ({mark, away: Math.abs(this.markX(mark) - x)})).filter(({away}) => away <= EVENT_ROOM);
    return near.sort((a, b) => a.away - b.away)[0]?.mark;
  }

  // The row that a place of the picture shows; -1 outside of it and before the first.
  rowAt(x) {
    const column = Math.floor(x - this.plot.x);
    return column < 0 || column >= this.rows.length ? -1 : this.rows[column];
  }
}
