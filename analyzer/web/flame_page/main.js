// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Puts the parts together: one choice, one tree made from it, one picture.

const THEMES = ['', 'light', 'dark'];  // '' = as the system has it

class FlamePage {
  constructor(data) {
    this.data = data;
    this.choice = this.firstChoice();
    const asked = new URLSearchParams(location.hash.slice(1));
    if (LANGUAGES.includes(asked.get('lang'))) language = asked.get('lang');
    this.search = new Search(data.frames);
    this.painter = new Painter(byId('canvas'), data.frames);
    this.tip = new Tip(data);
    this.chart = new Chart({chart: byId('chart'), room: byId('room'), canvas: byId('canvas')}, this.painter, this.search, {
      zoomed: () => this.zoomed(),
      focused: (node) => this.focused(node),
      sizeText: (node) => this.sizeText(node),
      hovered: (box, event) => (box === undefined ? this.tip.hide() : this.tip.show(this.state(), box, event)),
    });
    this.controls = new Controls(data, this.choice, {
      choose: (changes) => this.choose(changes),
      search: (query) => this.searchFor(query),
      theme: () => this.nextTheme(),
      language: () => this.nextLanguage(),
      help: () => byId('help').showModal(),
      escape: () => this.escape(),
    });
    this.listen();
    byId('search').value = asked.get('search') ?? '';
    this.search.set(byId('search').value);
    this.translate();
    this.applyTheme();
    this.regrow(false);
  }

  firstChoice() {
    const {data} = this;
    const {start} = data;
    const asked = new URLSearchParams(location.hash.slice(1));
    const mode = data.modes.findIndex(({key}) => key === (asked.get('mode') ?? start.mode));
    return {
      mode: Math.max(mode, 0),
      unit: asked.get('size') === 'blocks' ? 'blocks' : 'bytes',
      flame: asked.get('flame') === '1' || (asked.get('flame') === null && start.flame),
      inverted: asked.get('invert') === '1' || (asked.get('invert') === null && start.invert),
      hidden: new Set(KINDS.map((kind, i) => (kind.hidden ? i : -1)).filter((i) => i >= 0)),
      device: data.devices.length > 1 && start.device !== null ? start.device : -1,
      split: start.split || 'none',
      depth: start.depth,
    };
  }

