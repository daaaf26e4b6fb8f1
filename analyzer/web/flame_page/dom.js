// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Elements, made without markup: names come from the trace and are only ever set as text.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') made.className = value;
    else if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);

// A name apart from what stands around it, whatever direction it is written in.
function nameElement(text) {
  return element('bdi', {}, text);
}
