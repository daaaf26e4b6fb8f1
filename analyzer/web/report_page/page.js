// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Puts the parts together: one choice of trace, device, layers and moment, and the views that follow it. The choice
// stays in the address, so that a page can be reloaded and its link be passed on.

const PLAY_MS = 60;
const NARROW = 800;  // the panel stands below the view: style.css

class ReportPage {
  // askEvents: of a page that `serve` gives, asks it for single events; null of a file
  constructor(data, askEvents) {
    this.read(data);
    this.choice = {};
    this.address = new AddressWriter();
    this.singleEvents = new SingleEventsView(askEvents);
    this.asked = readAddress(this.traces, this.choice);
    this.pattern = null;
    this.timeline = new Timeline(byId('timeline'), {
      chosen: (row) => this.chosen(row),
      viewed: () => this.remember(),
      hovered: (row, event) => hoverTimeline(this, row, event),
      singles: () => this.singleEvents.show(this),
      single: (mark) => this.showSingle(mark),
    });
    this.table = new MomentTable(byId('block-table'), {block: (i) => this.showBlock(i), group: (name) => this.follow({event: this.choice.event, device: this.choice.device, tab: 'blocks', group: 'block', query: `^${escapePattern(name)}$`})});
    this.treemap = new Treemap(byId('treemap'), {hovered: showTip, chosen: (name) => this.searchFor(escapePattern(name))});
    this.stacks = new StackChart({chart: byId('chart'), room: byId('room'), canvas: byId('stack-canvas'), path: byId('path')}, {hovered: showTip});
    this.map = new AddressMap(byId('map-box'), byId('map'), {hovered: showTip, block: (i) => this.showBlock(i)});
    this.listen();
    this.translate();
    this.openTrace(this.choice.trace, true);
  }

  read(data) {
    this.generator = data.generator;
    takePalette(data);
    takeWords(data);
    this.diff = spelledOut(data.diff);
    this.traces = data.traces.map((raw, i) => new Trace(raw, i));
  }

  // The same traces, grown: what was chosen stays, and who looks at the end or at the peak goes on doing so.
  update(data) {
    const {choice, timeline} = this;
    const before = this.traces.length > 0 ? this.device : undefined;
    const shown = before === undefined || timeline.what === undefined ? null : timeline.zoomed ? [timeline.from, timeline.to] : null;
    const atEnd = before !== undefined && timeline.row === before.rowCount - 1;
    const atPeak = before !== undefined && choice.event === before.peakEvent;
    const block = choice.block >= 0 ? this.trace.blocks : undefined;
    const sought = block && ['born', 'address', 'device'].map((name) => block[name][choice.block]);
    this.read(data);
    choice.trace = Math.min(choice.trace, this.traces.length - 1);
    const {devices} = this.trace;
    choice.device = Math.min(choice.device, Math.max(devices.length - 1, 0));
    if (sought) choice.block = this.trace.placeOfBlock(...sought);
    if (atPeak) choice.event = -1;
    if (atEnd && !atPeak) choice.event = devices[choice.device].rows.event.at(-1);
    this.shownText = undefined;
    this.singleEvents.isAnswered = true;
    this.asked = shown;
    this.openTrace(choice.trace, true);
  }

  get trace() { return this.traces[this.choice.trace]; }
  get device() { return this.trace.devices[this.choice.device]; }

  remember() {
    this.address.write(this.choice, this.timeline);
  }

  // Somebody changed the address by hand, or followed a link to this page.
  readAddress() {
    this.asked = readAddress(this.traces, this.choice);
    this.shownText = undefined;
    this.translate();
    this.openTrace(this.choice.trace, true);
    this.showMarked();
  }

  // To where a sentence leads.
  follow(place) {
    Object.assign(this.choice, NOWHERE, place);
    fillSelect('device', this.trace.devices.map(({label, name}) => `${label} ${name}`), this.choice.device);
    byId('search').value = this.choice.query;
    this.setPattern(this.choice.query);
    this.choose({});
    this.showMarked();
  }

  showMarked() {
    (document.querySelector('tr.marked') ?? byId('here')).scrollIntoView({block: 'nearest'});
  }

