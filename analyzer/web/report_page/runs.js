// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Several traces: their figures side by side, and what the peak of each was made of.

const MOST_CATEGORIES = 8; // that have a column each, where there are many runs

// overlay: what shows two runs on one axis
function runsTab(traces, diff, overlay, open) {
  const rows = traces.flatMap((trace) => trace.devices.map((device) => {
    const report = trace.answers.report.devices.find((each) => each.device === device.number);
    const growing = (report?.leaks ?? []).filter((leak) => leak.status === 'growing').length;
    return {trace, device, report, growing, verdict: trace.answers.report.verdict};
  }));
  const most = Math.max(...rows.map(({device}) => device.peakBytes), 1);
  const first = rows[0]?.device.peakBytes ?? 0;
  const parts = [tableElement([
    textColumn('run', ({trace}) => runName(trace), NAME),
    textColumn('Device', ({device}) => device.label),
    bytesColumn('peak', ({device}) => device.peakBytes, {bar: ({device}) => device.peakBytes / most}),
    numberColumn('beside the first', ({device}) => device.peakBytes - first, ({device}) => signedBytes(device.peakBytes - first)),
    bytesColumn('reserved', ({report}) => report?.peak.reserved_bytes ?? 0),
    numberColumn('steps', ({trace}) => trace.steps.length),
    numberColumn('growing lines', ({growing}) => growing),
    textColumn('ended', ({trace, verdict}) => t(verdict.kind === 'out_of_memory' ? 'out of memory' : trace.answers.report.complete ? 'completed' : 'not completed')),
  ], rows, '', {sort: 2, click: ({trace}) => open(trace)})];
  const atPeak = rows.map(({trace, device}) => peakParts(trace, device));
  const names = [...new Set(atPeak.flatMap((parts) => [...parts.keys()]))]
    .sort((a, b) => Math.max(...atPeak.map((p) => p.get(b) ?? 0)) - Math.max(...atPeak.map((p) => p.get(a) ?? 0)));
  parts.push(sectionElement(`${t('Peak')}: ${t('category')}`, rows.length > 3 ? manyRunsTable(rows, atPeak, names, most) : fewRunsTable(rows, atPeak, names, most)));
  return diff === null ? parts : [...diffParts(diff, overlay), ...parts];
}

// A row for each category, a column for each run.
function fewRunsTable(rows, atPeak, names, most) {
  return tableElement([
    textColumn('category', (name) => t(name), NAME),
    ...rows.map((row, i) => bytesColumn(`${runName(row.trace)} ${row.device.label}`, (name) => atPeak[i].get(name) ?? 0,
      {bar: (name) => (atPeak[i].get(name) ?? 0) / most})),
    ...(rows.length === 2 ? [numberColumn('difference', (name) => (atPeak[1].get(name) ?? 0) - (atPeak[0].get(name) ?? 0),
      (name) => signedBytes((atPeak[1].get(name) ?? 0) - (atPeak[0].get(name) ?? 0)))] : []),
  ], names, '', {sort: 1});
}

// A row for each run, a column for each of the largest categories.
function manyRunsTable(rows, atPeak, names, most) {
  const shown = names.slice(0, MOST_CATEGORIES), others = names.slice(MOST_CATEGORIES);
  const runs = rows.map((row, i) => ({name: `${runName(row.trace)} ${row.device.label}`, parts: atPeak[i]}));
  const sum = (run) => others.reduce((bytes, name) => bytes + (run.parts.get(name) ?? 0), 0);
  return tableElement([
    textColumn('run', (run) => run.name, NAME),
    ...shown.map((name) => bytesColumn(name, (run) => run.parts.get(name) ?? 0, {bar: (run) => (run.parts.get(name) ?? 0) / most})),
    ...(others.length > 0 ? [bytesColumn('others', sum)] : []),
  ], runs, '', {sort: 1});
}

// What `gpumemshim diff` says of two traces.
function diffParts(diff, overlay) {
  const rows = diff.lines.filter((row) => row.delta_bytes !== 0);
  const most = Math.max(...rows.map((row) => Math.abs(row.delta_bytes)), 1);
  return [element('p', {}, element('strong', {}, nameElement(t(diff.headline)))), ...overlay, element('h3', {}, t('Between the peaks, by line')), tableElement([
    numberColumn('difference', (row) => Math.abs(row.delta_bytes), (row) => signedBytes(row.delta_bytes), {bar: (row) => Math.abs(row.delta_bytes) / most}),
    textColumn('change', (row) => t(row.change)),
    bytesColumn('first', (row) => row.a_bytes),
    bytesColumn('second', (row) => row.b_bytes),
    numberColumn('blocks', (row) => row.b_count - row.a_count, (row) => `${formatCount(row.a_count)} → ${formatCount(row.b_count)}`),
    textColumn('line', (row) => (row.was ? t('{w} (was {w1})', {w: row.name, w1: row.was}) : row.name), NAME),
  ], rows, '', {most: 15})];
}

function signedBytes(bytes) {
  return bytes === 0 ? '0 B' : `${bytes < 0 ? '-' : '+'}${formatBytes(Math.abs(bytes))}`;
}

function runName(trace) {
  const {rank} = trace.answers.report.process;
  const name = trace.about.file.split('/').pop().replace(/\.gmtrace$/, '');
  return rank === null || rank === undefined ? name : `rank ${rank}: ${name}`;
}

// Category -> bytes of a device at its peak.
function peakParts(trace, device) {
  const row = device.rowAt('event', device.peakEvent);
  const parts = new Map();
  for (const {name, values} of device.layers('category')) {
    if (values[row] > 0) parts.set(name ?? t('before the recording or in a gap'), values[row]);
  }
  return parts;
}
