// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What was alive at a moment as areas: categories (or what else the timeline is stacked by), inside them lines of code.
// Squarified: Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000.

// Lays `items` ({bytes}, largest first) out in a box; gives each its x, y, width, height.
function squarify(items, box) {
  let {x, y, width, height} = box;
  let left = items.reduce((sum, {bytes}) => sum + bytes, 0);
  for (let first = 0; first < items.length && left > 0;) {
    const side = Math.min(width, height);
    const area = (width * height) / left;  // of a byte
    const worst = (sum, largest, smallest) => Math.max((side * side * largest) / (sum * sum * area), (sum * sum * area) / (side * side * smallest));
    let [last, sum] = [first + 1, items[first].bytes];
    while (last < items.length) {
      const more = sum + items[last].bytes;
      if (worst(more, items[first].bytes, items[last].bytes) > worst(sum, items[first].bytes, items[last - 1].bytes)) break;
      sum = more;
      ++last;
    }
    const thick = (sum * area) / side;
    let at = 0;
    for (; first < last; ++first) {
      const long = (items[first].bytes / sum) * side;
      Object.assign(items[first], width < height
        ? {x: x + at, y, width: long, height: thick}
        : {x, y: y + at, width: thick, height: long});
      at += long;
    }
    if (width < height) [y, height] = [y + thick, height - thick];
    else [x, width] = [x + thick, width - thick];
    left -= sum;
  }
}

class Treemap {
  constructor(canvas, told) {
    this.canvas = canvas;
    this.told = told;  // {hovered(lines of text, event), chosen(line)}
    this.boxes = [];
    new ResizeObserver(() => this.repaint()).observe(canvas.parentElement);
    canvas.addEventListener('pointermove', (event) => this.hover(event));
    canvas.addEventListener('pointerleave', () => told.hovered(null));
    canvas.addEventListener('click', (event) => this.click(event));
  }

  // moment: as MomentTable's, with layers: names in the order of their colours
  show(moment) {
    this.moment = moment;
    this.repaint();
  }

  groups() {
    const {trace, list, by, matches, rest} = this.moment;
    const groups = new Map();
    for (const i of list) {
      const name = trace.textOf(by, i);
      if (!groups.has(name)) groups.set(name, {name, bytes: 0, inner: new Map()});
      const group = groups.get(name);
      const line = trace.textOf(by === 'line' ? 'module' : 'line', i);
      const inner = group.inner.get(line) ?? {name: line, bytes: 0, blocks: 0, found: false};
      inner.bytes += trace.blocks.size[i];
      inner.blocks += 1;
      inner.found ||= matches(i);
      group.inner.set(line, inner);
      group.bytes += trace.blocks.size[i];
    }
    if (rest > 0) groups.set(null, {name: null, bytes: rest, inner: new Map([['', {name: '', bytes: rest, blocks: 0, found: true}]])});
    return [...groups.values()].sort((a, b) => b.bytes - a.bytes);
  }

  repaint() {
    const {clientWidth: width, clientHeight: height} = this.canvas.parentElement;
    if (this.moment === undefined || width === 0) return;
    this.paint(prepareCanvas(this.canvas, width, height), width, height);
  }

  paint(context, width, height) {
    const {by, layers, theme} = this.moment;
    context.fillStyle = theme.page;
    context.fillRect(0, 0, width, height);
    context.font = LABEL_FONT;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    const groups = this.groups();
    squarify(groups, {x: 0, y: 0, width, height});
    this.boxes = [];
    for (const group of groups) {
      const place = layers.findIndex(({name}) => name === group.name);
      const fill = fillOf(by, place < 0 ? null : group.name, place);
      const head = group.height > 34 && group.width > 60 ? 17 : 0;
      paintFill(context, fill, [group.x, group.y, Math.max(group.width - 1, 0.5), Math.max(group.height - 1, 0.5)]);
      if (head > 0) this.label(context, `${nameIn(by, group.name)}  ${formatBytes(group.bytes)}`, group, 9, fill.color);
      const inner = [...group.inner.values()].sort((a, b) => b.bytes - a.bytes);
      squarify(inner, {x: group.x + 1, y: group.y + head, width: Math.max(group.width - 3, 0), height: Math.max(group.height - head - 3, 0)});
      for (const box of inner) this.paintBox(context, group, box, fill);
    }
  }

  paintBox(context, group, box, fill) {
    const {theme} = this.moment;
    context.fillStyle = theme.page;
    context.fillRect(box.x, box.y, box.width, box.height);
    context.globalAlpha = box.found ? 1 : 0.25;
    paintFill(context, fill, [box.x, box.y, box.width, box.height]);
    context.globalAlpha = 1;
    context.strokeStyle = theme.page;
    context.lineWidth = 0.7;
    context.strokeRect(box.x, box.y, box.width, box.height);
    if (box.height > 15 && box.width > 44) {
      this.label(context, box.name && t(box.name), box, box.height > 30 ? 10 : box.height / 2, box.found ? fill.color : theme.page);
      if (box.height > 32) this.label(context, formatBytes(box.bytes), box, 24, box.found ? fill.color : theme.page);
    }
    this.boxes.push({...box, group: group.name, inner: undefined});
  }

  // On a ground of its own: hatches go around words.
  label(context, text, box, below, ground) {
    let shown = text;
    const room = box.width - 8;
    if (context.measureText(shown).width > room) {
      let [low, high] = [0, Math.min(shown.length, 200)];
      while (low + 1 < high) {
        const middle = (low + high) >> 1;
        if (context.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
        else high = middle;
      }
      if (low < 3) return;
      shown = `${text.slice(0, low)}…`;
    }
    context.fillStyle = ground;
    context.fillRect(box.x + 2, box.y + below - 7, context.measureText(shown).width + 4, 14);
    context.fillStyle = inkOn(ground);
    context.fillText(shown, box.x + 4, box.y + below);
  }

  boxAt(event) {
    const at = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - at.left, event.clientY - at.top];
    return this.boxes.find((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height);
  }

  hover(event) {
    const box = this.boxAt(event);
    if (box === undefined) return this.told.hovered(null);
    const {bytes, by} = this.moment;
    return this.told.hovered([box.name || t('not known'), `${nameIn(by, box.group)} · ${formatBytes(box.bytes)} · ${formatPercent(box.bytes, bytes)}` +
      (box.blocks > 0 ? ` · ${t('{n} block[s]', {n: box.blocks})}` : '')], event);
  }

  click(event) {
    const box = this.boxAt(event);
    if (box !== undefined && box.name !== '') this.told.chosen(box.name);
  }
}
