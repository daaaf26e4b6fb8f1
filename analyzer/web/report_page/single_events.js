// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Each allocation and each free, where the timeline is zoomed in so far that it has room for them: a mark each, with
// what began or ended. A page from a file has those of short runs, of peaks, failures and marks; `gpumemshim serve`
// gives those of any place, which is asked for when the view comes to rest there.

const EVENT_ROOM = 6;        // pixels that an event takes, for a mark of its own
const SIZE_ROOM = 58;        // pixels to the next one, for its size in words
const MOST_ASKED = 4096;     // events; event_windows.h
const ASKED_AROUND = 1000;   // events before and behind the view that are asked for, too
const ASKED_STEP = 500;      // stretches begin and end at multiples: a view near an earlier one asks for the same
const REST_MS = 250;

// The number of the event at a place of the axis, between rows about.
function eventAt(device, column, value) {
  const {event} = device.rows;
  const row = device.rowAt(column, value);
  const [at, next] = [device.rows[column][row], device.rows[column][row + 1]];
  if (next === undefined || value <= at) return event[row];
  return event[row] + (value - at) / (next - at) * (event[row + 1] - event[row]);
}

function indexLives(columns, device, isWanted) {
  const [born, ended] = [new Map(), new Map()];
  for (let i = 0; i < columns.count; ++i) {
    if (columns.device[i] !== device.number) continue;
    if (isWanted(columns.born[i])) born.set(columns.born[i], i);
    if (columns.died_ns[i] >= 0 && isWanted(columns.end[i])) ended.set(columns.end[i], i);
  }
  return {columns, born, ended};
}

// Single events of one device of a trace.
class SingleEvents {
  constructor(trace, device) {
    Object.assign(this, {trace, device});
  }

  has(from, to) {
    return this.trace.singleEvents.some(([first, end]) => first <= from && to < end);
  }

  get lives() {
    const isWanted = (event) => this.has(event, event);
    this.index ??= {blocks: indexLives(this.trace.blocks, this.device, isWanted), segments: indexLives(this.trace.segments, this.device, isWanted)};
    return this.index;
  }

  // What happened at an event: {of: 'blocks' | 'segments', i, isBorn}; undefined: nothing that is known by name.
  at(event) {
    for (const of of ['blocks', 'segments']) {
      const {born, ended} = this.lives[of];
      if (born.has(event)) return {of, i: born.get(event), isBorn: true};
      if (ended.has(event)) return {of, i: ended.get(event), isBorn: false};
    }
    return undefined;
  }

  // Marks of a view that is `width` pixels wide; null where there are too many for it.
  marks({column, from, to, width}) {
    const {device} = this;
    const values = device.rows[column];
    let first = device.rowAt(column, from);
    while (first > 0 && values[first - 1] >= from) --first;
    const marks = [];
    for (let row = first; row < device.rowCount && values[row] <= to; ++row) {
      if (values[row] < from) continue;
      if (marks.length * EVENT_ROOM > width) return null;
      const event = device.rows.event[row];
      const happened = this.has(event, event) ? this.at(event) : undefined;
      if (happened !== undefined) marks.push({...happened, row, event, bytes: this.trace[happened.of].size[happened.i]});
    }
    return marks;
  }

  // Events that a view is about; whether it has room for them, and whether they are there.
  view({column, from, to, width}) {
    const [first, last] = [from, to].map((value) => eventAt(this.device, column, value));
    return {first: Math.max(Math.floor(first), 0), last: Math.ceil(last), hasRoom: (last - first) * EVENT_ROOM <= width,
      isThere: this.has(Math.ceil(first), Math.max(Math.floor(last), Math.ceil(first)))};
  }
}

// What a page says of a mark where somebody points at it.
function singleEventLines(trace, mark) {
  const columns = trace[mark.of], {i} = mark;
  const words = mark.of === 'blocks' ? ['allocated', 'freed'] : ['reserved from CUDA', 'given back to CUDA'];
  const text = (column) => trace.strings[columns[column][i]];
  const other = mark.isBorn ? (columns.died_ns[i] < 0 ? t('never freed') : `${t('freed')}: ${formatTime(columns.died_ns[i])}, ${t('event {n}', {n: columns.end[i]})}`)
    : `${t('allocated')}: ${formatTime(columns.time_ns[i])}, ${t('event {n}', {n: columns.born[i]})}`;
  const named = mark.of === 'blocks' ? [text('line') || t('not known'), [t(text('category')), text('module')].filter((each) => each !== '').join(' · ')] : [];
  return [`${mark.isBorn ? '▲' : '▽'} ${formatBytes(mark.bytes)} ${t(words[mark.isBorn ? 0 : 1])}`, ...named, other];
}

