// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The tree that is drawn, made anew for each choice of mode, direction of stacks, hidden kinds, split and depth. Columns
// instead of objects: a tree of 100,000 nodes takes tens of milliseconds and no garbage.
//
//   node 0 is the root; parent[i] < i; children of a node, largest first:
//   children[childStart[i]] ... children[childStart[i + 1] - 1]
//   left[i], size[i]: where the node lies, in bytes (or blocks) from the root's left edge

// (parent, frame) -> node, open addressing. Grows by itself.
class ChildIndex {
  constructor() {
    this.resize(1 << 12);
    this.used = 0;
  }

  resize(capacity) {
    this.mask = capacity - 1;
    this.slots = new Int32Array(capacity);  // node + 1; 0 = free
  }

  static hash(parent, frame) {
    let h = Math.imul(parent, 0x9e3779b1) ^ Math.imul(frame + 1, 0x85ebca6b);
    h ^= h >>> 15;
    h = Math.imul(h, 0x2c1b3c6d);
    return h ^ (h >>> 13);
  }

  // The node's slot, or -1 - slot of the free place. No object is made: this runs millions of times.
  locate(parents, frames, parent, frame) {
    let slot = ChildIndex.hash(parent, frame) & this.mask;
    for (;;) {
      const node = this.slots[slot] - 1;
      if (node < 0) return -1 - slot;
      if (parents[node] === parent && frames[node] === frame) return slot;
      slot = (slot + 1) & this.mask;
    }
  }

  put(slot, node, parents, frames) {
    this.slots[slot] = node + 1;
    if (++this.used * 2 <= this.mask) return;
    const old = this.slots;
    this.resize(old.length * 2);
    for (const entry of old) {
      if (entry > 0) this.slots[-1 - this.locate(parents, frames, parents[entry - 1], frames[entry - 1])] = entry;
    }
  }
}

class TreeBuilder {
  constructor() {
    this.capacity = 1 << 12;
    this.count = 1;
    this.parent = new Int32Array(this.capacity);
    this.frame = new Int32Array(this.capacity);
    this.depth = new Int32Array(this.capacity);
    this.bytes = new Float64Array(this.capacity);
    this.blocks = new Float64Array(this.capacity);
    this.frame[0] = -1;
    this.parent[0] = -1;
    this.index = new ChildIndex();
  }

  grow() {
    this.capacity *= 2;
    for (const name of ['parent', 'frame', 'depth', 'bytes', 'blocks']) {
      const longer = new this[name].constructor(this.capacity);
      longer.set(this[name]);
      this[name] = longer;
    }
  }

  child(parent, frame) {
    const slot = this.index.locate(this.parent, this.frame, parent, frame);
    if (slot >= 0) return this.index.slots[slot] - 1;
    if (this.count === this.capacity) this.grow();
    const node = this.count++;
    this.parent[node] = parent;
    this.frame[node] = frame;
    this.depth[node] = this.depth[parent] + 1;
    this.index.put(-1 - slot, node, this.parent, this.frame);
    return node;
  }

  add(node, bytes, blocks) {
    this.bytes[node] += bytes;
    this.blocks[node] += blocks;
  }
}

// choice: {mode, inverted, hidden: Set of kinds, split: 'none' | 'thread' | 'device', device: -1 or place, depth: 0 or limit}
function growTree(data, choice) {
  const {rows} = data.modes[choice.mode];
  const builder = new TreeBuilder();
  const hidden = Array.from(data.frames.kind, (kind) => choice.hidden.has(kind));
  const walk = choice.inverted ? invertedWalk(data, hidden, choice, builder) : plainWalk(data, hidden, choice, builder);
  for (const row of rowsOf(rows, choice)) {
    const root = choice.split === 'none' ? 0 : builder.child(0, groupFrame(data, choice.split, rows, row));
    builder.add(walk(rows.node[row], root), rows.bytes[row], rows.count[row]);
  }
  return builder;
}

