// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PyTorch's own viewer of snapshots (MemoryViz.js of torch/utils/viz; newer versions have a part of it in process_alloc_data.js) without its drawing: what it
// reads of a snapshot, as a line of JSON.
//
//   node memory_viz.mjs FOLDER_OF_MEMORYVIZ SNAPSHOT.pickle

import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [folder, file] = process.argv.slice(2);
const sources = ["process_alloc_data.js", "MemoryViz.js"].map((name) => path.join(folder, name)).filter((name) => fs.existsSync(name));
const text = sources
  .map((name) => fs.readFileSync(name, "utf8"))
  .map((source) => source.replace(/^import [^;]*;/gm, "").replace(/^export \{[^}]*\};/gm, "").replace(/^export /gm, ""))
  .join("\n");

// What draws is called with something that takes every call and draws nothing.
const nothing = new Proxy(function () {}, { get: (_, name) => (name === Symbol.toPrimitive ? () => 0 : nothing), apply: () => nothing, construct: () => nothing });
const drawing = Object.fromEntries(["d3", "axisLeft", "scaleLinear", "zoom", "zoomIdentity", "brushX", "document", "window"].map((name) => [name, nothing]));
const viewer = vm.runInNewContext(`${text}\n;({ unpickle, annotate_snapshot, process_alloc_data })`, { ...drawing, console: { log() {} }, TextDecoder, TextEncoder, atob, URL });

const bytes = fs.readFileSync(file);
const snapshot = viewer.unpickle(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
viewer.annotate_snapshot(snapshot);
const blocks = viewer.process_alloc_data(snapshot, 0, false, 15000);
const segments = viewer.process_alloc_data(snapshot, 0, true, 15000);
const actions = {};
for (const event of snapshot.device_traces[0]) actions[event.action] = (actions[event.action] ?? 0) + 1;
const held = (state) => snapshot.segments.flatMap((segment) => segment.blocks.filter((block) => block.state === state)).length;
console.log(JSON.stringify({ peak: blocks.max_size, end: blocks.max_at_time.at(-1), reserved_peak: segments.max_size, actions, live: held("active_allocated"), segments: snapshot.segments.length }));
