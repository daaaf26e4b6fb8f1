// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What stands below two runs on one axis: whose curve is whose, and the gap, here and at the peaks.

const GAP_BY = ['category', 'line'];

function overlayElements(page) {
  const {choice, diff} = page;
  if (diff === null || page.traces.some((trace) => trace.devices.length === 0)) return [];
  const here = element('div', {class: 'gap'});
  const overlay = new RunOverlay(page.traces, diff, choice, {
    theme: () => page.theme, hovered: showTip, viewed: () => page.remember(),
    chosen: () => { here.replaceChildren(...gapElements(overlay, choice)); page.remember(); },
  });
  page.overlay = overlay;
  const switched = element('span', {class: 'segments', role: 'radiogroup', 'aria-label': t('Across')});
  const by = element('span', {class: 'segments', role: 'radiogroup', 'aria-label': t('Group by')});
  const draw = () => {
    fillRadios(switched, overlay.axes, choice.axis, (axis) => { Object.assign(choice, {axis, at: null, span: null}); overlay.use(axis); draw(); });
    fillRadios(by, GAP_BY, choice.gapBy, (each) => { choice.gapBy = each; draw(); });
    overlay.repaint();
    overlay.told.chosen();
  };
  draw();
  const legend = overlay.runs.map((run, i) => element('span', {class: 'choice'}, curveSwatch(run.fill), nameElement(`${run.name} ${run.device.label}`)));
  return [
    element('div', {class: 'row'}, element('span', {class: 'choice'}, t('Across'), ' ', switched), ...legend),
    overlay.room,
    element('div', {class: 'row'}, element('span', {class: 'choice'}, t('The gap by'), ' ', by)), here];
}

function fillRadios(box, keys, chosen, choose) {
  box.replaceChildren(...keys.map((key) => element('button', {type: 'button', role: 'radio', 'aria-checked': String(key === chosen), onclick: () => choose(key)}, t(key))));
}

// A piece of a curve, dashed as it is.
function curveSwatch(fill) {
  const swatch = element('canvas', {class: 'swatch curve', width: 44, height: 8, 'aria-hidden': 'true'});
  const context = swatch.getContext('2d');
  context.strokeStyle = fill.color;
  context.lineWidth = 4;
  context.setLineDash(lineDash(fill).map((length) => length * 2));
  context.beginPath();
  context.moveTo(0, 4);
  context.lineTo(44, 4);
  context.stroke();
  return swatch;
}

// Names of the gap at the chosen place and of the gap between the peaks, as `gpumemshim diff` has it, in one table.
function gapElements(overlay, choice) {
  const {diff} = overlay;
  const [a, b] = overlay.runs.map((run) => run.heldAt(choice.at));
  const rows = new Map(overlay.gaps(choice.at, choice.gapBy).map((gap) => [gap.name, gap]));
  for (const each of choice.gapBy === 'category' ? diff.categories : diff.lines) {
    const row = rows.get(each.name) ?? {name: each.name, a: null, b: null, gap: null};
    rows.set(each.name, {...row, peaks: each.delta_bytes});
  }
  const shown = [...rows.values()].filter(({gap, peaks}) => gap || peaks);
  const size = ({gap, peaks}) => Math.max(Math.abs(gap ?? 0), Math.abs(peaks ?? 0));
  const most = Math.max(...shown.map(size), 1);
  const bytes = (value) => (value === null ? UNKNOWN : formatBytes(value));
  const signed = (value) => (value === null || value === undefined ? UNKNOWN : signedBytes(value));
  const held = (value) => (value === null ? t('not running') : formatBytes(value));
  return [
    element('p', {'aria-live': 'polite'}, `${t('At')} ${overlay.words(choice.at)}: `, ...(a === null || b === null ? [] : [element('strong', {}, signedBytes(b - a)), ' · ']), `${held(a)} → ${held(b)}`),
    tableElement([
      textColumn(choice.gapBy, ({name}) => nameIn(choice.gapBy, name)),
      numberColumn(`${overlay.runs[0].name}, ${t('here')}`, (row) => row.a ?? 0, (row) => bytes(row.a)),
      numberColumn(`${overlay.runs[1].name}, ${t('here')}`, (row) => row.b ?? 0, (row) => bytes(row.b)),
      numberColumn('gap here', (row) => Math.abs(row.gap ?? 0), (row) => signed(row.gap), {bar: (row) => Math.abs(row.gap ?? 0) / most}),
      numberColumn('gap of the peaks', (row) => Math.abs(row.peaks ?? 0), (row) => signed(row.peaks), {bar: (row) => Math.abs(row.peaks ?? 0) / most}),
    ], shown, t('No gap here and none at the peaks.'), {sort: 3, most: MOST_GAPS})];
}
