// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Two runs on one axis: by step, so that the same step of both lies at the same place, or by time. What lies between
// the curves has the colour of the higher run. At a chosen place the gap is taken apart by category or line of code,
// beside what `gpumemshim diff` says of the gap between the peaks.

const OVERLAY = {left: 76, right: 14, top: 18, bottom: 22, height: 240};
const OVERLAY_AXES = ['step', 'time', 'events'];
const MOST_GAPS = 12;

// Where each row of a device lies: number of its step, and which part of the step's events came before. Times within a
// step differ from run to run, its events hardly do. The setting up is the step before the first one.
function stepPlaces(device, steps) {
  const {event: events} = device.rows;
  const eventOf = (time) => events[device.rowAt('time_ns', time)];
  const anchors = [[events[0], steps[0].step - (events[0] < eventOf(steps[0].start_ns) ? 1 : 0)]];
  for (const {step, start_ns: start, end_ns: end} of steps) anchors.push([eventOf(start), step], [eventOf(end), step + 1]);
  const last = events[device.rowCount - 1];
  if (last > anchors.at(-1)[0]) anchors.push([last, anchors.at(-1)[1] + 1]);
  let next = 1;
  return events.map((event) => {
    while (next < anchors.length - 1 && anchors[next][0] < event) ++next;
    const [[from, left], [to, right]] = [anchors[next - 1], anchors[next]];
    return to > from ? left + (right - left) * Math.min(Math.max((event - from) / (to - from), 0), 1) : right;
  });
}

// Runs by their own names: as much of the path as tells them apart.
function runNames(traces) {
  const names = traces.map(runName);
  if (new Set(names).size === names.length) return names;
  const longer = traces.map((trace, i) => `${trace.about.file.split('/').slice(-2, -1)}/${names[i]}`);
  return new Set(longer).size === longer.length ? longer : names.map((name, i) => `${i + 1}: ${name}`);
}

class OverlayRun {
  constructor(trace, name, number, place) {
    this.trace = trace;
    this.device = trace.devices.find((device) => device.number === number) ?? trace.devices[0];
    this.fill = palette[place];
    this.name = name;
  }

  get hasSteps() {
    return this.trace.hasTimes && this.trace.steps.length > 0 && this.trace.steps.every((step, i, all) => i === 0 || step.start_ns >= all[i - 1].start_ns);
  }

  places(axis) {
    const {device, trace} = this;
    if (axis === 'step') return stepPlaces(device, trace.steps);
    return axis === 'time' ? device.rows.time_ns : device.rows.event;
  }

  use(axis) {
    this.x = this.places(axis);
    this.peak = this.x[rowOfPeak(this.device)];
  }

  // The row that holds at a place; -1 before the first and behind the last, where nothing is known of the run.
  rowAt(place) {
    return place > this.x.at(-1) ? -1 : this.lastRow(place);
  }

  lastRow(place) {
    let [low, high] = [0, this.x.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x[middle] <= place) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  heldAt(place) {
    const row = this.rowAt(place);
    return row < 0 ? null : this.device.held[row];
  }

  // The highest in each column of pixels, as the timeline has it; null where the run is not.
  columns(from, to, width) {
    const held = [];
    let next = this.lastRow(from) + 1;
    for (let column = 0; column < width; ++column) {
      const end = from + (column + 1) / width * (to - from);
      let most = null;
      for (; next < this.x.length && this.x[next] < end; ++next) most = Math.max(most ?? 0, this.device.held[next]);
      const start = from + column / width * (to - from);
      const goesOn = next > 0 && (next < this.x.length || start <= this.x.at(-1));
      held.push(most ?? (goesOn ? this.device.held[next - 1] : null));
    }
    return held;
  }

  // Name -> bytes at a place.
  parts(by, place) {
    const row = this.rowAt(place);
    const parts = new Map();
    for (const layer of row < 0 ? [] : this.device.layers(by)) {
      if (layer.values[row] > 0) parts.set(layer.name ?? (layer.name === null ? t('others') : t('before the recording or in a gap')), layer.values[row]);
    }
    return parts;
  }
}

const rowOfPeak = (device) => device.rowAt('event', device.peakEvent);

class RunOverlay {
  // told: {chosen(), viewed(), hovered(lines, event)}
  constructor(traces, diff, choice, told) {
    Object.assign(this, {diff, choice, told});
    const names = runNames(traces);
    this.runs = [diff.a, diff.b].map((side, i) => new OverlayRun(traces[i], names[i], side.device, i));
    this.axes = OVERLAY_AXES.filter((axis) => (axis === 'step' ? this.runs.every((run) => run.hasSteps) : axis !== 'time' || traces.every((trace) => trace.hasTimes)));
    if (!this.axes.includes(choice.axis)) [choice.axis] = this.axes;
    this.use(choice.axis);
    this.canvas = element('canvas', {id: 'overlay', tabindex: 0, role: 'img', 'aria-label': `${this.runs.map(({name}) => name).join(', ')}: ${t('in use')}`});
    this.room = element('div', {class: 'overlay'}, this.canvas);
    new ResizeObserver(() => this.repaint()).observe(this.room);
    this.listen();
  }

