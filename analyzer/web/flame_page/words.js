// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Everything that is text around the picture: head, warnings, tooltip, way, legend's numbers, help. Names come from the
// trace and are only ever set as text, never as markup.

function showAbout(data) {
  const {about} = data;
  document.title = `${about.program} · ${t('GPU memory')} · gpumemshim flame`;
  byId('title').replaceChildren(nameElement(about.program));
  byId('simulated').hidden = !about.simulated;
  byId('facts-summary').replaceChildren(nameElement(about.facts.slice(0, 1).map(({text}) => t(text)).join('')));
  byId('facts').replaceChildren(...about.facts.flatMap(({lead, text}) => [element('dt', {}, t(lead)), element('dd', {}, nameElement(t(text)))]));
  byId('foot').textContent = [t('Made by {w}.', {w: about.generator}), t(about.lossless ? 'Nothing was lost: every event is in the trace.' : 'Events are missing: see above.')].join(' ');
}

// Of the trace, and of the view that is shown.
function showWarnings({about}, view) {
  const warnings = [...about.warnings];
  if (view.merged_stacks > 0) {
    const text = t('The {n} smallest stack[s] [was|were] merged to keep this page usable: {b}, {p} of this view. A larger --max-nodes keeps more of them apart.',
      {n: view.merged_stacks, b: formatBytes(view.merged_bytes), p: formatPercent(view.merged_bytes, view.bytes)});
    warnings.push({level: 'note', text});
  }
  byId('warnings').replaceChildren(...warnings.map(({level, text}) => element('li', {class: level}, nameElement(t(text)))));
}

// What a view counts, by the word in the data.
const COUNTED = {block: '{n} block[s]', allocation: '{n} allocation[s]'};
function countText(data, mode, n) {
  return t(COUNTED[data.modes[mode].counted[0]], {n});
}

// "8.11 GiB" of bytes, "689 blocks" of counts.
function sizeText(data, mode, unit, bytes, blocks) {
  return unit === 'bytes' ? formatBytes(bytes) : countText(data, mode, blocks);
}

class Tip {
  constructor(data) {
    this.data = data;
    this.box = byId('tip');
  }

  // state: {tree, zoom, mode, unit}
  show(state, box, event) {
    this.box.replaceChildren(...(box.node < 0 ? this.strip(state, box) : this.frame(state, box.node)));
    this.box.hidden = false;
    const size = this.box.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - size.width - 8);
    const below = event.clientY + 20;
    const top = below + size.height + 8 > innerHeight ? event.clientY - size.height - 12 : below;
    this.box.style.left = `${Math.max(left, 4)}px`;
    this.box.style.top = `${Math.max(top, 4)}px`;
  }

  hide() {
    this.box.hidden = true;
  }

  frame(state, node) {
    const {tree, zoom, mode} = state;
    const {frames, modes} = this.data;
    const frame = tree.frame[node];
    const place = frames.place(frame);
    const [bytes, blocks] = [tree.bytes[node], tree.blocks[node]];
    const share = state.unit === 'bytes' ? tree.bytes : tree.blocks;
    const shares = [t('{p} of all', {p: formatPercent(share[node], share[0])})];
    if (zoom > 0) shares.push(t('{p} of the zoomed frame', {p: formatPercent(share[node], share[zoom])}));
    const rows = [['', formatExactBytes(bytes)], ['', countText(this.data, mode, blocks)]];
    if (tree.selfBytes[node] > 0 && node > 0 && tree.selfBytes[node] < bytes) rows.push([t('by itself'), formatBytes(tree.selfBytes[node])]);
    const kind = KINDS[frames.kindOf(frame)];
    if (frame >= 0) rows.push([t('kind'), t(kind.key === 'merged' ? kind.what : kind.label)]);
    return [
      element('p', {class: 'tip-name'}, nameElement(node === 0 ? t(modes[mode].label) : frames.name(frame))),
      ...(place === '' ? [] : [element('p', {class: 'tip-place'}, nameElement(place))]),
      element('p', {class: 'tip-size'}, element('strong', {}, formatBytes(bytes)), ` · ${shares.join(' · ')}`),
      element('dl', {}, ...[...rows, ...frames.details(frame)].flatMap(([what, text]) => [element('dt', {}, what), element('dd', {}, nameElement(text))])),
    ];
  }

  strip({tree}, box) {
    const parent = -1 - box.node;
    const end = tree.childStart[parent + 1];
    let bytes = 0;
    for (let c = box.first; c < end; ++c) bytes += tree.bytes[tree.children[c]];
    return [
      element('p', {class: 'tip-name'}, t('{n} frame[s] too narrow to draw', {n: end - box.first})),
      element('p', {class: 'tip-size'}, element('strong', {}, formatBytes(bytes)), ` · ${t('together; click to zoom into their caller')}`),
    ];
  }
}

