// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Above a page that `gpumemshim serve` shows: what the programs hold now, as they say it in server-sent events, and the
// page's data, asked for again when there are newer ones.

const STATE_WORDS = {running: 'running', ended: 'has ended', killed: 'was killed', unknown: 'not of this machine'};
const MOST_LIVE_ROWS = 16;

class LiveStrip {
  constructor() {
    this.box = byId('live');
    this.events = '';  // "FROM-UNTIL": whose single events the data are to have
    this.stream = new EventSource(`events${location.search}`);
    this.stream.addEventListener('frame', ({data}) => this.showFrame(JSON.parse(data)));
    document.addEventListener('translated', () => this.showState());
    this.stream.addEventListener('error', () => this.showState());
    this.stream.addEventListener('open', () => this.showState());
  }

  async data() {
    const search = new URLSearchParams(location.search);
    if (this.events !== '') search.set('events', this.events);
    const answer = await fetch(`data?${search}`, {cache: 'no-store'});
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
  }

  // Calls `told` with newer data, one after another.
  follow(told) {
    let asking = false;
    let more = false;
    const ask = async () => {
      if (asking) {
        more = true;
        return;
      }
      asking = true;
      do {
        more = false;
        try {
          told(await this.data());
          this.problem = '';
        } catch (error) {
          this.problem = error.message;
        }
        this.showState();
      } while (more);
      asking = false;
    };
    this.stream.addEventListener('page', ask);
    this.ask = (events) => {
      this.events = events;
      return events === '' ? undefined : ask();
    };
  }

  showFrame(frame) {
    this.frame = frame;
    addWords(frame);
    this.showState();
  }

  showState() {
    this.box.hidden = this.frame === undefined;
    if (this.frame === undefined) return;
    const {processes} = this.frame;
    const lost = this.stream.readyState === EventSource.OPEN ? '' : t('The connection to gpumemshim serve is lost: these numbers are old.');
    const rows = processes.slice(0, MOST_LIVE_ROWS).map(liveRow);
    const left = processes.length - rows.length;
    this.box.replaceChildren(
      ...(lost === '' ? [] : [element('p', {class: 'alarm', role: 'status'}, lost)]),
      ...(this.problem ? [element('p', {class: 'alarm', role: 'status'}, nameElement(t(this.problem)))] : []),
      ...rows, ...(left > 0 ? [element('p', {class: 'aside'}, t('{n} other[s]', {n: left}))] : []));
  }
}

function formatRate(perSecond) {
  return perSecond < 99.95 ? perSecond.toPrecision(3) : formatCount(Math.round(perSecond));
}

function liveRow(process) {
  const {steps, forecast} = process;
  const rank = process.rank === null ? '' : ` rank ${process.rank}`;
  const parts = [`${t(STATE_WORDS[process.state])}${process.pid === null ? '' : `, pid ${process.pid}`}`, formatTime(process.time_ns),
    t('{n} event[s]', {n: process.events})];
  if (process.read < 0.999) parts.push(t('{p} of it read', {p: `${Math.floor(process.read * 100)} %`}));
  if (steps.count > 0) parts.push(t('{n} step[s]', {n: steps.count}) + (steps.steps_per_second === null ? '' : `, ${formatRate(steps.steps_per_second)}/s`));
  if (steps.growth_bytes_per_step > 0) parts.push(t('+{b} a step', {b: formatBytes(Math.round(steps.growth_bytes_per_step))}));
  const bad = [t(process.problem), process.failed_requests > 0 ? t('{n} request[s] failed for want of memory', {n: process.failed_requests}) : '',
    process.losses.total > 0 ? t('{n} event[s] [is|are] missing', {n: process.losses.total}) : ''].filter((text) => text !== '');
  const worried = ['high', 'critical'].includes(forecast.risk);
  return element('div', {class: 'live-row'},
    element('p', {}, element('strong', {}, nameElement(process.program + rank)), ` ${parts.join(' · ')}`, ...bad.flatMap((text) => [' · ', element('span', {class: 'alarm'}, nameElement(text))])),
    ...process.devices.map(liveDevice),
    ...(worried ? [element('p', {class: 'alarm'}, nameElement(t(forecast.sentence)))] : []));
}

// A bar of the GPU: PyTorch's blocks in use, what else PyTorch reserved, other memory of this process, of others.
function liveDevice(device) {
  const {now} = device;
  const mine = now.reserved_bytes + now.other_bytes;
  const used = Math.max(device.device_used_bytes ?? 0, mine);
  const all = Math.max(device.capacity_bytes ?? 0, used, device.peak.total_bytes, 1);
  const part = (name, bytes) => {
    const piece = element('span', {class: `live-part ${name}`});
    piece.style.width = `${Math.max(bytes, 0) / all * 100}%`;
    return piece;
  };
  const words = [`${formatBytes(now.allocated_bytes)} ${t('allocated')}`, `${formatBytes(now.reserved_bytes)} ${t('reserved')}`];
  if (now.other_bytes > 0) words.push(`${formatBytes(now.other_bytes)} CUDA`);
  if (device.device_used_bytes !== null) words.push(`${formatBytes(device.device_used_bytes)} ${t('in use by all')}`);
  for (const {pid, name, used_bytes: bytes} of device.others) words.push(`${name ?? t('a process')} (pid ${pid})${bytes === null ? '' : ` ${formatBytes(bytes)}`}`);
  if (device.capacity_bytes !== null) words.push(`${t('capacity')} ${formatBytes(device.capacity_bytes)}`);
  const bar = element('span', {class: 'live-bar', role: 'img', 'aria-label': words.join(', ')}, part('allocated', now.allocated_bytes),
    part('reserved', now.reserved_bytes - now.allocated_bytes), part('other', now.other_bytes), part('others', used - mine));
  return element('p', {class: 'live-device'}, element('span', {}, `GPU ${device.device}`), bar, element('span', {}, words.join(' · ') + (device.unsure ? ` (${t('not sure')})` : '')));
}