  use(axis) {
    const ends = this.runs.map((run) => (run.use(axis), [run.x[0], run.x.at(-1)]));
    this.whole = [Math.min(...ends.map(([from]) => from)), Math.max(...ends.map(([, to]) => to))];
    if (!(this.whole[1] > this.whole[0])) this.whole[1] = this.whole[0] + 1;
    const {span} = this.choice;  // as zoomed before the page was drawn anew
    [this.from, this.to] = span !== null && span[0] >= this.whole[0] && span[1] <= this.whole[1] ? span : this.whole;
    if (this.choice.at === null || this.choice.at < this.whole[0] || this.choice.at > this.whole[1]) this.choice.at = this.firstPlace();
  }

  // A peak at which the other run is known, too.
  firstPlace() {
    const [a, b] = this.runs;
    return a.rowAt(b.peak) < 0 && b.rowAt(a.peak) >= 0 ? a.peak : b.peak;
  }

  listen() {
    const {canvas} = this;
    canvas.addEventListener('pointermove', (event) => this.told.hovered(this.lines(this.placeOf(event)), event));
    canvas.addEventListener('pointerleave', () => this.told.hovered(null));
    canvas.addEventListener('click', (event) => this.choose(this.placeOf(event)));
    canvas.addEventListener('dblclick', () => this.view(...this.whole));
    canvas.addEventListener('wheel', (event) => {
      if (event.ctrlKey) return;
      event.preventDefault();
      const at = this.placeOf(event), factor = Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 120) / 500);
      this.view(at - (at - this.from) * factor, at + (this.to - at) * factor);
    }, {passive: false});
    canvas.addEventListener('keydown', (event) => {
      const way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (way === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.choose(this.choice.at + way * (this.choice.axis === 'step' ? 1 : (this.to - this.from) / 100));
    });
  }

  view(from, to) {
    const [least, most] = this.whole;
    const span = Math.min(Math.max(to - from, (most - least) * NARROWEST_VIEW), most - least);
    this.from = Math.min(Math.max(from, least), most - span);
    this.to = this.from + span;
    this.choice.span = span < most - least ? [this.from, this.to] : null;
    this.repaint();
    this.told.viewed();
  }

  choose(place) {
    this.choice.at = Math.min(Math.max(place, this.whole[0]), this.whole[1]);
    this.repaint();
    this.told.chosen();
  }

  placeOf(event) {
    const share = (event.clientX - this.canvas.getBoundingClientRect().left - OVERLAY.left) / this.plotWidth;
    return this.from + Math.min(Math.max(share, 0), 1) * (this.to - this.from);
  }

  get plotWidth() {
    return Math.max(this.room.clientWidth - OVERLAY.left - OVERLAY.right, 1);
  }

  words(place) {
    const {axis} = this.choice;
    if (axis === 'step') {
      const steps = this.runs.flatMap(({trace}) => [trace.steps[0].step, trace.steps.at(-1).step + 1]);
      return place < Math.min(...steps) ? t('before the first step') : place > Math.max(...steps) ? t('after the last step') : listed([t('step {n}', {n: Math.floor(place)}), formatPercent(place % 1, 1)]);
    }
    return axis === 'time' ? formatTime(place) : t('event {n}', {n: Math.round(place)});
  }

  // The gap at a place, largest first: [{name, a, b, gap}]; nothing where one of the runs is not.
  gaps(place, by) {
    if (this.runs.some((run) => run.rowAt(place) < 0)) return [];
    const [a, b] = this.runs.map((run) => run.parts(by, place));
    const renamed = new Map(this.diff.renamed.filter(({kind}) => kind === by).map(({was, now}) => [was, now]));
    const first = new Map([...a].map(([name, bytes]) => [renamed.get(name) ?? name, bytes]));
    return [...new Set([...first.keys(), ...b.keys()])].map((name) => ({name, a: first.get(name) ?? 0, b: b.get(name) ?? 0, gap: (b.get(name) ?? 0) - (first.get(name) ?? 0)}))
      .sort((x, y) => Math.abs(y.gap) - Math.abs(x.gap));
  }

  lines(place) {
    const [a, b] = this.runs.map((run) => run.heldAt(place));
    const gap = a === null || b === null ? '' : `${signedBytes(b - a)} · `;
    return [`${gap}${this.words(place)}`, ...this.runs.map((run, i) => `${[a, b][i] === null ? t('not running') : formatBytes([a, b][i])}  ${run.name}`),
      ...this.gaps(place, 'category').filter(({gap}) => gap !== 0).slice(0, 6).map(({name, gap}) => `${signedBytes(gap)}  ${nameIn('category', name)}`)];
  }

  repaint() {
    const {clientWidth: width} = this.room;
    if (width > 0) this.paint(prepareCanvas(this.canvas, width, OVERLAY.height), width, OVERLAY.height);
  }

  paint(context, width, height) {
    new OverlayPainter(this, context, width, height).paint();
  }
}
