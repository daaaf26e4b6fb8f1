// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What stands around the picture of the timeline: the bands and lines of steps, stages, marks and failures, the legend,
// and what is said of the place under the pointer.

// Steps and stages below the picture. What happened outside of memory as lines in it.
function bandsOf({trace, device, choice}) {
  const place = (time) => (choice.x === 'time' ? time : device.rows.event[device.rowAt('time_ns', time)]);
  const lane = (spans) => spans.map((span) => ({...span, from: place(span.start_ns), to: place(span.end_ns)}));
  const lanes = [lane(trace.steps.map((step) => ({...step, label: t('step {n}', {n: step.step}), short: `${step.step}`}))),
    lane(trace.stages.map((stage) => ({...stage, label: t(stage.stage), short: ''})))].filter((each) => each.length > 0);
  const marks = trace.marks.filter(({kind}) => kind === 'mark').slice(0, 500).map((mark) => ({at: place(mark.time_ns), text: mark.text, bad: false}));
  const ooms = trace.ooms.filter((oom) => oom.final && oom.device === device.number).map((oom) => ({at: place(oom.time_ns), text: t('out of memory: {b} requested', {b: formatBytes(oom.requested_bytes)}), bad: true}));
  return {lanes, marks: [...marks, ...ooms]};
}

function showLegend(page) {
  const {timeline, choice, device, theme} = page;
  const buttons = timeline.layers.map((layer, place) => {
    const swatch = swatchElement(fillOf(choice.by, layer.name, place));
    return element('button', {type: 'button', 'aria-pressed': String(!timeline.hidden.has(place)), title: t('at most {b}', {b: formatBytes(layer.highest)}),
      onclick: () => {
        if (!timeline.hidden.delete(place)) timeline.hidden.add(place);
        timeline.repaint();
        showLegend(page);
      },
      onpointerenter: () => { timeline.lit = place; timeline.repaint(); },
      onpointerleave: () => { timeline.lit = -1; timeline.repaint(); }}, swatch, nameElement(layerName(layer, choice.by)));
  });
  const line = (color, text) => {
    const swatch = element('span', {class: 'swatch line'});
    swatch.style.background = color;
    return element('span', {class: 'aside choice'}, swatch, text);
  };
  byId('legend').replaceChildren(...buttons, line(theme.reserved, `${t('reserved')} + CUDA`), ...(device.capacity > 0 ? [line(theme.capacity, `${t('capacity')} ${formatBytes(device.capacity)}`)] : []));
}

function hoverTimeline({timeline, device, choice, trace}, row, event) {
  if (row < 0 || event === undefined) return showTip(null);
  const single = timeline.singleAt(event);
  if (single !== undefined) row = single.row;
  const layers = timeline.layers.map((layer) => ({layer, bytes: layer.values[row]})).filter(({bytes}) => bytes > 0).sort((a, b) => b.bytes - a.bytes);
  const at = timeline.painter.xOf(device.rows[timeline.column][row]);
  const near = timeline.what.marks.filter((mark) => Math.abs(timeline.painter.xOf(mark.at) - at) < 5);
  const step = trace.stepAt(device.rows.time_ns[row]);
  const most = single === undefined ? 8 : 3;
  return showTip([
    ...(single === undefined ? [] : [...singleEventLines(trace, single), '']),
    listed([`${formatBytes(device.held[row])} ${t('in use')}`, `${formatBytes(device.rows.reserved[row])} ${t('reserved')}`]),
    `${formatTime(device.rows.time_ns[row])}${step === undefined ? '' : ` · ${t('step {n}', {n: step.step})}`} · ${t('event {n}', {n: device.rows.event[row]})}`,
    ...near.map(({text}) => text),
    ...layers.slice(0, most).map(({layer, bytes}) => `${formatBytes(bytes)}  ${layerName(layer, choice.by)}`),
    ...(layers.length > most ? [`… ${t('{n} other[s]', {n: layers.length - most})}`] : [])], event);
}
