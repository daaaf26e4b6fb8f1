// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Fills: colours and hatches of the one palette (base/palette.h), the theme of the canvases, and ticks of axes.

let palette = [];         // [{color, hatch}], in the order in which pictures take them: page_data.h
let categoryFills = {};   // title -> one of them
const REST_FILL = {color: '#a9a9a9', hatch: 'plain'};
const HATCH_TILE = 8;

const THEME_COLORS = {
  light: {page: '#ffffff', text: '#1a1c20', aside: '#5b6270', line: '#e3e6eb', strong: '#aab1bd', accent: '#0b57d0',
    reserved: '#3d434d', capacity: '#b3261e', hole: '#eceff3', brush: 'rgba(11,87,208,.16)', band: '#f3f4f7', found: '#d5157f'},
  dark: {page: '#16181d', text: '#f3f4f6', aside: '#a3abb8', line: '#2b2f37', strong: '#596273', accent: '#8ab4f8',
    reserved: '#c9ced6', capacity: '#ff8a80', hole: '#23272f', brush: 'rgba(138,180,248,.22)', band: '#1f232a', found: '#ff4fae'},
};

function takePalette(data) {
  ({palette} = data);
  categoryFills = Object.fromEntries(Object.entries(data.category_colors).map(([title, color]) => [title, palette.find((fill) => fill.color === color)]));
}

// `name`: null of all others, undefined of what is not known.
function fillOf(by, name, place) {
  if (name === null || name === undefined) return REST_FILL;
  if (by === 'category' && categoryFills[name] !== undefined) return categoryFills[name];
  return palette[place % palette.length];
}

// The path that is there, or a box, in a fill: colour, then its hatch.
function paintFill(context, {color, hatch}, box = null) {
  const paint = () => (box === null ? context.fill() : context.fillRect(...box));
  context.fillStyle = color;
  paint();
  if (hatch === 'plain' || (box !== null && Math.min(box[2], box[3]) < 3)) return;
  context.fillStyle = hatchOf(context, hatch, inkOn(color));
  paint();
}

// Lines of a hatch in a tile: [x, y, x, y].
const HATCHES = {rising: [[-1, 9, 9, -1], [-1, 1, 1, -1], [7, 9, 9, 7]], falling: [[-1, -1, 9, 9], [7, -1, 9, 1], [-1, 7, 1, 9]]};
HATCHES.crossed = [...HATCHES.rising, ...HATCHES.falling];
const hatchTiles = new Map();

function hatchOf(context, hatch, ink) {
  if (context.hatch !== undefined) return context.hatch(hatch, ink);
  const key = `${hatch} ${ink}`;
  if (!hatchTiles.has(key)) {
    const tile = element('canvas', {width: HATCH_TILE, height: HATCH_TILE});
    const drawn = tile.getContext('2d');
    drawn.strokeStyle = ink;
    drawn.globalAlpha = 0.38;
    for (const [x, y, toX, toY] of HATCHES[hatch]) {
      drawn.beginPath();
      drawn.moveTo(x, y);
      drawn.lineTo(toX, toY);
      drawn.stroke();
    }
    hatchTiles.set(key, tile);
  }
  return context.createPattern(hatchTiles.get(key), 'repeat');
}

// A square of a legend.
function swatchElement({color, hatch}) {
  const swatch = element('canvas', {class: 'swatch', width: 22, height: 22, 'aria-hidden': 'true'});
  const context = swatch.getContext('2d');
  context.scale(2, 2);
  paintFill(context, {color, hatch}, [0, 0, 11, 11]);
  return swatch;
}

// Lines cannot be hatched: they are dashed.
const lineDash = ({hatch}) => ({plain: [], rising: [7, 3], falling: [2, 2], crossed: [7, 2, 2, 2]})[hatch];

// Black or white, whichever can be read better on a colour (relative luminance as WCAG 2.2 has it).
function inkOn(color) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? '#111318' : '#ffffff';
}

// Round numbers in [from, to], at most about `most` of them.
function ticksOf(from, to, most) {
  const span = to - from;
  if (!(span > 0) || most < 1) return [];
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = power * [1, 2, 5, 10].find((factor) => span / (power * factor) <= most);
  const ticks = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) ticks.push(tick);
  return ticks;
}

// From 0 to `most` bytes in steps of a power of two, at most about `count` of them.
function byteTicks(most, count) {
  if (!(most > 0)) return [];
  let step = 1;
  while (most / step > count) step *= 2;
  const ticks = [];
  for (let tick = 0; tick <= most; tick += step) ticks.push(tick);
  return ticks;
}

// "1.935 s" of nanoseconds; with as many places as `step` (the distance to the next tick) needs.
function formatTime(ns, step = 1e6) {
  if (ns < 1e6 && step < 1e6) return `${(ns / 1e3).toFixed(step < 1e3 ? 3 : step < 1e4 ? 1 : 0)} µs`;
  const places = step >= 1e9 ? 0 : Math.min(Math.max(Math.ceil(9 - Math.log10(step)), 0), 6);
  const seconds = ns / 1e9;
  if (seconds < 600) return `${seconds.toFixed(places).replace(/\.0+$/, '')} s`;
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const tail = `${String(m).padStart(2, '0')}:${s.toFixed(Math.min(places, 3)).padStart(places > 0 ? 3 + Math.min(places, 3) : 2, '0')}`;
  return h > 0 ? `${h}:${tail}` : tail;
}
