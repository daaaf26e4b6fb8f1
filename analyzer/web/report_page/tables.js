// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The tabs that say what other commands say: leaks, steps, modules and model. Each reads that command's
// own JSON, so the numbers are the same. A row that has a time leads to it.

const UNKNOWN = '–';
const textOr = (text) => text ?? UNKNOWN;

function sectionElement(head, ...content) {
  return element('section', {}, element('h3', {}, head), ...content);
}

function tableElement(columns, rows, empty, options) {
  const box = element('div', {class: 'scroll'});
  new SortedTable(box, columns, options).show(rows, empty);
  return box;
}

function leaksTab(trace, goTo, theme, chosen) {
  const parts = [];
  for (const device of trace.answers.leaks.devices) {
    const rows = device.leaks;
    parts.push(sectionElement(`GPU ${device.device}`,
      element('p', {class: rows.some((row) => row.status === 'growing') ? 'alarm' : ''}, nameElement(t(device.leaks_headline))),
      tableElement([
        textColumn('status', (row) => t(row.status)),
        bytesColumn('grown', (row) => row.grown_bytes, {bar: (row) => row.grown_bytes / Math.max(...rows.map((each) => each.grown_bytes), 1)}),
        bytesColumn('per iteration', (row) => row.bytes_per_iteration ?? 0),
        numberColumn('blocks', (row) => row.grown_blocks),
        textColumn('line', (row) => (row.site ? t(row.site) : `${row.file}:${row.line}`), NAME),
        textColumn('remark', (row) => (row.remark ? t(row.remark) : row.code ?? '')),
      ], rows, t('No line keeps more memory from step to step.'),
      {sort: 1, click: (row) => goTo({time: row.since_ns}), marked: (row) => row.site === chosen && chosen !== ''}),
      element('p', {class: 'aside'}, t('{b} alive at the end, of it {b1} freed as the program ended.', {b: formatBytes(device.alive.bytes), b1: formatBytes(device.alive.freed_by_teardown)})),
      ...survivorsElement(trace, device.device, theme)));
  }
  return parts;
}

function stepsTab(trace, goTo) {
  const {steps} = trace;
  const most = Math.max(...steps.map((step) => step.peak_bytes), 1);
  const strip = element('div', {class: 'strip', role: 'img', 'aria-label': t('peak of each step')});
  for (const step of steps.slice(-400)) {
    const cell = element('button', {type: 'button', title: `${t('step {n}', {n: step.step})}: ${formatBytes(step.peak_bytes)}`, onclick: () => goTo({time: step.peak_ns})});
    cell.style.opacity = String(0.12 + 0.88 * step.peak_bytes / most);
    strip.append(cell);
  }
  return [
    ...(steps.length > 1 ? [strip] : []),
    tableElement([
      numberColumn('step', (row) => row.step, (row) => `${row.step}${row.complete ? '' : ` (${t('not complete')})`}`, NAME),
      bytesColumn('start', (row) => row.start_bytes),
      bytesColumn('peak', (row) => row.peak_bytes, {bar: (row) => row.peak_bytes / most}),
      bytesColumn('end', (row) => row.end_bytes),
      numberColumn('growth', (row) => row.growth_bytes, (row) => (row.growth_bytes < 0 ? `-${formatBytes(-row.growth_bytes)}` : formatBytes(row.growth_bytes))),
      bytesColumn('reserved', (row) => row.reserved_bytes),
      numberColumn('time of peak', (row) => row.peak_ns, (row) => formatTime(row.peak_ns)),
    ], steps, t('This trace has no training steps.'), {falling: false, click: (row) => goTo({time: row.peak_ns})}),
    ...(trace.stages.length === 0 ? [] : [sectionElement(t('stage'), tableElement([
      textColumn('stage', (row) => t(row.stage), NAME),
      bytesColumn('peak', (row) => row.peak_bytes, {bar: (row) => row.peak_bytes / Math.max(...trace.stages.map((each) => each.peak_bytes), 1)}),
      numberColumn('growth', (row) => row.growth_bytes, (row) => (row.growth_bytes < 0 ? `-${formatBytes(-row.growth_bytes)}` : formatBytes(row.growth_bytes))),
      numberColumn('start', (row) => row.start_ns, (row) => formatTime(row.start_ns)),
      numberColumn('time of peak', (row) => row.peak_ns, (row) => formatTime(row.peak_ns)),
    ], trace.stages, '', {sort: 3, falling: false, click: (row) => goTo({time: row.peak_ns})}))]),
  ];
}

function modulesTab(trace, search) {
  const rows = trace.answers.modules.modules;
  const most = Math.max(...rows.map((row) => row.peak_bytes), 1);
  return [tableElement([
    textColumn('module', (row) => row.fqn || `(${row.class || t('no module')})`, NAME),
    textColumn('class', (row) => textOr(row.class)),
    textColumn('component', (row) => textOr(row.component)),
    textColumn('stage', (row) => t(textOr(row.stage))),
    bytesColumn('at once', (row) => row.peak_bytes, {bar: (row) => row.peak_bytes / most}),
    bytesColumn('saved', (row) => row.saved_peak_bytes),
    bytesColumn('temporary', (row) => row.temporary_bytes),
    bytesColumn('allocated', (row) => row.allocated_bytes),
  ], rows, t('No module allocated in this trace.'), {sort: 4, click: (row) => search(row.fqn)})];
}

function modelTab(trace) {
  const {totals, parameters} = trace.answers.model;
  if (parameters.length === 0) return [element('p', {class: 'aside'}, t('No parameters are known.'))];
  return [
    element('p', {}, [`${formatCount(totals.parameters)} ${t('parameters')}`, formatBytes(totals.parameter_bytes), `${t('trainable')} ${formatCount(totals.trainable_parameters)}`,
      `${t('gradient')} ${formatBytes(totals.gradient_bytes)}`, `${t('optimizer state')} ${formatBytes(totals.optimizer_state_bytes)}`].join(' · ')),
    tableElement([
      textColumn('name', (row) => row.name, NAME),
      textColumn('shape', (row) => row.shape.join(' × ')),
      textColumn('dtype', (row) => textOr(row.dtype)),
      bytesColumn('bytes', (row) => row.bytes, {bar: (row) => row.bytes / Math.max(...parameters.map((each) => each.bytes), 1)}),
      bytesColumn('gradient', (row) => row.gradient_bytes),
      bytesColumn('optimizer state', (row) => row.optimizer_state_bytes),
      textColumn('trainable', (row) => t(row.trainable ? 'yes' : 'no')),
      textColumn('component', (row) => textOr(row.component)),
    ], parameters, '', {sort: 3}),
  ];
}
