// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The call stacks of what was alive at a moment: the flame page's own picture over the blocks of this page.

class StackChart {
  constructor(elements, told) {
    this.elements = elements;  // {chart, room, canvas, path}
    this.told = told;          // {hovered(lines, event)}
  }

  show(moment, query, themeName) {
    const {trace} = moment;
    if (this.trace !== trace) this.open(trace);
    this.search.set(query);
    this.painter.setTheme(themeName);
    this.chart.show(layTree(this.grow(moment), 'bytes'), true);
  }

  open(trace) {
    this.trace = trace;
    this.search = new Search(trace.frames);
    if (this.painter === undefined) {
      this.painter = new Painter(this.elements.canvas, trace.frames);
      this.chart = new Chart(this.elements, this.painter, this.search, {
        zoomed: () => this.zoomed(),
        focused: () => {},
        sizeText: (node) => formatBytes(this.chart.tree.bytes[node]),
        hovered: (box, event) => this.hovered(box, event),
      });
    }
    this.painter.frames = trace.frames;
    this.chart.search = this.search;
  }

  grow({trace, list, rest, matches}) {
    const builder = new TreeBuilder();
    const {frames} = trace;
    const hidden = (frame) => KINDS[frames.kindOf(frame)].hidden;
    const leaves = new Map();
    for (const i of list) {
      if (!matches(i)) continue;
      const stack = trace.blocks.stack[i];
      if (!leaves.has(stack)) {
        let node = 0;
        for (const frame of trace.stacks[stack]) if (!hidden(frame)) node = builder.child(node, frame);
        leaves.set(stack, node);
      }
      builder.add(leaves.get(stack), trace.blocks.size[i], 1);
    }
    if (rest > 0) builder.add(builder.child(0, frames.group(t('smaller blocks, in sums only'))), rest, 0);
    return builder;
  }

  zoomed() {
    const {tree, zoom} = this.chart;
    const nodes = [];
    for (let node = zoom; node >= 0; node = tree.parent[node]) nodes.unshift(node);
    this.elements.path.replaceChildren(...nodes.flatMap((node, i) => [
      ...(i === 0 ? [] : [element('span', {class: 'between', 'aria-hidden': 'true'}, '›')]),
      element('button', {type: 'button', ...(node === zoom ? {'aria-current': 'location'} : {}), onclick: () => this.chart.zoomTo(node)},
        nameElement(node === 0 ? t('all') : this.trace.frames.name(tree.frame[node])))]));
  }

  hovered(box, event) {
    if (box === undefined || box.node < 0) return this.told.hovered(null);
    const {tree} = this.chart;
    const frame = tree.frame[box.node];
    const {frames} = this.trace;
    return this.told.hovered([
      box.node === 0 ? t('all') : frames.name(frame),
      `${formatBytes(tree.bytes[box.node])} · ${formatPercent(tree.bytes[box.node], tree.bytes[0])} · ${t('{n} block[s]', {n: tree.blocks[box.node]})}`,
      ...frames.details(frame).map(([, text]) => text),
    ], event);
  }

  paintOn(context, width, height) {
    const canvas = this.painter.canvas;
    this.painter.canvas = {style: {}, width: 0, height: 0, getContext: () => context};
    this.chart.paint(width, Math.min(this.chart.rows * ROW, height), 0);
    this.painter.canvas = canvas;
    this.chart.repaint();
  }
}