  listen() {
    const press = (id, act) => byId(id).addEventListener('click', act);
    press('to-peak', () => this.goTo({event: this.device.peakEvent}));
    press('to-end', () => this.timeline.choose(this.device.rowCount - 1));
    press('whole', () => this.timeline.viewAll());
    press('play', () => this.play());
    press('help-button', () => byId('help').showModal());
    press('theme', () => this.nextTheme());
    press('language', () => this.nextLanguage());
    press('png', () => savePicture(this, 'png'));
    press('svg', () => savePicture(this, 'svg'));
    byId('trace').addEventListener('change', (event) => this.openTrace(Number(event.target.value), false));
    byId('device').addEventListener('change', (event) => this.choose({device: Number(event.target.value), event: -1}));
    byId('search').addEventListener('input', (event) => this.searchFor(event.target.value));
    addEventListener('keydown', (event) => this.key(event));
    addEventListener('hashchange', () => this.readAddress());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.applyTheme());
  }

  openTrace(index, isFirst) {
    this.choice.trace = index;
    if (!isFirst) Object.assign(this.choice, {device: 0, event: -1, row: '', block: -1});
    const {trace} = this;
    showAbout(this, this.generator);
    fillSelect('trace', this.traces.map(runName), index);
    fillSelect('device', trace.devices.map(({label, name}) => `${label} ${name}`), this.choice.device);
    const empty = trace.devices.length === 0;
    byId('waiting').hidden = true;
    byId('all').hidden = empty;
    byId('empty').hidden = !empty;
    byId('empty').textContent = empty ? t('Nothing was allocated on a GPU in this trace.') : '';
    byId('search').value = this.choice.query;
    this.setPattern(this.choice.query);
    this.applyTheme();
    if (!empty) this.choose({});
    if (isFirst && this.asked !== null && !empty) this.timeline.view(...this.asked);
  }

  choose(changes) {
    Object.assign(this.choice, changes);
    const {choice, device} = this;
    radios('layers', LAYERS.map((key) => [key, t(key)]), choice.by, (by) => this.choose({by}));
    radios('across', ['time', 'events'].map((key) => [key, t(key)]), choice.x, (x) => this.choose({x}));
    radios('up-to', [['use', t('in use')], ['reserved', t('reserved')], ['capacity', t('capacity')]], choice.upTo, (upTo) => this.choose({upTo}));
    this.timeline.show({device, by: choice.by, x: choice.x, upTo: choice.upTo, ...bandsOf(this), whole: this.whole()});
    showLegend(this);
    const event = choice.event >= 0 ? choice.event : device.peakEvent;
    this.timeline.choose(device.rowAt('event', event), false);
  }

  whole() {
    const {rows, rowCount} = this.device;
    const last = this.choice.x === 'time' ? rows.time_ns[rowCount - 1] : rows.event[rowCount - 1];
    return [0, Math.max(last * 1.01, 1)];
  }

  chosen(row) {
    const {device, trace} = this;
    this.choice.event = device.rows.event[row];
    const time = device.rows.time_ns[row];
    const step = trace.stepAt(time);
    const list = trace.blocksAt(device.number, this.choice.event);
    const named = list.reduce((sum, i) => sum + trace.blocks.size[i], 0);
    const held = device.held[row];
    const rest = Math.max(held - named, 0);
    this.moment = {trace, device: device.number, event: this.choice.event, list, bytes: held, rest, by: this.choice.by, layers: this.timeline.layers,
      theme: this.theme, matches: (i) => this.matches(i)};
    const what = this.choice.event === device.peakEvent && trace.answers.report.ground.covers !== 'moment' ? `${t('Peak')} · ` : '';
    const blocks = t(rest > 0 ? '{n} block[s] and {b} that no block here explains' : '{n} block[s]', {n: list.length, b: formatBytes(rest)});
    const place = [trace.hasTimes ? formatTime(time) : '', step === undefined ? '' : t('step {n}', {n: step.step}), t('event {n}', {n: this.choice.event})];
    byId('moment').replaceChildren(what, element('strong', {}, formatBytes(held)), ` ${listed([t('in use'), blocks])}`, ...[
      `${formatBytes(device.rows.reserved[row])} ${t('reserved')}`,
      ...(device.rows.other[row] > 0 ? [t('{b} CUDA outside of PyTorch', {b: formatBytes(device.rows.other[row])})] : []), listed(place)].map((part) => ` · ${part}`));
    this.showTab();
    this.remember();
  }

  matches(i) {
    if (this.pattern === null) return true;
    const {trace} = this;
    const {blocks, strings} = trace;
    if (this.wanted?.(i)) return true;
    const texts = [blocks.category, blocks.module, blocks.line, blocks.name].map((column) => strings[column[i]]);
    if ([...texts, t(texts[0])].some((text) => this.pattern.test(text))) return true;
    const stack = blocks.stack[i];
    if (!this.foundStacks.has(stack)) {
      this.foundStacks.set(stack, trace.stacks[stack].some((frame) => this.pattern.test(trace.frames.searched(frame))));
    }
    return this.foundStacks.get(stack);
  }

  setPattern(query) {
    this.choice.query = query;
    this.foundStacks = new Map();
    this.wanted = blockSearch(query, this.trace.blocks);
    let error = '';
    try {
      this.pattern = query === '' ? null : new RegExp(query, 'i');
    } catch (problem) {
      this.pattern = null;
      error = t('not a regular expression: {w}', {w: problem.message.replace(/^Invalid regular expression: /, '')});
    }
    byId('search').classList.toggle('wrong', error !== '');
    byId('matched').textContent = error;
    return error === '';
  }

  searchFor(query) {
    byId('search').value = query;
    if (!this.setPattern(query)) return;
    this.showTab();
    this.remember();
  }

  showTab() {
    const {choice, moment} = this;
    byId('tabs').replaceChildren(...TABS.filter(({key}) => key !== 'runs' || this.traces.length > 1).flatMap((tab, i, all) => [
      ...(i > 0 && all[i - 1].moment && !tab.moment ? [element('span', {class: 'apart'})] : []),
      element('button', {type: 'button', role: 'tab', id: `to-${tab.key}`, 'aria-selected': String(tab.key === choice.tab), onclick: () => this.openTab(tab.key)}, t(tab.label))]));
    const tab = TABS.find(({key}) => key === choice.tab);
    for (const id of ['blocks', 'treemap', 'stacks', 'addresses']) byId(`tab-${id}`).hidden = id !== tab.key;
    byId('tab-text').hidden = tab.moment === true;
    byId('group-choice').hidden = tab.groups === undefined;
    if (tab.moment && this.pattern !== null) {
      const bytes = moment.list.reduce((sum, i) => sum + (this.matches(i) ? moment.trace.blocks.size[i] : 0), 0);
      byId('matched').textContent = bytes === 0 ? t('nothing matches') : `${formatBytes(bytes)}, ${formatPercent(bytes, moment.bytes)}`;
    } else if (this.pattern !== null || choice.query === '') {
      byId('matched').textContent = '';
    }
    this.fillTab(tab);
    this.showDetails(tab);
  }

  fillTab(tab) {
    const {choice, moment, trace} = this;
    const goTo = (where) => this.goTo(where);
    const shown = `${tab.key} ${choice.trace} ${choice.row} ${language} ${this.themeName}`;
    const text = {
      leaks: () => leaksTab(trace, goTo, this.theme, choice.row), steps: () => stepsTab(trace, goTo), model: () => modelTab(trace), fragmentation: () => fragmentationTab(trace),
      modules: () => modulesTab(trace, (name) => { this.openTab('blocks'); this.searchFor(`^${escapePattern(name)}`); }),
      runs: () => runsTab(this.traces, this.diff, overlayElements(this), (other) => this.openTrace(other.index, false)),
    };
    const shownMoment = {...moment, rest: this.pattern === null ? moment.rest : 0};
    if (tab.key === 'blocks') {
      radios('group', tab.groups.map((key) => [key, t(key)]), choice.group, (group) => { choice.group = group; this.showTab(); this.remember(); });
      this.table.show({...shownMoment, by: choice.group, row: choice.row, block: choice.block});
    } else if (tab.key === 'treemap') this.treemap.show(moment);
    else if (tab.key === 'stacks') this.stacks.show(shownMoment, choice.query, this.themeName);
    else if (tab.key === 'addresses') this.map.show(moment);
    else if (this.shownText !== shown) byId('tab-text').replaceChildren(...text[tab.key]());
    this.shownText = tab.moment ? '' : shown;
  }

  openTab(key) {
    this.choice.tab = key;
    this.choice.row = '';
    this.showTab();
    this.remember();
  }

  goTo({time, event}) {
    const {device} = this;
    this.timeline.choose(event === undefined ? device.rowAt('time_ns', time) : device.rowAt('event', event));
  }

  // A block with its whole stack; -1: none.
  showBlock(i) {
    this.choice.block = i;
    this.showTab();
    this.remember();
    if (i >= 0 && innerWidth <= NARROW) byId('block-details').scrollIntoView({block: 'nearest'});
  }

  // The block of a single event, in a view that can show it.
  showSingle({of, i}) {
    if (of !== 'blocks') return;
    if (!TABS.find(({key}) => key === this.choice.tab).moment) this.choice.tab = 'blocks';
    this.showBlock(i);
  }

  showDetails(tab) {
    const box = byId('block-details');
    box.hidden = this.choice.block < 0 || !tab.moment || this.choice.block >= this.trace.blocks.count;
    if (!box.hidden) showDetails(box, this, this.choice.block);
  }

  play() {
    if (this.playing !== undefined) {
      clearInterval(this.playing);
      this.playing = undefined;
    } else {
      const {timeline, device} = this;
      const column = device.rows[timeline.column];
      if (timeline.row >= device.rowCount - 1 || column[timeline.row] >= timeline.to) timeline.choose(device.rowAt(timeline.column, timeline.from));
      const step = (timeline.to - timeline.from) / 250;
      this.playing = setInterval(() => {
        const row = Math.max(device.rowAt(timeline.column, column[timeline.row] + step), timeline.row + 1);
        if (row >= device.rowCount || column[row] > timeline.to) return this.play();
        return timeline.choose(row);
      }, PLAY_MS);
    }
    byId('play').textContent = t(this.playing === undefined ? 'Play' : 'Stop');
  }

  nextTheme() {
    const root = document.documentElement;
    root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme ?? '') + 1) % THEMES.length];
    this.applyTheme();
    this.remember();
  }

  applyTheme() {
    const chosen = document.documentElement.dataset.theme ?? '';
    byId('theme').textContent = t({'': 'Theme: auto', light: 'Theme: light', dark: 'Theme: dark'}[chosen]);
    this.themeName = chosen || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
    this.theme = THEME_COLORS[this.themeName];
    this.timeline.theme = this.theme;
    if (this.moment === undefined) return;
    this.moment.theme = this.theme;
    this.timeline.repaint();
    showLegend(this);
    this.showTab();
  }

  nextLanguage() {
    language = LANGUAGES[(LANGUAGES.indexOf(language) + 1) % LANGUAGES.length];
    this.translate();
    this.applyTheme();
    if (this.moment !== undefined) this.choose({});
    this.remember();
  }

  translate() {
    translateMarkup();
    byId('language').textContent = language === 'en' ? '中文' : 'English';
    fillHelp();
    document.dispatchEvent(new Event('translated'));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId('help').open || byId('all').hidden) return;
    if (event.target.matches('input, select, textarea')) {
      if (event.key === 'Escape') (event.target.blur(), this.searchFor(''));
      return;
    }
    if (event.target.matches('button, summary, tr') && (event.key === 'Enter' || event.key === ' ')) return;
    const act = actionOf(event, this);
    if (act === undefined) return;
    event.preventDefault();
    act();
  }

  nextStep(way) {
    const {trace, device, timeline} = this;
    const time = device.rows.time_ns[timeline.row];
    const peaks = trace.steps.map((each) => each.peak_ns);
    const next = way > 0 ? peaks.find((each) => each > time) : peaks.findLast((each) => device.rowAt('time_ns', each) < timeline.row);
    if (next !== undefined) this.goTo({time: next});
  }
}

const served = document.body.dataset.served !== undefined;
const live = served ? new LiveStrip() : null;
(served ? live.data() : unpack(byId('data').textContent)).then((data) => {
  const page = new ReportPage(data, live === null ? null : (events) => live.ask(events));
  live?.follow((newer) => page.update(newer));
}).catch((error) => {
  byId('waiting').textContent = t('This page cannot be read: {w}', {w: error.message});
  throw error;
});