  listen() {
    addEventListener('keydown', (event) => this.key(event));
    addEventListener('beforeprint', () => this.print());
    addEventListener('afterprint', () => this.printed());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.applyTheme());
  }

  state() {
    return {tree: this.chart.tree, zoom: this.chart.zoom, mode: this.choice.mode, unit: this.choice.unit};
  }

  choose(changes) {
    const turned = 'inverted' in changes && changes.inverted !== this.choice.inverted;
    Object.assign(this.choice, changes);
    this.controls.update();
    this.remember();
    if ('flame' in changes && Object.keys(changes).length === 1) {
      this.chart.setFlame(this.choice.flame);
      return;
    }
    this.regrow(!turned);
  }

  regrow(keepZoom) {
    const tree = layTree(growTree(this.data, this.choice), this.choice.unit);
    this.search.update();
    this.chart.flame = this.choice.flame;
    this.chart.show(tree, keepZoom);
    const mode = this.data.modes[this.choice.mode];
    byId('moment').replaceChildren(nameElement(t(momentText(mode, this.choice.device))));
    showWarnings(this.data, mode);
    const empty = tree.size[0] === 0;
    byId('empty').hidden = !empty;
    byId('empty').textContent = t(mode.empty);
    byId('chart').hidden = empty;
  }

  zoomed() {
    showPath(this.data, this.state(), (node) => this.chart.zoomTo(node));
    this.tip.hide();
    this.showMatched();
  }

  focused(node) {
    byId('spoken').textContent = spokenText(this.data, this.state(), node);
    requestAnimationFrame(() => this.tipAtFocus(node));
  }

  sizeText(node) {
    const {tree, unit} = this.state();
    return unit === 'bytes' ? formatBytes(tree.bytes[node]) : formatCount(tree.blocks[node]);
  }

  // For the keyboard the tooltip stands at the box itself.
  tipAtFocus(node) {
    requestAnimationFrame(() => {
      const box = this.painter.boxes.find((each) => each.node === node);
      if (box === undefined) return;
      const at = byId('canvas').getBoundingClientRect();
      this.tip.show(this.state(), box, {clientX: at.left + Math.max(box.x, 0), clientY: at.top + box.y + ROW - 14});
    });
  }

  searchFor(query) {
    this.search.set(query);
    this.search.update();
    this.remember();
    this.showMatched();
    this.chart.repaint();
  }

  showMatched() {
    const {search} = this;
    const field = byId('search');
    field.classList.toggle('wrong', search.error !== '');
    const text = byId('matched');
    text.classList.toggle('wrong', search.error !== '');
    if (!search.active) {
      text.textContent = search.error;
      return;
    }
    const {tree, zoom, mode, unit} = this.state();
    const nodes = search.matchesBelow(tree, zoom);
    const [bytes, blocks] = nodes.reduce(([b, n], node) => [b + tree.bytes[node], n + tree.blocks[node]], [0, 0]);
    const share = unit === 'bytes' ? formatPercent(bytes, tree.bytes[zoom]) : formatPercent(blocks, tree.blocks[zoom]);
    const part = t(zoom === 0 ? '{p} of all' : '{p} of the zoomed frame', {p: share});
    text.textContent = nodes.length === 0 ? t('nothing matches') : listed([sizeText(this.data, mode, unit, bytes, blocks), part, t('in {n} box[es]', {n: nodes.length})]);
  }

  escape() {
    if (this.search.query !== '') {
      byId('search').value = '';
      this.searchFor('');
    } else {
      this.chart.zoomTo(Math.max(this.chart.tree.parent[this.chart.zoom], 0));
    }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId('help').open) return;
    const typing = event.target.matches('input:not([type=checkbox]), select, textarea');
    if (typing) {
      if (event.target.id !== 'search') return;
      if (event.key === 'Enter') this.chart.nextMatch(event.shiftKey ? -1 : 1);
      else if (event.key === 'Escape') (event.target.blur(), this.escape());
      return;
    }
    if (event.target.matches('button, summary, input') && (event.key === 'Enter' || event.key === ' ')) return;
    if (this.controls.key(event, this.chart)) event.preventDefault();
  }

  // What was chosen stays in the address, so that a page can be reloaded or its link be passed on.
  remember() {
    const {mode, unit, flame, inverted} = this.choice;
    const asked = new URLSearchParams({mode: this.data.modes[mode].key});
    if (unit !== 'bytes') asked.set('size', unit);
    asked.set('flame', flame ? '1' : '0');
    asked.set('invert', inverted ? '1' : '0');
    if (this.search.query !== '') asked.set('search', this.search.query);
    if (language !== FIRST_LANGUAGE) asked.set('lang', language);
    history.replaceState(null, '', `#${asked}`);
  }

  nextTheme() {
    const root = document.documentElement;
    root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme ?? '') + 1) % THEMES.length];
    this.applyTheme();
  }

  nextLanguage() {
    language = LANGUAGES[(LANGUAGES.indexOf(language) + 1) % LANGUAGES.length];
    this.translate();
    this.controls.translate();
    this.applyTheme();
    this.regrow(true);
    this.remember();
  }

  translate() {
    translateMarkup();
    byId('language').textContent = language === 'en' ? '中文' : 'English';
    showAbout(this.data);
    fillHelp(this.data);
  }

  applyTheme() {
    const chosen = document.documentElement.dataset.theme ?? '';
    byId('theme').textContent = t({'': 'Theme: auto', light: 'Theme: light', dark: 'Theme: dark'}[chosen]);
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    this.painter.setTheme(chosen || (dark ? 'dark' : 'light'));
    this.chart.repaint();
  }

  // On paper: the whole height of what is zoomed, in the colours for white.
  print() {
    this.factsWereOpen = byId('facts-box').open;
    byId('facts-box').open = true;
    this.painter.setTheme('light');
    this.chart.paint(1000, Math.min(this.chart.rows, 120) * ROW, 0);
  }

  printed() {
    byId('facts-box').open = this.factsWereOpen;
    this.applyTheme();
  }
}

const page = new FlamePage(readData(byId('data').textContent));
