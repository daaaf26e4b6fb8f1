// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Colours that people with any colour vision can tell apart (after Okabe and Ito, then darker and lighter ones), the
// theme of the canvases, and ticks of axes.

let categoryColors = {};  // title -> colour: page_data.h
const COLORS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#f0e442', '#7a5195', '#4e79a7', '#b07aa1',
  '#76b7b2', '#ff9da7', '#9c755f', '#59a14f', '#edc948', '#2f4b7c', '#a05195', '#f95d6a', '#8cd17d', '#499894',
  '#d37295', '#86bcb6', '#79706e', '#bab0ac'];
const REST_COLOR = '#a9a9a9';

const THEME_COLORS = {
  light: {page: '#ffffff', text: '#1a1c20', aside: '#5b6270', line: '#e3e6eb', strong: '#aab1bd', accent: '#0b57d0',
    reserved: '#3d434d', capacity: '#b3261e', hole: '#eceff3', brush: 'rgba(11,87,208,.16)', band: '#f3f4f7', found: '#d5157f'},
  dark: {page: '#16181d', text: '#f3f4f6', aside: '#a3abb8', line: '#2b2f37', strong: '#596273', accent: '#8ab4f8',
    reserved: '#c9ced6', capacity: '#ff8a80', hole: '#23272f', brush: 'rgba(138,180,248,.22)', band: '#1f232a', found: '#ff4fae'},
};

// `name`: null of all others, undefined of what is not known.
function colorOf(by, name, place) {
  if (name === null || name === undefined) return REST_COLOR;
  if (by === 'category' && categoryColors[name] !== undefined) return categoryColors[name];
  return COLORS[place % COLORS.length];
}

// Black or white, whichever can be read on a colour.
function inkOn(color) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#111318' : '#ffffff';
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
