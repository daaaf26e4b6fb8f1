// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The map of addresses at a moment: a row for each segment of PyTorch's allocator, its blocks and the holes between
// them; below them memory outside of its segments. What pins a segment, the block that alone keeps it, stands out.

const MAP = {row: 18, gap: 4, left: 96, right: 150};

class AddressMap {
  constructor(box, canvas, told) {
    this.box = box;  // scrolls
    this.canvas = canvas;
    this.told = told;  // {hovered(lines, event), block(i)}
    this.boxes = [];
    new ResizeObserver(() => this.repaint()).observe(box);
    box.addEventListener('scroll', () => this.repaint());
    canvas.addEventListener('pointermove', (event) => this.hover(event));
    canvas.addEventListener('pointerleave', () => told.hovered(null));
    canvas.addEventListener('click', (event) => this.click(event));
  }

  show(moment) {
    this.moment = moment;
    this.ranges = this.makeRanges();
    this.canvas.parentElement.style.height = `${this.ranges.length * (MAP.row + MAP.gap) + 4}px`;
    this.repaint();
  }

  // [{from, to, segment: place or -1, blocks: [i by address], used}]: segments by size, then what lies in none.
  makeRanges() {
    const {trace, list, device, event} = this.moment;
    const {segments, blocks} = trace;
    const known = trace.aliveIn(segments, device, event).map((i) => ({from: segments.address[i], to: segments.address[i] + segments.size[i], segment: i, blocks: [], used: 0}));
    known.sort((a, b) => a.from - b.from);
    const byAddress = [...list].sort((a, b) => blocks.address[a] - blocks.address[b]);
    const loose = [];
    let at = 0;
    for (const i of byAddress) {
      const [from, to] = [blocks.address[i], blocks.address[i] + blocks.size[i]];
      while (at < known.length && known[at].to <= from) ++at;
      let range = known[at];
      if (range === undefined || range.from > from) {
        range = loose[loose.length - 1];
        // Neighbours at most 2 MiB apart: pages of an expandable segment.
        if (range === undefined || from - range.to > 2 * 1024 ** 2 || to < range.to) {
          range = {from, to, segment: -1, blocks: [], used: 0};
          loose.push(range);
        }
        range.to = Math.max(range.to, to);
      }
      range.blocks.push(i);
      range.used += blocks.size[i];
    }
    const bySize = (a, b) => (b.to - b.from) - (a.to - a.from) || a.from - b.from;
    return [...known.sort(bySize), ...loose.sort(bySize)];
  }

  repaint() {
    const {clientWidth: width, clientHeight: height} = this.box;
    if (this.moment === undefined || width === 0 || height === 0) return;
    this.canvas.style.top = `${this.box.scrollTop}px`;
    this.paint(prepareCanvas(this.canvas, width, height), width, height, this.box.scrollTop);
  }

  paint(context, width, height, scroll) {
    const {theme} = this.moment;
    context.fillStyle = theme.page;
    context.fillRect(0, 0, width, height);
    context.font = LABEL_FONT;
    context.textBaseline = 'middle';
    this.boxes = [];
    const longest = this.ranges.reduce((most, range) => Math.max(most, range.to - range.from), 1);
    const scale = Math.max(width - MAP.left - MAP.right, 1) / longest;
    const first = Math.max(Math.floor(scroll / (MAP.row + MAP.gap)), 0);
    for (let place = first; place < this.ranges.length; ++place) {
      const y = place * (MAP.row + MAP.gap) - scroll + 2;
      if (y > height) break;
      this.paintRange(context, this.ranges[place], y, scale);
    }
  }

  paintRange(context, range, y, scale) {
    const {trace, theme, by, layers, matches} = this.moment;
    const {blocks} = trace;
    const length = range.to - range.from;
    context.textAlign = 'right';
    context.fillStyle = theme.aside;
    context.fillText(range.segment < 0 ? `0x${range.from.toString(16)}` : formatBytes(length), MAP.left - 8, y + MAP.row / 2);
    context.fillStyle = range.segment < 0 ? theme.band : theme.hole;
    context.fillRect(MAP.left, y, Math.max(length * scale, 1), MAP.row);
    const pins = range.segment >= 0 && range.blocks.length === 1 && range.used < length / 2;
    for (const i of range.blocks) {
      const x = MAP.left + (blocks.address[i] - range.from) * scale;
      const wide = blocks.size[i] * scale;
      const name = trace.textOf(by, i);
      const place = layers.findIndex((layer) => layer.name === name);
      context.globalAlpha = matches(i) ? 1 : 0.25;
      paintFill(context, fillOf(by, place < 0 ? null : name, place), [x, y, Math.max(wide - (wide > 3 ? 0.6 : 0), 0.7), MAP.row]);
      context.globalAlpha = 1;
      if (pins) {
        context.strokeStyle = theme.capacity;
        context.lineWidth = 2;
        context.strokeRect(x - 1, y - 1, Math.max(wide, 2) + 2, MAP.row + 2);
      }
      this.boxes.push({i, range, x, y, width: Math.max(wide, 1)});
    }
    this.boxes.push({i: -1, range, x: MAP.left, y, width: Math.max(length * scale, 1)});
    context.textAlign = 'left';
    context.fillStyle = pins ? theme.capacity : theme.aside;
    const free = length - range.used;
    const text = range.segment < 0 ? formatBytes(range.used) : pins ? listed([t('pinned'), `${formatBytes(free)} ${t('free')}`]) : free > 0 ? `${formatBytes(free)} ${t('free')}` : '';
    context.fillText(text, MAP.left + length * scale + 8, y + MAP.row / 2);
  }

  boxAt(event) {
    const at = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - at.left, event.clientY - at.top];
    return this.boxes.find((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + MAP.row);
  }

  hover(event) {
    const box = this.boxAt(event);
    if (box === undefined) return this.told.hovered(null);
    const {trace} = this.moment;
    if (box.i >= 0) return this.told.hovered(blockLines(trace, box.i), event);
    const {range} = box;
    const size = {b: formatBytes(range.to - range.from)};
    const kind = range.segment < 0 ? t('{b} of addresses without a segment that is known', size) : t('segment of {b}', size);
    return this.told.hovered([kind, `0x${range.from.toString(16)} · ${t('{n} block[s]', {n: range.blocks.length})} · ` +
      `${formatBytes(range.to - range.from - range.used)} ${t('free')}`], event);
  }

  click(event) {
    const box = this.boxAt(event);
    if (box !== undefined && box.i >= 0) this.told.block(box.i);
  }
}

// A block in a few lines.
function blockLines(trace, i) {
  const {blocks, strings} = trace;
  const name = strings[blocks.name[i]];
  const requested = blocks.requested[i] > 0 && blocks.requested[i] !== blocks.size[i] ? ` · ${t('requested')} ${formatExactBytes(blocks.requested[i])}` : '';
  return [
    `${formatBytes(blocks.size[i])} ${t(strings[blocks.category[i]])}${name === '' ? '' : `: ${name}`}`,
    [t(strings[blocks.line[i]]), strings[blocks.module[i]]].filter((text) => text !== '').join(' · ') || t('not known'),
    `${formatExactBytes(blocks.size[i])}${requested} · 0x${blocks.address[i].toString(16)}`,
    `${t('born')} ${formatTime(blocks.time_ns[i])} · ${blocks.died_ns[i] < 0 ? t('never') : `${t('freed')} ${formatTime(blocks.died_ns[i])}`} · ${t('evidence')}: ${t(strings[blocks.evidence[i]])}`,
  ];
}
