// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Everything around the pictures: the verdict, warnings, facts, tooltip, help, and pictures as files.

const LEADS = [['problem', 'Problem'], ['peak', 'Peak'], ['mostly', 'Mostly'], ['action', 'Do']];

function showAbout(page, generator) {
  const {trace} = page;
  const {about} = trace;
  const {verdict, ground} = trace.answers.report;
  const what = about.facts.find(({lead}) => lead === 'process')?.text ?? '';
  const imported = what.startsWith('imported from ');
  document.title = `${about.program} · ${t('GPU memory')} · gpumemshim`;
  byId('title').replaceChildren(nameElement(about.program));
  byId('simulated').hidden = !about.simulated;
  // What somebody else's file is, when it was taken and what it cannot know is the first thing to read.
  byId('what').replaceChildren(nameElement(imported ? t(what) : ''));
  byId('facts-box').open = imported;
  byId('verdict').replaceChildren(...LEADS.filter(([key]) => verdict[key]).flatMap(([key, lead]) => [
    element('dt', {class: key === 'problem' ? 'alarm' : ''}, t(key === 'peak' && ground.covers === 'moment' ? 'Held' : lead)), element('dd', {class: key === 'problem' ? 'alarm' : ''}, sentenceElement(key, verdict[key], page))]));
  byId('warnings').replaceChildren(...about.warnings.map(({level, text}) => element('li', {class: level}, nameElement(t(text)))));
  byId('facts').replaceChildren(...about.facts.filter(({lead}) => !imported || lead !== 'process').flatMap(({lead, text}) => [element('dt', {}, t(lead)), element('dd', {}, nameElement(t(text)))]));
  byId('foot').textContent = [t('Made by {w}.', {w: generator}), !about.lossless ? t('Events are missing: see above.') : imported ? '' : t('Nothing was lost: every event is in the trace.'),
    trace.blocks.leftOut > 0 ? t('{n} smaller blocks are in sums only; gpumemshim html --max-blocks names more.', {n: trace.blocks.leftOut}) : ''].join(' ');
}

// Lines of text beside the pointer; the first stands out.
function showTip(lines, event) {
  const box = byId('tip');
  if (lines === null || event === undefined) {
    box.hidden = true;
    return;
  }
  box.replaceChildren(...lines.map((line, i) => element('p', {class: i === 0 ? 'tip-name' : 'tip-place'}, nameElement(line))));
  box.hidden = false;
  const size = box.getBoundingClientRect();
  const below = event.clientY + 20;
  box.style.left = `${Math.max(Math.min(event.clientX + 14, innerWidth - size.width - 8), 4)}px`;
  box.style.top = `${Math.max(below + size.height + 8 > innerHeight ? event.clientY - size.height - 12 : below, 4)}px`;
}

const KEYS = [
  ['← →', 'previous and next moment; with Shift ten of them'], ['p, e', 'the peak; the end'], ['[ ]', 'previous and next step\'s peak'],
  ['+ -', 'zoom'], ['0', 'the whole run'], ['a d', 'move to the left and right'], ['1 … 9', 'tabs'], ['c', 'stack by the next property'],
  ['/', 'search'], ['Esc', 'forget the search; then the whole run'], ['Space', 'play through time'], ['t', 'light, dark, or as the system has it'], ['?', 'this help'],
];

const MEANINGS = [
  ['Timeline', 'what the program held, stacked; the line above is what PyTorch reserved and other CUDA memory, the dashed one the GPU\'s size. Each column of pixels shows its highest moment. Click a moment, drag to zoom, wheel to zoom, Shift and drag to move, double click for the whole run; click a name below to hide it.'],
  ['Tabs', 'Blocks, Treemap, Call stacks and Addresses show what was alive at the chosen moment; the others are about the whole run. A row with a time leads there.'],
  ['Addresses', 'a row for each segment that PyTorch reserved; grey is free. A block with a red frame is the only one in its segment: it keeps the rest from being returned.'],
  ['Search', 'a regular expression over lines, modules, categories, names and functions; a size (64 MiB, >1 GiB, 1048576) or an address (0x7f0000000200): what does not match is left out of tables and dimmed in pictures.'],
  ['Links', 'each sentence at the top leads to its view and row; the address keeps all that is chosen, so that it can be passed on.'],
];

function fillHelp() {
  byId('meanings').replaceChildren(...MEANINGS.flatMap(([what, text]) => [element('dt', {}, t(what)), element('dd', {}, t(text))]));
  byId('keys').replaceChildren(...KEYS.map(([key, text]) => element('tr', {}, element('th', {scope: 'row'}, element('kbd', {}, t(key))), element('td', {}, t(text)))));
}

function layerName(layer, by) {
  if (layer.name === null) return t('{n} other[s]', {n: layer.keys});
  if (layer.name === undefined) return t('before the recording or in a gap');
  return nameIn(by, layer.name);
}

// The words for a value of a property: what has no name says what that means; only modules are all the program's.
function nameIn(by, name) {
  if (!name) return t(by === 'module' ? 'no module' : 'not known');
  return by === 'module' ? name : t(name);
}

function radios(id, items, chosen, choose) {
  byId(id).replaceChildren(...items.map(([key, label]) => element('button', {type: 'button', role: 'radio', 'aria-checked': String(key === chosen), onclick: () => choose(key)}, label)));
}

function fillSelect(id, labels, chosen) {
  byId(id).replaceChildren(...labels.map((label, i) => element('option', {value: i, ...(i === chosen ? {selected: ''} : {})}, label)));
  byId(`${id}-label`).hidden = labels.length < 2;
}

const escapePattern = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
