// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Survivor curves: what was alive at the end, by when it was allocated, a curve for each line of code. A line that leaks
// rises from step to step; a model and its optimizer's state rise once.

const CURVES = {most: 8, height: 190, left: 76, right: 14, bottom: 22, top: 8};

// [{name, bytes, points: [[event, bytes so far]]}], the highest last value first.
function survivors(trace, device) {
  const {blocks, strings} = trace;
  const curves = new Map();
  for (let i = 0; i < blocks.count; ++i) {
    if (blocks.kept[i] !== 1 || blocks.device[i] !== device) continue;
    const name = strings[blocks.line[i]];
    if (!curves.has(name)) curves.set(name, {name, bytes: 0, points: []});
    const curve = curves.get(name);
    curve.bytes += blocks.size[i];
    curve.points.push([blocks.born[i], curve.bytes]);
  }
  return [...curves.values()].sort((a, b) => b.bytes - a.bytes).slice(0, CURVES.most);
}

function paintSurvivors(context, width, height, curves, last, theme) {
  const plot = {x: CURVES.left, y: CURVES.top, width: width - CURVES.left - CURVES.right, height: height - CURVES.top - CURVES.bottom};
  const most = curves[0].bytes * 1.05;
  const yOf = (bytes) => plot.y + plot.height * (1 - bytes / most);
  context.fillStyle = theme.page;
  context.fillRect(0, 0, width, height);
  context.font = LABEL_FONT;
  context.textBaseline = 'middle';
  for (const tick of byteTicks(most, 4)) {
    context.fillStyle = theme.line;
    context.fillRect(plot.x, Math.round(yOf(tick)), plot.width, 1);
    context.fillStyle = theme.aside;
    context.textAlign = 'right';
    context.fillText(formatBytes(tick), plot.x - 7, yOf(tick));
  }
  context.textAlign = 'center';
  for (const tick of ticksOf(0, last, Math.max(Math.floor(plot.width / 120), 1))) {
    context.fillStyle = theme.aside;
    context.fillText(formatCount(tick), Math.max(plot.x + (tick / last) * plot.width, plot.x + 4), plot.y + plot.height + 12);
  }
  curves.forEach(({points, bytes}, place) => {
    context.strokeStyle = palette[place].color;
    context.lineWidth = 2;
    context.setLineDash(lineDash(palette[place]));
    context.beginPath();
    context.moveTo(plot.x, yOf(0));
    let before = 0;
    for (const [event, sum] of points) {
      const x = plot.x + (event / last) * plot.width;
      context.lineTo(x, yOf(before));
      context.lineTo(x, yOf(sum));
      before = sum;
    }
    context.lineTo(plot.x + plot.width, yOf(bytes));
    context.stroke();
    context.setLineDash([]);
  });
}

function survivorsElement(trace, device, theme) {
  const curves = survivors(trace, device);
  if (curves.length === 0) return [];
  const canvas = element('canvas', {role: 'img', 'aria-label': t('survivor curves')});
  const room = element('div', {class: 'curves'}, canvas);
  const paint = () => {
    if (room.clientWidth > 0) paintSurvivors(prepareCanvas(canvas, room.clientWidth, CURVES.height), room.clientWidth, CURVES.height, curves, Math.max(trace.about.events, 1), theme);
  };
  new ResizeObserver(paint).observe(room);
  const legend = element('div', {class: 'row legend'}, ...curves.map(({name, bytes}, place) => {
    return element('span', {class: 'choice'}, swatchElement(palette[place]), nameElement(`${formatBytes(bytes)} ${t(name || 'not known')}`));
  }));
  const partly = trace.blocks.leftOut > 0 ? [element('p', {class: 'aside'}, t('Of the blocks that this page names.'))] : [];
  return [element('h3', {}, t('What is alive at the end, by when it was allocated')), room, legend, ...partly];
}
