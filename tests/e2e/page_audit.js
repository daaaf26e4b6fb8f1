// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What is wrong with a page as it stands, found in the browser: words that a program says by mistake, views without a picture or a sentence, text that
// is cut off without a title, text that cannot be read on its ground (WCAG 2.2 level AA). page_views_test.py evaluates it once, then calls
// pageAudit() in each view: a list of sentences, empty where nothing is wrong.

window.pageAudit = (() => {
  const MISTAKES = /\bNaN\b|\bundefined\b|\bnull\b|\bInfinity\b|\[object /;
  const drawn = new Map();  // what is wrong in pictures since the last audit -> [lowest contrast, text]
  const scratch = document.createElement('canvas').getContext('2d', {willReadFrequently: true});

  // [r, g, b, alpha] of any colour that CSS can name.
  const colors = new Map();
  function rgba(color) {
    if (!colors.has(color)) {
      scratch.clearRect(0, 0, 1, 1);
      scratch.fillStyle = '#000';
      scratch.fillStyle = color;
      scratch.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = scratch.getImageData(0, 0, 1, 1).data;
      colors.set(color, [r, g, b, a / 255]);
    }
    return colors.get(color);
  }

  const over = (top, ground, alpha = top[3]) => [0, 1, 2].map((i) => top[i] * alpha + ground[i] * (1 - alpha));
  const luminance = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => {
    const value = color[i] / 255;
    return sum + share * (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  }, 0);
  function contrast(a, b) {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  }

  function groundOf(element) {
    const layers = [];
    for (let each = element; each !== null; each = each.parentElement) {
      const color = rgba(getComputedStyle(each).backgroundColor);
      layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reduceRight((ground, color) => over(color, ground), [255, 255, 255]);
  }

  function opacityOf(element) {
    let opacity = 1;
    for (let each = element; each !== null; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
    return opacity;
  }

  function hasTitle(element) {
    return element.closest('[title]') !== null;
  }

  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
    if (MISTAKES.test(text)) drawn.set(`drawn on ${this.canvas.id}: a mistake`, [0, text]);
    const place = this.getTransform();
    const wide = this.measureText(text).width;
    const left = x - {center: wide / 2, right: wide}[this.textAlign] || x;
    const ink = rgba(this.fillStyle);
    for (const at of [left + 1, left + wide - 1]) {
      const [px, py] = [Math.round(at * place.a), Math.round(y * place.d)];
      if (px < 0 || py < 0 || px >= this.canvas.width || py >= this.canvas.height) continue;
      const ground = this.getImageData(px, py, 1, 1).data;
      const ratio = contrast(over(ink, ground, ink[3] * this.globalAlpha), ground);
      const what = `drawn on ${this.canvas.id}: contrast of ${this.fillStyle}`;
      if (ratio < Math.min(4.5, drawn.get(what)?.[0] ?? 4.5)) drawn.set(what, [ratio, `${text}" on rgb(${[...ground].slice(0, 3)})`]);
    }
    return fillText.call(this, text, x, y, ...more);
  };

  function auditText(node, found) {
    const text = node.textContent.trim();
    const {parentElement: element} = node;
    if (text === '' || !element.checkVisibility() || element.closest('script, style, .unseen, option') !== null) return;
    if (MISTAKES.test(text)) found.add(`"${text.slice(0, 100)}" in ${element.closest('[id]')?.id}`);
    const style = getComputedStyle(element);
    const size = Number.parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const ground = groundOf(element);
    const ink = rgba(style.color);
    const ratio = contrast(over(ink, ground, ink[3] * opacityOf(element)), ground);
    if (ratio < wanted) found.add(`contrast ${ratio.toFixed(2)} of "${text.slice(0, 60)}" in ${element.closest('[id]')?.id}`);
  }

  function auditCuts(found) {
    for (const element of document.querySelectorAll('body *')) {
      if (!element.checkVisibility() || element.closest('.unseen, svg, dialog:not([open])') !== null || element.innerText?.trim() === '') continue;
      const style = getComputedStyle(element);
      const clips = ['hidden', 'clip'].includes(style.overflowX) || style.textOverflow === 'ellipsis';
      const clamps = style.webkitLineClamp !== 'none';
      const cut = (clips && element.scrollWidth > element.clientWidth + 1) || (clamps && element.scrollHeight > element.clientHeight + 1);
      if (cut && !hasTitle(element)) found.add(`cut without a title: "${element.innerText.slice(0, 60)}" in ${element.closest('[id]')?.id}`);
    }
  }

  function isPainted(canvas) {
    const {width, height} = canvas;
    if (width === 0 || height === 0) return false;
    const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, width, height).data.buffer);
    return pixels.some((pixel) => pixel !== pixels[0]);
  }

  function auditViews(found) {
    for (const view of document.querySelectorAll('section.tab')) {
      if (!view.checkVisibility()) continue;
      const painted = [...view.querySelectorAll('canvas')].some(isPainted);
      if (!painted && view.querySelector('tbody tr') === null && !/[.。]$/m.test(view.innerText.trim())) found.add(`${view.id} is empty and says nothing: "${view.innerText.slice(0, 60)}"`);
    }
    for (const box of document.querySelectorAll('section section, #tab-text > section')) {
      if (box.checkVisibility() && box.children.length < 2) found.add(`a heading without anything below it: "${box.innerText}"`);
    }
  }

  return () => {
    const found = new Set([...drawn].map(([what, [ratio, text]]) => `${what}: ${ratio.toFixed(2)}, "${text}`));
    drawn.clear();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) auditText(walker.currentNode, found);
    auditCuts(found);
    auditViews(found);
    return [...found];
  };
})();