// The rows of the device, those of one group next to each other.
function rowsOf(rows, choice) {
  let order = Int32Array.from(rows.node.keys());
  if (choice.device >= 0) order = order.filter((row) => rows.device[row] === choice.device);
  if (choice.split === 'none') return order;
  const group = rows[choice.split];
  return order.sort((a, b) => group[a] - group[b] || a - b);
}

function groupFrame(data, split, rows, row) {
  const [labels, places] = split === 'device' ? [data.devices, rows.device] : [data.threads, rows.thread];
  return data.frames.group(t(labels[places[row]]));
}

// Outermost frame first. Where a node went is remembered as long as the root stays the same.
function plainWalk(data, hidden, choice, builder) {
  const {count, parent, frame} = data.nodes;
  const places = new Int32Array(count);
  const placedFor = new Int32Array(count).fill(-1);
  const waiting = [];
  return (node, root) => {
    places[0] = placedFor[0] = root;
    for (; placedFor[node] !== root; node = parent[node]) waiting.push(node);
    let place = places[node];
    const deepest = choice.depth > 0 ? choice.depth + builder.depth[root] : Infinity;
    while (waiting.length > 0) {
      node = waiting.pop();
      if (!hidden[frame[node]] && builder.depth[place] < deepest) place = builder.child(place, frame[node]);
      places[node] = place;
      placedFor[node] = root;
    }
    return place;
  };
}

// Innermost frame first: up from the row's node.
function invertedWalk(data, hidden, choice, builder) {
  const {parent, frame} = data.nodes;
  return (node, root) => {
    let place = root;
    const deepest = choice.depth > 0 ? choice.depth + builder.depth[root] : Infinity;
    for (; node !== 0 && builder.depth[place] < deepest; node = parent[node]) {
      if (!hidden[frame[node]]) place = builder.child(place, frame[node]);
    }
    return place;
  };
}

// The tree as it is drawn: sums, order and places.
function layTree(builder, unit) {
  const n = builder.count;
  const bytes = builder.bytes.slice(0, n);
  const blocks = builder.blocks.slice(0, n);
  const selfBytes = builder.bytes.slice(0, n);
  const parent = builder.parent.subarray(0, n);
  const degree = new Int32Array(n + 1);
  for (let i = n - 1; i > 0; --i) {
    bytes[parent[i]] += bytes[i];
    blocks[parent[i]] += blocks[i];
    ++degree[parent[i]];
  }
  const size = unit === 'bytes' ? bytes : blocks;
  const {childStart, children} = orderChildren(parent, degree, size, n);
  const left = new Float64Array(n);
  let deepest = 0;
  for (let i = 0; i < n; ++i) {
    let at = left[i];
    for (let c = childStart[i]; c < childStart[i + 1]; ++c) {
      left[children[c]] = at;
      at += size[children[c]];
    }
    deepest = Math.max(deepest, builder.depth[i]);
  }
  return {count: n, parent, frame: builder.frame.subarray(0, n), depth: builder.depth.subarray(0, n), bytes, blocks, selfBytes,
    size, left, childStart, children, deepest};
}

function orderChildren(parent, degree, size, n) {
  const childStart = new Int32Array(n + 1);
  for (let i = 0; i < n; ++i) childStart[i + 1] = childStart[i] + degree[i];
  const children = new Int32Array(childStart[n]);
  const filled = childStart.slice();
  for (let i = 1; i < n; ++i) children[filled[parent[i]]++] = i;
  for (let i = 0; i < n; ++i) {
    if (degree[i] > 1) children.subarray(childStart[i], childStart[i + 1]).sort((a, b) => size[b] - size[a] || a - b);
  }
  return {childStart, children};
}

// Frames from the root (left out) to the node.
function framesTo(tree, node) {
  const path = [];
  for (; node > 0; node = tree.parent[node]) path.push(tree.frame[node]);
  return path.reverse();
}

// The deepest node whose way from the root begins `path`.
function nodeAt(tree, path) {
  let node = 0;
  for (const frame of path) {
    let next = -1;
    for (let c = tree.childStart[node]; c < tree.childStart[node + 1] && next < 0; ++c) {
      if (tree.frame[tree.children[c]] === frame) next = tree.children[c];
    }
    if (next < 0) return node;
    node = next;
  }
  return node;
}
