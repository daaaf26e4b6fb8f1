// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What was chosen, as it stands in the page's address, and what keys do.

const THEMES = ['', 'light', 'dark'];  // '' = as the system has it

const TABS = [
  {key: 'blocks', label: 'Blocks', moment: true, groups: ['category', 'module', 'line', 'stream', 'block']},
  {key: 'treemap', label: 'Treemap', moment: true, picture: true},
  {key: 'stacks', label: 'Call stacks', moment: true, picture: true},
  {key: 'addresses', label: 'Addresses', moment: true, picture: true},
  {key: 'leaks', label: 'Leaks'}, {key: 'steps', label: 'Steps'}, {key: 'modules', label: 'Modules'}, {key: 'model', label: 'Model'},
  {key: 'fragmentation', label: 'Fragmentation'}, {key: 'runs', label: 'Runs'},
];
const TAB_KEYS = TABS.map(({key}) => key);
const NOWHERE = {row: '', block: -1, query: '', event: -1};  // of a choice that leads to a view as it is

function grows(trace) {
  return trace.answers.leaks.devices.some((device) => device.leaks.some(({status}) => status === 'growing'));
}

// Fills `choice`; what the address does not say is as a reader wants it first. Returns the view that was asked for, or null.
function readAddress(traces, choice) {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (key, most) => Math.min(Math.max(Number.parseInt(asked.get(key) ?? '0', 10) || 0, 0), Math.max(most, 0));
  const one = (key, all, otherwise) => (all.includes(asked.get(key)) ? asked.get(key) : otherwise);
  choice.trace = number('trace', traces.length - 1);
  const trace = traces[choice.trace];
  choice.device = number('device', trace.devices.length - 1);
  choice.by = one('by', LAYERS, trace.firstLayers(choice.device));
  choice.x = one('x', ['time', 'events'], trace.tellsTime(choice.device) ? 'time' : 'events');
  choice.upTo = one('to', ['use', 'reserved', 'capacity'], 'reserved');
  // Who follows a link to a moment or a search wants its blocks; else a run that grows opens on what grows.
  const first = traces.length > 1 ? 'runs' : grows(trace) && !asked.has('event') && !asked.has('search') ? 'leaks' : 'blocks';
  choice.tab = one('tab', TAB_KEYS, first);
  choice.group = one('group', TABS[0].groups, trace.answers.report.ground.stacks ? 'line' : 'category');
  choice.query = asked.get('search') ?? '';
  choice.row = asked.get('row') ?? '';
  choice.block = asked.has('block') ? number('block', trace.blocks.count - 1) : -1;
  choice.axis = one('axis', OVERLAY_AXES, OVERLAY_AXES[0]);
  choice.at = asked.has('at') && Number.isFinite(Number(asked.get('at'))) ? Number(asked.get('at')) : null;
  choice.span = viewOf(asked, ['left', 'right']);
  choice.gapBy = one('gap', GAP_BY, GAP_BY[0]);
  choice.event = asked.has('event') ? number('event', Number.MAX_SAFE_INTEGER) : -1;
  language = one('lang', LANGUAGES, FIRST_LANGUAGE);
  document.documentElement.dataset.theme = one('theme', THEMES, '');
  return viewOf(asked, ['from', 'until']);
}

// Two places on an axis; null: not both are there.
function viewOf(asked, keys) {
  const view = keys.map((key) => Number(asked.get(key) ?? NaN));
  return view.every(Number.isFinite) && view[0] < view[1] ? view : null;
}

function addressOf(choice, timeline) {
  const asked = new URLSearchParams({tab: choice.tab, by: choice.by, x: choice.x, to: choice.upTo, group: choice.group});
  for (const key of ['trace', 'device']) if (choice[key] > 0) asked.set(key, choice[key]);
  if (choice.query !== '') asked.set('search', choice.query);
  if (choice.event >= 0) asked.set('event', choice.event);
  if (choice.row !== '') asked.set('row', choice.row);
  if (choice.block >= 0) asked.set('block', choice.block);
  if (choice.tab === 'runs' && choice.at !== null) {
    for (const [key, value] of [['axis', choice.axis], ['at', choice.at], ['gap', choice.gapBy]]) asked.set(key, value);
    choice.span?.forEach((at, i) => asked.set(['left', 'right'][i], at));
  }
  if (timeline?.what !== undefined && timeline.zoomed) {
    asked.set('from', timeline.from);
    asked.set('until', timeline.to);
  }
  if (language !== FIRST_LANGUAGE) asked.set('lang', language);
  if (document.documentElement.dataset.theme) asked.set('theme', document.documentElement.dataset.theme);
  return asked;
}

// A browser takes 200 changes of the address in 30 seconds and none beyond them, and a zoom by the wheel has 60 a second.
const ADDRESSES = {most: 50, perSecond: 4};

class AddressWriter {
  constructor() {
    [this.left, this.at] = [ADDRESSES.most, performance.now()];
  }

  // At once, or when there is room again.
  write(choice, timeline) {
    clearTimeout(this.timer);
    const now = performance.now();
    this.left = Math.min(this.left + (now - this.at) / 1000 * ADDRESSES.perSecond, ADDRESSES.most);
    this.at = now;
    if (this.left < 1) {
      this.timer = setTimeout(() => this.write(choice, timeline), 1000 / ADDRESSES.perSecond);
      return;
    }
    this.left -= 1;
    history.replaceState(null, '', `#${addressOf(choice, timeline)}`);
  }
}

// What a key does on a page; undefined: nothing.
function actionOf(event, page) {
  const {timeline, device, choice} = page;
  if (/^[1-9]$/.test(event.key)) return () => byId('tabs').querySelectorAll('button')[Number(event.key) - 1]?.click();
  const step = (by) => () => timeline.choose(timeline.row + by * (event.shiftKey ? 10 : 1));
  return new Map([
    ['ArrowLeft', step(-1)], ['ArrowRight', step(1)],
    ['p', () => page.goTo({event: device.peakEvent})], ['e', () => timeline.choose(device.rowCount - 1)],
    ['[', () => page.nextStep(-1)], [']', () => page.nextStep(1)],
    ['+', () => timeline.zoom(0.6)], ['=', () => timeline.zoom(0.6)], ['-', () => timeline.zoom(1 / 0.6)], ['0', () => timeline.viewAll()],
    ['a', () => timeline.pan(-0.2)], ['d', () => timeline.pan(0.2)], [' ', () => page.play()], ['t', () => page.nextTheme()],
    ['c', () => page.choose({by: LAYERS[(LAYERS.indexOf(choice.by) + 1) % LAYERS.length]})],
    ['/', () => byId('search').focus()], ['?', () => byId('help').showModal()],
    ['Escape', () => (choice.block >= 0 ? page.showBlock(-1) : choice.query === '' ? timeline.viewAll() : page.searchFor(''))],
  ]).get(event.key);
}
