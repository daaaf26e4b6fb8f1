// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A trace as the page works with it: columns as typed arrays, and what was alive at a moment. page_data.h describes the
// format; everything is read once, at the start.

const SCHEMA_VERSION = 3;
const DROPPED = ['born', 'time_ns', 'address'];  // columns that are written as steps
const MOST_OF_ONE = 0.95;  // of the peak, in a category that still is worth a picture
const LAYERS = ['category', 'module', 'line', 'stream'];

// Text of the page's script element -> the data: base64 of deflated JSON.
async function unpack(text) {
  const bytes = atob(text.trim());
  const packed = new Uint8Array(bytes.length);  // filled in a loop: a million calls of a function take 80 ms
  for (let i = 0; i < bytes.length; ++i) packed[i] = bytes.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const data = JSON.parse(await new Response(stream).text());
  if (data.schema_version !== SCHEMA_VERSION) {
    throw new Error(`data of version ${data.schema_version}, this page reads version ${SCHEMA_VERSION}`);
  }
  return data;
}

// What misleads in names (control characters, marks that turn the writing direction) is spelled out in the columns of
// this page already, and here in the answers of other commands.
const MISLEADING = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function spelledOut(value) {
  if (typeof value === 'string') return value.replace(MISLEADING, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(spelledOut);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, spelledOut(each)]));
}

function readColumns(raw) {
  const columns = {count: raw.size.length, leftOut: raw.left_out};
  for (const [name, column] of Object.entries(raw)) {
    if (!Array.isArray(column)) continue;
    columns[name] = DROPPED.includes(name) ? undelta(column, Float64Array) : Float64Array.from(column);
  }
  columns.end = columns.end.map((length, i) => length + columns.born[i]);
  return columns;
}

class Device {
  constructor(raw, strings) {
    Object.assign(this, {number: raw.device, name: raw.name, capacity: raw.capacity_bytes ?? 0, measure: raw.measure,
      peakEvent: raw.peak_event, peakBytes: raw.peak_bytes, changesInRow: raw.changes_in_row});
    this.rows = {};
    for (const [name, column] of Object.entries(raw.rows)) this.rows[name] = undelta(column, Float64Array);
    this.rowCount = this.rows.event.length;
    this.held = this.rows.allocated.map((bytes, i) => bytes + this.rows.other[i]);
    [this.mostHeld, this.mostTotal] = [this.held, this.rows.most_total].map((values) => values.reduce((a, b) => Math.max(a, b), 1));
    this.raw = raw.layers;
    this.strings = strings;
    this.dense = new Map();
    this.orders = new Map();
  }

  get label() {
    return `GPU ${this.number}`;
  }

  // The row that holds at an event: the last one whose moment is not behind it.
  rowAt(column, value) {
    const values = this.rows[column];
    let [low, high] = [0, this.rowCount];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= value) low = middle + 1;
      else high = middle;
    }
    return Math.max(low - 1, 0);
  }

  // [{name, label, keys, highest, values: bytes in each row}], highest first. What no layer explains (memory from
  // before the recording, gaps) is a layer of its own, so that they add up to what was held.
  layers(by) {
    if (!this.dense.has(by)) this.dense.set(by, this.makeLayers(by));
    return this.dense.get(by);
  }

  // Places of layers, those that change least first: the ground that the others stand on.
  steadyFirst(by) {
    if (!this.orders.has(by)) this.orders.set(by, this.orderLayers(by));
    return this.orders.get(by);
  }

  orderLayers(by) {
    const steadiness = this.layers(by).map(({values, highest}) => values.reduce((a, b) => a + b, 0) / values.length / highest);
    return [...steadiness.keys()].sort((a, b) => steadiness[b] - steadiness[a]);
  }

  makeLayers(by) {
    const rest = Float64Array.from(this.held);
    const layers = this.raw[by].map((raw) => {
      const values = new Float64Array(this.rowCount);
      let [at, bytes] = [0, 0];
      for (let i = 0, row = 0; i < raw.row.length; ++i) {
        row += raw.row[i];
        values.fill(bytes, at, row);
        [at, bytes] = [row, bytes + raw.bytes[i]];
      }
      values.fill(bytes, at);
      values.forEach((value, row) => { rest[row] -= value; });
      const name = raw.name === null ? null : this.strings[raw.name];
      return {name, keys: raw.keys, highest: raw.highest, values};
    });
    const highest = rest.reduce((most, value) => Math.max(most, value), 0);
    if (highest > 0) layers.push({name: undefined, keys: 1, highest, values: rest.map((value) => Math.max(value, 0))});
    return layers;
  }
}

class Trace {
  constructor(raw, index) {
    this.index = index;
    this.about = raw.about;
    this.answers = spelledOut(raw.answers);
    this.strings = raw.strings;
    this.frames = new Frames(raw.frames, raw.strings);
    this.stacks = raw.stacks;
    this.blocks = readColumns(raw.blocks);
    this.segments = readColumns(raw.segments);
    this.devices = raw.devices.map((device) => new Device(device, raw.strings));
    this.singleEvents = raw.single_events;
    this.steps = this.answers.steps.steps;
    this.stages = this.answers.stages.stages;
    this.marks = this.answers.timeline.marks;
    this.ooms = this.answers.report.ooms;
    this.alive = {key: '', list: []};
  }

  get hasTimes() {
    return this.answers.report.process.imported?.has_times !== false;
  }

  // Whether time says more than the order of events: times are known, and the run is not one long wait with everything
  // in a small part of it.
  tellsTime(place) {
    const device = this.devices[place];
    if (!this.hasTimes || device === undefined || device.rowCount < 3) return this.hasTimes;
    const {time_ns: time} = device.rows;
    const inner = time[Math.floor(device.rowCount * 0.95)] - time[Math.floor(device.rowCount * 0.05)];
    return inner > 0.3 * time[device.rowCount - 1];
  }

  // What the timeline is stacked by at first: lines where nearly all of the peak is of one category, as in histories of
  // others, which say little of categories.
  firstLayers(place) {
    const device = this.devices[place];
    if (device === undefined) return 'category';
    const row = device.rowAt('event', device.peakEvent);
    const shares = device.layers('category').map(({values}) => values[row] / Math.max(device.held[row], 1));
    return Math.max(...shares, 0) > MOST_OF_ONE && device.raw.line.length > 1 ? 'line' : 'category';
  }

  // Places in `columns` of what was alive behind an event, largest first.
  aliveIn(columns, device, event) {
    const {born, end, size} = columns;
    const list = [];
    for (let i = 0; i < columns.count && born[i] <= event; ++i) {
      if (event < end[i] && columns.device[i] === device) list.push(i);
    }
    return list.sort((a, b) => size[b] - size[a] || a - b);
  }

  blocksAt(device, event) {
    const key = `${device} ${event}`;
    if (this.alive.key !== key) this.alive = {key, list: this.aliveIn(this.blocks, device, event)};
    return this.alive.list;
  }

  // Of the block that began with an event; -1: it has no name here.
  placeOfBlock(born, address, device) {
    const {blocks} = this;
    return blocks.born.findIndex((event, i) => event === born && blocks.address[i] === address && blocks.device[i] === device);
  }

  // The words of a block by property: what layers are named by.
  textOf(by, i) {
    if (by === 'stream') return this.blocks.stream[i] === 0 ? 'default stream' : `stream 0x${this.blocks.stream[i].toString(16)}`;
    return this.strings[this.blocks[by][i]];
  }

  stepAt(time) {
    return this.steps.find((step) => step.start_ns <= time && time <= step.end_ns);
  }
}
