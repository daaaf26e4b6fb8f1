// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The page's words in the reader's language. Texts are in English, here and in the data; the data brings a table of what
// another language has for them (page_words.h). A text of the page is a literal in single quotes on one line, or stands
// between two tags, or is an attribute: so it is found. Names from the trace and numbers stay as they are.

const LANGUAGES = ['en', 'zh'];
const FIRST_LANGUAGE = document.documentElement.lang;  // as the program that made the page was asked
let language = FIRST_LANGUAGE;
let words = {};  // language -> Map of English to it

function takeWords(data) {
  words = Object.fromEntries(Object.entries(data.words ?? {}).map(([each, table]) => [each, new Map(Object.entries(table))]));
}

// Of what was worded since.
function addWords(data) {
  for (const [each, table] of Object.entries(data.words ?? {})) words[each] = new Map([...(words[each] ?? []), ...Object.entries(table)]);
}

// Of "{n} block[s]" with {n: 3}: "3 blocks". [s] and [was|were] go by n.
function t(text, holes) {
  const said = words[language]?.get(text) ?? text;
  if (holes === undefined) return said;
  const chosen = said.replace(/\[([^\]|]*)(\|[^\]]*)?\]/g, (_, first, second) => (second === undefined ? (holes.n === 1 ? '' : first) : holes.n === 1 ? first : second.slice(1)));
  return chosen.split(/(\{\w+\})/).reduce((all, part) => joined(all, part.startsWith('{') ? shownHole(holes[part.slice(1, -1)]) : part), '');
}

function shownHole(value) {
  return typeof value === 'number' ? formatCount(value) : String(value);
}

// A blank between Chinese and Latin writing: what fills a hole may be of either.
const HAN = /[\u3400-\u9fff]/;
function joined(before, after) {
  const [last, first] = [before.slice(-1), after.slice(0, 1)];
  const apart = (HAN.test(last) && /[!-~]/.test(first)) || (/[!-~]/.test(last) && HAN.test(first));
  return before + (apart ? ' ' : '') + after;
}

// "1 GiB allocated, 12 blocks": parts of a sentence that are worded each by itself.
function listed(parts) {
  return parts.filter((part) => part !== '').join(language === 'zh' ? '，' : ', ');
}

// What the page's own markup says, as it was at first: texts and the attributes that are read out or shown.
const MARKUP = [];

function takeMarkup() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) =>
    (node.data.trim() === '' || node.parentElement.closest('script, style, noscript') ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const [, before, text, after] = /^(\s*)(.*?)(\s*)$/s.exec(node.data);
    MARKUP.push(() => { node.data = before + t(text) + after; });
  }
  for (const name of ['title', 'aria-label', 'placeholder']) {
    for (const each of document.querySelectorAll(`[${name}]`)) {
      const text = each.getAttribute(name);
      MARKUP.push(() => each.setAttribute(name, t(text)));
    }
  }
}
takeMarkup();

function translateMarkup() {
  document.documentElement.lang = language;
  for (const translate of MARKUP) translate();
}
