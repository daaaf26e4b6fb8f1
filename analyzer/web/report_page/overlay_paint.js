// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Paints two runs on one axis on a context: a canvas', or one that writes SVG.

class OverlayPainter {
  constructor(overlay, context, width, height) {
    Object.assign(this, {overlay, context, width, height, theme: overlay.told.theme()});
    this.plot = {x: OVERLAY.left, y: OVERLAY.top, width: Math.max(width - OVERLAY.left - OVERLAY.right, 1), height: height - OVERLAY.top - OVERLAY.bottom};
    this.curves = overlay.runs.map((run) => run.columns(overlay.from, overlay.to, Math.ceil(this.plot.width)));
    this.top = Math.max(...overlay.runs.map(({device}) => device.mostHeld)) * 1.06;
  }

  paint() {
    const {context, theme} = this;
    context.fillStyle = theme.page;
    context.fillRect(0, 0, this.width, this.height);
    context.font = LABEL_FONT;
    context.textBaseline = 'middle';
    this.paintAxes();
    this.paintGap();
    this.curves.forEach((curve, i) => this.paintCurve(curve, this.overlay.runs[i].fill));
    this.paintPeaks();
    const x = this.xOf(this.overlay.choice.at);
    if (x < this.plot.x - 1 || x > this.plot.x + this.plot.width + 1) return;
    context.fillStyle = theme.accent;
    context.fillRect(Math.round(x) - 1, this.plot.y - 4, 2, this.plot.height + 4);
  }

  xOf(place) {
    const {from, to} = this.overlay;
    return this.plot.x + (place - from) / (to - from) * this.plot.width;
  }

  yOf(bytes) {
    return this.plot.y + this.plot.height * (1 - bytes / this.top);
  }

  paintAxes() {
    const {context, plot, theme, overlay} = this;
    context.textAlign = 'right';
    for (const tick of byteTicks(this.top, 5)) {
      context.fillStyle = theme.line;
      context.fillRect(plot.x, Math.round(this.yOf(tick)), plot.width, 1);
      context.fillStyle = theme.aside;
      context.fillText(formatBytes(tick), plot.x - 7, this.yOf(tick));
    }
    const {axis} = overlay.choice;
    const ticks = ticksOf(overlay.from, overlay.to, Math.max(Math.floor(plot.width / 110), 1)).filter((tick) => axis !== 'step' || Number.isInteger(tick));
    const first = axis === 'step' ? Math.min(...overlay.runs.map(({trace}) => trace.steps[0].step)) : 0;
    const last = axis === 'step' ? Math.max(...overlay.runs.map(({trace}) => trace.steps.at(-1).step)) : 0;
    context.textAlign = 'center';
    for (const tick of ticks) {
      if (axis === 'step' && (tick < first || tick > last)) continue;
      const text = axis === 'step' ? `${t('step')} ${formatCount(tick)}` : axis === 'time' ? formatTime(tick, ticks.length > 1 ? ticks[1] - ticks[0] : overlay.to - overlay.from) : formatCount(Math.round(tick));
      const half = context.measureText(text).width / 2;
      context.fillStyle = theme.strong;
      context.fillRect(Math.round(this.xOf(tick)), plot.y + plot.height, 1, 4);
      context.fillStyle = theme.aside;
      context.fillText(text, Math.min(Math.max(this.xOf(tick), plot.x + half - 20), plot.x + plot.width - half + 10), plot.y + plot.height + 12);
    }
  }

  // Where both runs are, in the colour of the higher one.
  paintGap() {
    const {context, plot} = this;
    const [a, b] = this.curves;
    this.overlay.runs.forEach((run, i) => {
      context.beginPath();
      for (let column = 0; column < a.length; ++column) {
        if (a[column] === null || b[column] === null || (b[column] > a[column]) !== (i === 1) || a[column] === b[column]) continue;
        const top = this.yOf(Math.max(a[column], b[column]));
        context.rect(plot.x + column, top, 1, this.yOf(Math.min(a[column], b[column])) - top);
      }
      context.globalAlpha = 0.28;
      context.fillStyle = run.fill.color;
      context.fill();
      context.globalAlpha = 1;
    });
  }

  paintCurve(curve, fill) {
    const {context, plot} = this;
    context.strokeStyle = fill.color;
    context.lineWidth = 1.8;
    context.setLineDash(lineDash(fill));
    context.beginPath();
    let isOpen = false;
    curve.forEach((bytes, column) => {
      if (bytes === null) {
        isOpen = false;
        return;
      }
      const y = this.yOf(bytes);
      isOpen ? context.lineTo(plot.x + column, y) : context.moveTo(plot.x + column, y);
      context.lineTo(plot.x + column + 1, y);
      isOpen = true;
    });
    context.stroke();
    context.setLineDash([]);
  }

  // A triangle on each peak, with the run's name where it does not cover the other's.
  paintPeaks() {
    const {context, plot, theme} = this;
    const taken = [];
    for (const run of this.overlay.runs) {
      const x = this.xOf(run.peak), y = this.yOf(run.device.held[rowOfPeak(run.device)]);
      if (x < plot.x || x > plot.x + plot.width) continue;
      context.fillStyle = theme.text;
      context.beginPath();
      context.moveTo(x - 4, y - 9);
      context.lineTo(x + 4, y - 9);
      context.lineTo(x, y - 2);
      context.fill();
      const text = `${run.name} ${formatBytes(run.device.peakBytes)}`;
      const width = context.measureText(text).width;
      const left = x + 8 + width > plot.x + plot.width ? x - 8 - width : x + 8;
      const place = {left, right: left + width, y: Math.max(y - 7, 7)};
      if (taken.some((other) => other.left < place.right && place.left < other.right && Math.abs(other.y - place.y) < 13)) place.y += place.y < this.height / 2 ? 14 : -14;
      taken.push(place);
      context.textAlign = 'left';
      context.fillStyle = theme.page;
      context.globalAlpha = 0.75;
      context.fillRect(left - 2, place.y - 7, width + 4, 14);
      context.globalAlpha = 1;
      context.fillStyle = theme.text;
      context.fillText(text, left, place.y);
    }
  }
}
