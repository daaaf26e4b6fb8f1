// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where the sentences of the verdict lead: each is about something that a view shows, and most about one row of it.

// What of the page's choice shows what a sentence is about. `key`: of the verdict ('problem', 'peak', 'mostly', 'action').
function placeOf(key, text, trace) {
  const {kind} = trace.answers.report.verdict;
  const device = deviceOf(text, trace);
  const peak = {device, event: -1};
  if (trace.devices.length === 0) return null;
  const growing = kind === 'growing' && (key === 'problem' || key === 'action') ? growthOf(text, trace) : null;
  if (growing !== null) return growing;
  if (key === 'peak') return {...peak, tab: 'blocks'};
  const oom = trace.ooms.find((each) => each.final) ?? trace.ooms[0];
  if (key === 'problem' && kind === 'out_of_memory' && oom !== undefined) return momentOf(oom, trace);
  if (key === 'problem' && (kind === 'fragmented' || kind === 'nearly_full')) return {...peak, tab: 'fragmentation'};
  if (key === 'action' && text.startsWith('nothing:') && !text.includes(' would be ')) return {...peak, tab: 'blocks', upTo: 'capacity'};
  return {...peak, tab: 'blocks', ...rowOf(text, trace)};
}

// The place in `devices` of the GPU that a sentence names, else of the one with the most.
function deviceOf(text, trace) {
  const named = /\bGPU (\d+)\b/.exec(text);
  const place = named === null ? -1 : trace.devices.findIndex(({number}) => number === Number(named[1]));
  const peaks = trace.devices.map(({peakBytes}) => peakBytes);
  return place >= 0 ? place : Math.max(peaks.indexOf(Math.max(...peaks)), 0);
}

function growthOf(text, trace) {
  for (const device of trace.answers.leaks.devices) {
    const rows = device.leaks.filter((row) => row.status === 'growing');
    const row = rows.find(({site}) => site && text.includes(site)) ?? rows[0];
    if (row !== undefined) return {tab: 'leaks', row: row.site ?? '', device: Math.max(trace.devices.findIndex(({number}) => number === device.device), 0)};
  }
  return null;
}

function momentOf(oom, trace) {
  const place = Math.max(trace.devices.findIndex(({number}) => number === oom.device), 0);
  const {rows} = trace.devices[place];
  return {tab: 'blocks', device: place, event: rows.event[trace.devices[place].rowAt('time_ns', oom.time_ns)]};
}

// The line that a sentence names, else the category.
function rowOf(text, trace) {
  const longest = (by) => [...new Set(trace.blocks[by])].map((i) => trace.strings[i]).filter((name) => name !== '' && text.includes(name)).sort((a, b) => b.length - a.length)[0];
  for (const group of ['line', 'category']) {
    const row = longest(group);
    if (row !== undefined) return {group, row};
  }
  return {};
}

// A sentence that leads to its place; the link can be copied.
function sentenceElement(key, text, page) {
  const place = placeOf(key, text, page.trace);
  if (place === null) return nameElement(t(text));
  return element('a', {href: `#${addressOf({...page.choice, ...NOWHERE, ...place})}`, onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    page.follow(place);
  }}, nameElement(t(text)));
}