// One sentence for those who hear the page.
function spokenText(data, state, node) {
  const {tree} = state;
  const name = node === 0 ? t(data.modes[state.mode].label) : data.frames.name(tree.frame[node]);
  return `${name}, ${data.frames.place(tree.frame[node])}: ` +
    listed([formatBytes(tree.bytes[node]), t('{p} of all', {p: formatPercent(tree.bytes[node], tree.bytes[0])}), t('depth {n}', {n: tree.depth[node]})]);
}

const MOST_STEPS = 7;

// all › … › caller › zoomed. Long ways are cut in the middle; the cut opens when it is clicked.
function showPath(data, state, zoomTo, whole = false) {
  const nodes = [];
  for (let node = state.zoom; node >= 0; node = state.tree.parent[node]) nodes.unshift(node);
  const cut = !whole && nodes.length > MOST_STEPS;
  const shown = cut ? [nodes[0], -1, ...nodes.slice(3 - MOST_STEPS)] : nodes;
  const step = (node) => {
    if (node < 0) {
      const more = nodes.length - MOST_STEPS + 2;
      return element('button', {type: 'button', title: t('Show the whole way'), onclick: () => showPath(data, state, zoomTo, true)}, `… ${t('{n} more', {n: more})}`);
    }
    const here = node === state.zoom ? {'aria-current': 'location'} : {};
    return element('button', {type: 'button', onclick: () => zoomTo(node), ...here}, nameElement(node === 0 ? t('all') : data.frames.name(state.tree.frame[node])));
  };
  byId('path').replaceChildren(...shown.flatMap((node, i) => (i === 0 ? [step(node)] : [element('span', {class: 'between', 'aria-hidden': 'true'}, '›'), step(node)])));
}

const KEYS = [
  ['↑ ↓ ← →', 'move among boxes'],
  ['Enter', 'zoom to the box in focus'],
  ['Esc', 'forget the search, then zoom out one box'],
  ['Home or 0', 'zoom out to everything'],
  ['/', 'search'],
  ['n, N', 'next and previous match'],
  ['1 … 5', 'what is shown'],
  ['i', 'invert: allocating functions first'],
  ['f', 'flame or icicle'],
  ['h', 'hide or show native frames'],
  ['t', 'light, dark, or as the system has it'],
  ['?', 'this help'],
];

function fillHelp(data) {
  const meanings = [
    ...data.modes.map(({label, what}) => [label, what]),
    ...KINDS.map(({label, what}) => [label, what]),
    ['Grey strip', 'frames too narrow to draw; zoom in to see them'],
  ];
  byId('meanings').replaceChildren(...meanings.flatMap(([what, text]) => [element('dt', {}, t(what)), element('dd', {}, t(text))]));
  byId('keys').replaceChildren(...KEYS.map(([key, text]) => element('tr', {}, element('th', {scope: 'row'}, element('kbd', {}, t(key))), element('td', {}, t(text)))));
}
