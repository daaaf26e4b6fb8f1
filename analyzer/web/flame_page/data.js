// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The data that gpumemshim put into the page: columns of numbers and one table of strings. flame_data.h describes the
// format. Everything here is read once, at the start.

// Kinds of frames, in the order of flame_data.h. `hidden` at first where the frames tell nothing.
const KINDS = [
  {key: 'user', label: 'Your code', what: 'the script, its modules, and native code that is neither the system\'s nor a package\'s'},
  {key: 'library', label: 'Libraries', what: 'installed Python packages other than PyTorch'},
  {key: 'torch', label: 'PyTorch', what: 'PyTorch\'s Python code, and code that it generates'},
  {key: 'stdlib', label: 'Standard library', what: 'Python\'s own modules'},
  {key: 'import', label: 'Import machinery', what: 'frames that run an import', hidden: true},
  {key: 'native', label: 'Native', what: 'native code of PyTorch, CUDA, the interpreter and the system'},
  {key: 'merged', label: 'Merged', what: 'stacks too small to be kept apart in this page', fixed: true},
  {key: 'group', label: 'Device or thread', what: 'not a function: what the picture is split by', fixed: true},
];
const KIND_MERGED = 6;
const KIND_GROUP = 7;

// [first, step, step, ...] -> running sums.
function undelta(column, Type) {
  const values = new Type(column.length);
  let sum = 0;
  for (let i = 0; i < column.length; ++i) values[i] = sum += column[i];
  return values;
}

// [value, times, value, times, ...] -> one value a row.
function unrun(column, length) {
  const values = new Int32Array(length);
  let at = 0;
  for (let i = 0; i + 1 < column.length; i += 2) {
    values.fill(column[i], at, at + column[i + 1]);
    at += column[i + 1];
  }
  return values;
}

function readView(raw) {
  const node = undelta(raw.rows.node, Int32Array);
  return {
    ...raw,
    key: raw.mode,
    what: raw.meaning,
    rows: {
      node,
      device: unrun(raw.rows.device, node.length),
      thread: unrun(raw.rows.thread, node.length),
      bytes: Float64Array.from(raw.rows.bytes),
      count: Float64Array.from(raw.rows.count),
    },
  };
}

// What a view holds of one device, or of all (-1).
function viewSize(view, device) {
  if (device < 0) return {bytes: view.bytes, blocks: view.count};
  const {rows} = view;
  let [bytes, blocks] = [0, 0];
  for (let i = 0; i < rows.node.length; ++i) {
    if (rows.device[i] !== device) continue;
    bytes += rows.bytes[i];
    blocks += rows.count[i];
  }
  return {bytes, blocks};
}

// When and what it is, in a sentence.
function momentText(view, device) {
  const moments = view.moments.filter((each) => device < 0 || each.device === device);
  const text = moments.map((each) => t(each.text)).join(language === 'zh' ? '。' : '. ');
  const apart = moments.length > 1 && view.key === 'peak';
  return apart ? `${text}${language === 'zh' ? '。' : '. '}${t('Each at its own time: their sum was never in use at once.')}` : text;
}

// Node 0 is the root and has no frame; parent[i] < i.
function readNodes(raw) {
  const count = raw.up.length + 1;
  const parent = new Int32Array(count);
  const frame = new Int32Array(count);
  frame[0] = -1;
  for (let i = 1; i < count; ++i) {
    parent[i] = i - raw.up[i - 1];
    frame[i] = raw.frame[i - 1];
  }
  return {count, parent, frame};
}

class Frames {
  constructor(raw, strings) {
    this.raw = raw;
    this.strings = strings;
    this.kind = Uint8Array.from(raw.kind);
    this.count = this.kind.length;
    this.added = [];  // groups, by the page
  }

  // A frame that is not a function: a device or a thread. Equal names are one frame.
  group(name) {
    let at = this.added.indexOf(name);
    if (at < 0) at = this.added.push(name) - 1;
    return this.count + at;
  }

  kindOf(frame) {
    return frame < 0 || frame >= this.count ? KIND_GROUP : this.kind[frame];
  }

  name(frame) {
    if (frame < 0) return t('all');
    if (frame >= this.count) return this.added[frame - this.count];
    const name = this.strings[this.raw.function[frame]];
    return name.includes(' ') ? t(name) : name;  // one word may be one of ours, and is a name here
  }

  // "train.py:91", or the module of a native function; '' where neither is known.
  place(frame) {
    if (frame < 0 || frame >= this.count) return '';
    const file = this.strings[this.raw.file[frame]];
    if (file !== '') return this.raw.line[frame] > 0 ? `${file}:${this.raw.line[frame]}` : file;
    return this.strings[this.raw.module[frame]];
  }

  // All that is known, for the tooltip: [what, text] pairs without empty ones.
  details(frame) {
    if (frame < 0 || frame >= this.count) return [];
    const line = this.raw.line[frame] > 0 ? `:${this.raw.line[frame]}` : '';
    const path = this.strings[this.raw.path[frame]] || this.strings[this.raw.file[frame]];
    const pairs = [
      [t('file'), path === '' ? '' : path + line],
      [t('module'), this.strings[this.raw.module[frame]]],
    ];
    return pairs.filter(([, text]) => text !== '');
  }

  searched(frame) {
    if (frame < 0 || frame >= this.count) return this.name(frame);
    const {path, module} = this.raw;
    return [this.name(frame), this.place(frame), this.strings[path[frame]],
      this.strings[module[frame]]].join(' ');
  }

  get total() {
    return this.count + this.added.length;
  }
}

function readData(text) {
  const raw = JSON.parse(text);
  takeWords(raw);
  if (raw.schema_version !== 3) throw new Error(`data of version ${raw.schema_version}, this page reads version 3`);
  return {
    about: raw.about,
    start: raw.start,
    devices: raw.devices,
    threads: raw.threads,
    frames: new Frames(raw.frames, raw.strings),
    nodes: readNodes(raw.nodes),
    modes: raw.views.map(readView),
  };
}