// A triangle that points up where memory began and down, hollow, where it ended; the bar behind it is as high as the
// memory is large.
function paintSingleEvents(painter) {
  const {context, scene} = painter;
  if (scene.singles === null) return;
  context.textAlign = 'left';
  let free = -Infinity;
  scene.singles.forEach((mark, place) => {
    const x = painter.markX(mark);
    const held = scene.device.held[mark.row];
    const isInUse = mark.of === 'blocks';
    const {reserved, other} = scene.device.rows;
    const top = painter.yOf(isInUse ? held + (mark.isBorn ? 0 : mark.bytes) : reserved[mark.row] + other[mark.row]);
    const bottom = isInUse ? painter.yOf(held - (mark.isBorn ? mark.bytes : 0)) : top;
    context.fillStyle = scene.theme.text;
    context.fillRect(x - 0.75, top, 1.5, Math.max(bottom - top, 1));
    const [base, tip] = mark.isBorn ? [top - 3, top - 11] : [top - 11, top - 3];
    context.beginPath();
    for (const [dx, y] of [[-4.5, base], [4.5, base], [0, tip], [-4.5, base]]) dx === -4.5 && y === base ? context.moveTo(x + dx, y) : context.lineTo(x + dx, y);
    context.lineTo(x - 4.5, base);
    context.fillStyle = mark.isBorn ? mark.color : scene.theme.page;
    context.fill();
    context.strokeStyle = scene.theme.text;
    context.lineWidth = 1;
    context.stroke();
    const next = scene.singles[place + 1];
    const room = (next === undefined ? painter.plot.x + painter.plot.width : painter.markX(next)) - x;
    if (x < free || room < SIZE_ROOM) return;
    const words = formatBytes(mark.bytes);
    const wide = context.measureText(words).width, y = Math.max(top - 7, PLOT.top + 8);
    free = x + wide + 14;
    context.fillStyle = scene.theme.page;
    context.fillRect(x + 6, y - 7, wide + 4, 13);
    context.fillStyle = scene.theme.text;
    context.fillText(words, x + 8, y);
  });
}

// Those of layers that are shown, each in the colour of its layer.
function coloredMarks(marks, {trace, timeline, choice}) {
  return marks.flatMap((mark) => {
    if (mark.of === 'segments') return [{...mark, color: REST_FILL.color}];
    const name = trace.textOf(choice.by, mark.i);
    const own = timeline.layers.findIndex((layer) => layer.name === name);
    const place = own >= 0 ? own : timeline.layers.findIndex((layer) => layer.name === null);  // one of the others
    return timeline.hidden.has(place) ? [] : [{...mark, color: (own >= 0 ? fillOf(choice.by, name, own) : REST_FILL).color}];
  });
}

// Says in the timeline what of single events is there, and has `serve` give them where they are not.
class SingleEventsView {
  // ask(events): of a page that `serve` gives, "FROM-UNTIL" or ''; null of a file
  constructor(ask) {
    this.ask = ask;
    this.asked = '';
    this.isAnswered = true;
  }

  show(page) {
    const {timeline, trace, device} = page;
    if (this.single?.device !== device) this.single = new SingleEvents(trace, device);
    const view = {column: timeline.column, from: timeline.from, to: timeline.to, width: timeline.plotWidth};
    const seen = this.single.view(view);
    const marks = seen.hasRoom || seen.isThere ? this.single.marks(view) : null;
    const shown = marks === null || marks.length === 0 ? null : coloredMarks(marks, page);
    byId('single').textContent = this.words(page, seen, shown);
    byId('single').hidden = byId('single').textContent === '';
    this.wait(seen);
    return shown;
  }

  words({trace}, seen, shown) {
    if (!seen.hasRoom) return '';
    if (seen.isThere) return shown === null ? '' : `${t('{n} single event[s]', {n: shown.length})}: ▲ ${t('allocated')}, ▽ ${t('freed')}`;
    if (this.ask !== null) return this.isAnswered && this.asked !== '' ? t('Its single events are not known.') : t('Reading single events …');
    return `${t('Single events of this place:')} gpumemshim serve ${trace.about.file.split('/').pop()}`;
  }

  // Asks for them when nothing has moved for a while.
  wait({first, last, isThere}) {
    if (this.ask === null) return;
    clearTimeout(this.timer);
    const isNear = last - first <= MOST_ASKED - 2 * ASKED_AROUND - 2 * ASKED_STEP;
    const [from, until] = [Math.floor((first - ASKED_AROUND) / ASKED_STEP), Math.ceil((last + ASKED_AROUND) / ASKED_STEP)].map((step) => step * ASKED_STEP);
    const events = isNear ? `${Math.max(from, 0)}-${until}` : '';
    if (isThere || events === this.asked) return;
    this.timer = setTimeout(() => {
      this.asked = events;
      this.isAnswered = false;
      this.ask(events);
    }, REST_MS);
  }
}
