// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Numbers as the command line prints them (base/format.h): "8.11 GiB", "12,345", "0.4 %".

const UNITS = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

function formatBytes(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  let unit = 0;
  while (unit + 1 < UNITS.length && bytes / 1024 ** (unit + 1) >= 1023.995) ++unit;
  const value = bytes / 1024 ** (unit + 1);
  if (Number.isInteger(value)) return `${value} ${UNITS[unit]}`;
  return `${value.toFixed(value < 99.995 ? 2 : 1)} ${UNITS[unit]}`;
}

function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',');
}

// Sums beyond 2^53 are no longer exact in a browser; they are marked.
function formatExactBytes(bytes) {
  return Number.isSafeInteger(bytes) ? t('{n} bytes', {n: bytes}) : t('about {b}', {b: formatBytes(bytes)});
}

function formatPercent(part, whole) {
  const percent = whole > 0 ? (part / whole) * 100 : 0;
  if (percent === 0) return '0 %';
  if (percent < 0.1) return '<0.1 %';
  return `${percent.toFixed(percent < 9.95 ? 1 : 0)} %`;
}
