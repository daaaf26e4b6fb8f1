// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One block, in a panel beside the view: what it is, when it lived, and the stack that allocated it.

// page: ReportPage; i: the block's place in the trace's columns
function showDetails(box, page, i) {
  const {trace, moment} = page;
  const {blocks} = trace;
  box.hidden = false;
  const go = (event, words) => element('button', {type: 'button', class: 'quiet', onclick: () => page.goTo({event})}, words);
  const gone = moment.event < blocks.born[i] || moment.event >= blocks.end[i];
  const frames = [...trace.stacks[blocks.stack[i]]].reverse();
  box.replaceChildren(
    element('div', {class: 'row'}, element('h3', {}, t('block')), element('span', {class: 'grow'}),
      go(blocks.born[i], t('born')), ...(blocks.died_ns[i] < 0 ? [] : [go(Math.max(blocks.end[i] - 1, 0), t('before it is freed'))]),
      element('button', {type: 'button', class: 'quiet', id: 'close-block', onclick: () => page.showBlock(-1)}, t('Close'))),
    ...blockLines(trace, i).map((line, place) => element('p', {class: place === 0 ? 'block-name' : 'aside'}, nameElement(line))),
    ...(gone ? [element('p', {class: 'aside'}, t('Not alive at the chosen moment.'))] : []),
    frames.length === 0 ? element('p', {class: 'aside'}, t('Its stack is not known.'))
      : element('ol', {}, ...frames.map((frame) => element('li', {}, nameElement(trace.frames.name(frame)), ' ', element('span', {class: 'aside'}, nameElement(trace.frames.place(frame)))))));
}

// What a search for a size or an address finds, beside texts: "64 MiB", ">1 GiB", "1048576", "0x7f0000000200". Null of other texts.
const SIZE = /^(<=|>=|<|>|=)?\s*(\d[\d,]*(?:\.\d+)?)\s*(bytes|B|KiB|MiB|GiB|TiB)?$/i;
const ADDRESS = /^0x[0-9a-f]+$/i;

function blockSearch(query, blocks) {
  const text = query.trim();
  if (ADDRESS.test(text)) {
    const address = Number(text);
    return (i) => blocks.address[i] <= address && address < blocks.address[i] + Math.max(blocks.size[i], 1);
  }
  const size = SIZE.exec(text);
  if (size === null || (size[1] === undefined && size[3] === undefined && text.length < 3)) return null;
  const power = ['b', 'kib', 'mib', 'gib', 'tib'].indexOf((size[3] ?? 'b').toLowerCase());
  const bytes = Number(size[2].replaceAll(',', '')) * 1024 ** Math.max(power, 0);
  const compare = {
    '<': (value) => value < bytes, '>': (value) => value > bytes, '<=': (value) => value <= bytes, '>=': (value) => value >= bytes,
  }[size[1]] ?? ((value) => value === bytes || (power > 0 && formatBytes(value) === formatBytes(bytes)));
  return (i) => compare(blocks.size[i]) || (size[1] === undefined && compare(blocks.requested[i]));
}
