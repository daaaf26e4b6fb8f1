// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The controls above the picture, and the keys that do the same. They write `choice` and say what changed; main.js redraws.

// A row of buttons of which one is pressed. options: [value, label, title]
function makeSegments(box, options, value, changed) {
  const buttons = options.map(([each, label, title]) =>
    element('button', {type: 'button', role: 'radio', title: t(title), 'data-value': each, onclick: () => changed(each)}, ...label));
  box.replaceChildren(...buttons);
  markSegment(box, value);
}

function markSegment(box, value) {
  for (const button of box.children) button.setAttribute('aria-checked', String(button.dataset.value === String(value)));
}

class Controls {
  // does: {choose(changes), search(query), theme(), language(), help(), escape()}
  constructor(data, choice, does) {
    this.data = data;
    this.choice = choice;
    this.does = does;
    this.listen();
    this.translate();
  }

  // All of it in the language of the page.
  translate() {
    this.makeModes();
    this.makeChoices();
    this.makeLegend();
    this.update();
  }

  listen() {
    const {does} = this;
    byId('search').addEventListener('input', (event) => does.search(event.target.value));
    byId('theme').addEventListener('click', () => does.theme());
    byId('language').addEventListener('click', () => does.language());
    byId('help-button').addEventListener('click', () => does.help());
    byId('device').addEventListener('change', (event) => does.choose({device: Number(event.target.value)}));
    byId('split').addEventListener('change', (event) => does.choose({split: event.target.value}));
    byId('inverted').addEventListener('change', (event) => does.choose({inverted: event.target.checked}));
    byId('depth').addEventListener('change', (event) => does.choose({depth: Math.max(0, Math.floor(Number(event.target.value)) || 0)}));
  }

  makeModes() {
    makeSegments(byId('modes'), this.data.modes.map((mode, i) => [i, [element('span', {class: 'segment-name'}, t(mode.label)), ' ',
      element('span', {class: 'segment-size'})], mode.what]), this.choice.mode, (mode) => this.does.choose({mode: Number(mode)}));
    makeSegments(byId('units'), [['bytes', [t('Bytes')], 'Width is bytes'], ['blocks', [t('Count')], 'Width is the number of allocations']], this.choice.unit, (unit) => this.does.choose({unit}));
    makeSegments(byId('directions'), [[false, [t('Icicle')], 'Root at the top (f)'], [true, [t('Flame')], 'Root at the bottom (f)']], this.choice.flame, (flame) => this.does.choose({flame}));
  }

  makeChoices() {
    const {data} = this;
    byId('device').replaceChildren(element('option', {value: -1}, t('all')), ...data.devices.map((device, i) => element('option', {value: i}, t(device))));
    byId('device-label').hidden = data.devices.length < 2;
    const splits = [['none', 'nothing'], ['thread', 'thread'], ['device', 'device']];
    byId('split').replaceChildren(...splits.map(([value, label]) => element('option', {value}, t(label))));
    byId('split-label').hidden = data.threads.length < 2 && data.devices.length < 2;
  }

  // Also the switches of what is hidden; kinds that the trace does not have are left out.
  makeLegend() {
    const present = new Set(this.data.frames.kind);
    const boxes = [];
    KINDS.forEach(({key, label, what, fixed}, kind) => {
      if (!present.has(kind)) return;
      const swatch = element('span', {class: `swatch swatch-${key}`});
      if (fixed) {
        boxes.push(element('span', {class: 'toggle', title: t(what)}, swatch, t(label)));
        return;
      }
      const box = element('input', {type: 'checkbox', 'data-kind': kind, onchange: (event) => this.hide(kind, !event.target.checked)});
      boxes.push(element('label', {class: 'toggle', title: t(what)}, box, swatch, t(label)));
    });
    byId('legend').replaceChildren(element('span', {class: 'aside'}, t('Show')), ...boxes);
  }

  hide(kind, hidden) {
    const kinds = new Set(this.choice.hidden);
    if (hidden) kinds.add(kind);
    else kinds.delete(kind);
    this.does.choose({hidden: kinds});
  }

  update() {
    const {choice} = this;
    markSegment(byId('modes'), choice.mode);
    this.data.modes.forEach((mode, i) => {
      const {bytes, blocks} = viewSize(mode, choice.device);
      byId('modes').children[i].querySelector('.segment-size').textContent = choice.unit === 'bytes' ? formatBytes(bytes) : formatCount(blocks);
    });
    markSegment(byId('units'), choice.unit);
    markSegment(byId('directions'), choice.flame);
    byId('inverted').checked = choice.inverted;
    byId('device').value = String(choice.device);
    byId('split').value = choice.split;
    byId('depth').value = choice.depth > 0 ? String(choice.depth) : '';
    for (const box of byId('legend').querySelectorAll('input')) box.checked = !choice.hidden.has(Number(box.dataset.kind));
  }

  // What a key does; false where it does nothing here.
  key(event, chart) {
    const {choice, does} = this;
    const vertical = choice.flame ? {ArrowUp: 'in', ArrowDown: 'out'} : {ArrowUp: 'out', ArrowDown: 'in'};
    const moves = {...vertical, ArrowLeft: -1, ArrowRight: 1};
    if (event.key in moves) return chart.step(moves[event.key]), true;
    const native = KINDS.findIndex(({key}) => key === 'native');
    const actions = {
      Enter: () => chart.focus >= 0 && chart.zoomTo(chart.focus),
      Backspace: () => chart.zoomTo(Math.max(chart.tree.parent[chart.zoom], 0)),
      Home: () => chart.zoomTo(0),
      0: () => chart.zoomTo(0),
      '/': () => byId('search').select(),
      n: () => chart.nextMatch(1),
      N: () => chart.nextMatch(-1),
      i: () => does.choose({inverted: !choice.inverted}),
      f: () => does.choose({flame: !choice.flame}),
      h: () => this.hide(native, !choice.hidden.has(native)),
      t: () => does.theme(),
      '?': () => does.help(),
      Escape: () => does.escape(),
    };
    if (event.key in actions) return actions[event.key](), true;
    const mode = '123456789'.indexOf(event.key);
    if (mode >= 0 && mode < this.data.modes.length) return does.choose({mode}), true;
    return false;
  }
}
