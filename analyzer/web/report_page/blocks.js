// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Tables: of rows that the page has, sorted by a click on a head; long ones show their first rows and how many more
// there are. And the table of what was alive at a moment, by any property or block by block.

const MOST_ROWS = 200;

// columns: [{head, text: row -> string or element, value: row -> number or string to sort by, number: true, bar: row -> share,
//   place: 'name' (stays on a narrow screen) or 'more' (goes where a block's panel stands beside the table, and says it)}]
class SortedTable {
  constructor(box, columns, {sort = 0, falling = true, most = MOST_ROWS, click = null, marked = () => false} = {}) {
    Object.assign(this, {box, columns, sort, falling, most, click, marked});
    this.rows = [];
  }

  show(rows, empty) {
    this.rows = rows;
    this.empty = empty;
    this.draw();
  }

  draw() {
    if (this.rows.length === 0) {
      this.box.replaceChildren(element('p', {class: 'aside'}, this.empty));
      return;
    }
    const {value} = this.columns[this.sort];
    const sign = this.falling ? -1 : 1;
    const sorted = [...this.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return sign * (typeof x === 'string' ? x.localeCompare(y) : x - y);
    });
    const shown = sorted.filter((row, place) => place < this.most || this.marked(row));
    const more = sorted.length - shown.length;
    this.box.replaceChildren(
      element('table', {class: 'rows'}, element('thead', {}, this.head()), element('tbody', {}, ...shown.map((row) => this.row(row)))),
      ...(more > 0 ? [element('button', {type: 'button', class: 'quiet', onclick: () => { this.most *= 10; this.draw(); }},
        t('{n} more row[s]', {n: more}))] : []));
  }

  head() {
    return element('tr', {}, ...this.columns.map((column, i) => {
      const sorted = i === this.sort ? (this.falling ? 'descending' : 'ascending') : 'none';
      const turn = () => {
        this.falling = i === this.sort ? !this.falling : column.number === true;
        this.sort = i;
        this.draw();
      };
      return element('th', {scope: 'col', 'aria-sort': sorted, class: cellClass(column)},
        element('button', {type: 'button', onclick: turn}, `${t(column.head)}${{descending: ' ▾', ascending: ' ▴', none: ''}[sorted]}`));
    }));
  }

  row(row) {
    const cells = this.columns.map((column) => {
      const text = column.text(row);
      const cell = element('td', {class: cellClass(column)}, typeof text === 'string' ? nameElement(text) : text);
      if (column.bar !== undefined) cell.append(barElement(column.bar(row), column.color?.(row)));
      return cell;
    });
    const made = element('tr', {}, ...cells);
    if (this.marked(row)) {
      made.classList.add('marked');
      made.setAttribute('aria-current', 'true');
    }
    if (this.click !== null) {
      made.classList.add('press');
      made.tabIndex = 0;
      made.addEventListener('click', () => this.click(row));
      made.addEventListener('keydown', (event) => { if (event.key === 'Enter') this.click(row); });
    }
    return made;
  }
}

const cellClass = ({number, place}) => [number ? 'number' : '', place ?? ''].filter((each) => each !== '').join(' ');

// A share as a bar: drawn with an element's own width, which the page's policy allows scripts to set.
function barElement(share, color) {
  const bar = element('span', {class: 'bar', 'aria-hidden': 'true'});
  const filled = element('span', {});
  filled.style.width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  if (color !== undefined) filled.style.background = color;
  bar.append(filled);
  return bar;
}

const numberColumn = (head, value, text = (row) => formatCount(value(row)), more = {}) => ({head, value, text, number: true, ...more});
const bytesColumn = (head, value, more = {}) => numberColumn(head, value, (row) => formatBytes(value(row)), more);
const textColumn = (head, text, more = {}) => ({head, text, value: text, ...more});
const NAME = {place: 'name'}, MORE = {place: 'more'};

// What was alive at a moment: sums by a property, or each block.
class MomentTable {
  constructor(box, told) {
    this.box = box;
    this.told = told;  // {block(place), group(name)}
  }

  // moment: {trace, list, bytes (of all, named or not), rest, by, matches: i -> bool}
  show(moment) {
    moment.by === 'block' ? this.showBlocks(moment) : this.showGroups(moment);
  }

  showGroups({trace, list, bytes, rest, by, matches, row: chosen}) {
    const groups = new Map();
    for (const i of list) {
      if (!matches(i)) continue;
      const name = trace.textOf(by, i);
      const group = groups.get(name) ?? {name, bytes: 0, blocks: 0, largest: 0};
      group.bytes += trace.blocks.size[i];
      group.blocks += 1;
      group.largest = Math.max(group.largest, trace.blocks.size[i]);
      groups.set(name, group);
    }
    const rows = [...groups.values()];
    if (rest > 0) rows.push({name: null, bytes: rest, blocks: 0, largest: 0});
    new SortedTable(this.box, [
      bytesColumn('bytes', (row) => row.bytes, {bar: (row) => row.bytes / bytes}),
      numberColumn(bytes > 0 ? t('of {b}', {b: formatBytes(bytes)}) : 'share', (row) => row.bytes, (row) => formatPercent(row.bytes, bytes)),
      numberColumn('blocks', (row) => row.blocks, (row) => (row.name === null ? '' : formatCount(row.blocks))),
      bytesColumn('largest', (row) => row.largest, {text: (row) => (row.largest === 0 ? '' : formatBytes(row.largest))}),
      textColumn(by, (row) => (row.name === null ? t('smaller blocks, in sums only') : nameIn(by, row.name)), NAME),
    ], {marked: (row) => row.name === chosen && chosen !== '', click: by === 'stream' ? null : (row) => { if (row.name) this.told.group(row.name); }}).show(rows, t('nothing matches'));
  }

  showBlocks({trace, list, bytes, matches, block}) {
    const {blocks, strings} = trace;
    const table = new SortedTable(this.box, [
      bytesColumn('size', (i) => blocks.size[i], {bar: (i) => blocks.size[i] / bytes}),
      textColumn('category', (i) => t(strings[blocks.category[i]])),
      textColumn('line', (i) => t(strings[blocks.line[i]] || 'not known'), NAME),
      textColumn('module', (i) => strings[blocks.module[i]]),
      textColumn('name', (i) => strings[blocks.name[i]], MORE),
      numberColumn('born', (i) => blocks.time_ns[i], (i) => formatTime(blocks.time_ns[i]), MORE),
      numberColumn('freed', (i) => (blocks.died_ns[i] < 0 ? Infinity : blocks.died_ns[i]),
        (i) => (blocks.died_ns[i] < 0 ? t('never') : formatTime(blocks.died_ns[i])), MORE),
      numberColumn('address', (i) => blocks.address[i], (i) => `0x${blocks.address[i].toString(16)}`, MORE),
    ], {click: (i) => this.told.block(i), marked: (i) => i === block});
    table.show(list.filter(matches), t('nothing matches'));
  }
}
