// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pictures as files: PNG from their canvas, SVG by painting once more on a context that writes it.

function savePicture(page, kind) {
  const pictures = {treemap: byId('treemap'), stacks: byId('stack-canvas'), addresses: byId('map'), runs: byId('overlay')};
  const canvas = pictures[page.choice.tab] ?? byId('timeline');
  const name = `${runName(page.trace).replace(/[^\w.-]+/g, '_')}.${pictures[page.choice.tab] ? page.choice.tab : 'timeline'}.${kind}`;
  if (kind === 'png') return canvas.toBlob((blob) => saveFile(name, blob));
  return saveFile(name, new Blob([svgOf(page, page.choice.tab)], {type: 'image/svg+xml'}));
}

// The picture of a tab, else the timeline, as SVG.
function svgOf(page, tab) {
  const box = {treemap: byId('tab-treemap'), stacks: byId('chart'), addresses: byId('map-box'), runs: byId('overlay')?.parentElement}[tab] ?? byId('timeline-room');
  const [width, height] = [box.clientWidth, box.clientHeight];
  const context = new SvgContext(width, height);
  if (tab === 'treemap') page.treemap.paint(context, width, height);
  else if (tab === 'stacks') page.stacks.paintOn(context, width, height);
  else if (tab === 'addresses') page.map.paint(context, width, height, page.map.box.scrollTop);
  else if (tab === 'runs' && byId('overlay') !== null) page.overlay.paint(context, width, height);
  else page.timeline.painter.paint(context, page.timeline.scene(width, height, page.theme));
  return context.text;
}

function saveFile(name, blob) {
  const link = element('a', {download: name, href: URL.createObjectURL(blob)});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const escapeXml = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// The part of a canvas' context that the pictures here use, written as SVG.
class SvgContext {
  constructor(width, height) {
    Object.assign(this, {width, height, parts: [], hatches: new Map(), points: '', fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, globalAlpha: 1, dash: [],
      textAlign: 'left', font: LABEL_FONT, measuring: document.createElement('canvas').getContext('2d')});
  }

  get size() {
    return Number.parseFloat(this.font);
  }

  hatch(name, ink) {
    const id = `${name}-${ink.slice(1)}`;
    const lines = HATCHES[name].map(([x, y, toX, toY]) => `M${x} ${y}L${toX} ${toY}`).join('');
    this.hatches.set(id, `<pattern id="${id}" width="${HATCH_TILE}" height="${HATCH_TILE}" patternUnits="userSpaceOnUse"><path d="${lines}" stroke="${ink}" stroke-opacity="0.38"/></pattern>`);
    return `url(#${id})`;
  }

  setTransform() {}
  save() {}
  restore() {}
  clip() {}
  setLineDash(dash) { this.dash = dash; }
  beginPath() { this.points = ''; }
  moveTo(x, y) { this.points += `M${round2(x)} ${round2(y)}`; }
  lineTo(x, y) { this.points += `L${round2(x)} ${round2(y)}`; }
  rect(x, y, w, h) { this.points += `M${round2(x)} ${round2(y)}h${round2(w)}v${round2(h)}h${round2(-w)}z`; }
  fill() { if (this.points !== '') this.parts.push(`<path d="${this.points}" fill="${this.fillStyle}"${this.alpha}/>`); }
  stroke() { this.parts.push(`<path d="${this.points}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"${this.dashed}${this.alpha}/>`); }
  fillRect(x, y, w, h) { this.parts.push(`<rect x="${round2(x)}" y="${round2(y)}" width="${round2(w)}" height="${round2(h)}" fill="${this.fillStyle}"${this.alpha}/>`); }
  strokeRect(x, y, w, h) {
    this.parts.push(`<rect x="${round2(x)}" y="${round2(y)}" width="${round2(w)}" height="${round2(h)}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"${this.alpha}/>`);
  }

  fillText(text, x, y) {
    const anchor = {left: 'start', center: 'middle', right: 'end'}[this.textAlign] ?? 'start';
    this.parts.push(`<text x="${round2(x)}" y="${round2(y + this.size * 0.35)}" font-size="${this.size}" text-anchor="${anchor}" fill="${this.fillStyle}"${this.alpha}>${escapeXml(text)}</text>`);
  }

  measureText(text) {
    this.measuring.font = this.font;
    return this.measuring.measureText(text);
  }

  get alpha() { return this.globalAlpha === 1 ? '' : ` opacity="${this.globalAlpha}"`; }
  get dashed() { return this.dash.length === 0 ? '' : ` stroke-dasharray="${this.dash.join(' ')}"`; }

  get text() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" ` +
      `font-family="system-ui, 'DejaVu Sans', sans-serif"><defs>${[...this.hatches.values()].join('')}</defs>${this.parts.join('\n')}</svg>\n`;
  }
}

const round2 = (value) => Math.round(value * 100) / 100;
