// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The tab of fragmentation: what is free inside PyTorch's segments, by stream and pool, and the map of segments at the
// end where the file has one (memory snapshots). It reads the JSON of gpumemshim fragmentation. Of other traces the tab
// of addresses shows where blocks lie, at any moment.

// Letters of a segment's map, each for a fortieth of it, and the class that paints them.
const MAP_CLASSES = {'#': 'used', '~': 'pending', '.': 'free'};

// "########....": as bars of used, pending and free memory. What it says in words is its title.
function segmentMap(row) {
  const said = listed([`${formatBytes(row.allocated_bytes)} ${t('allocated')}`, `${formatBytes(row.pending_bytes)} ${t('pending')}`, `${formatBytes(row.free_bytes)} ${t('free')}`]);
  const runs = row.map.match(/#+|~+|\.+/g) ?? [];
  return element('span', {class: 'segment-map', role: 'img', 'aria-label': said, title: said},
    ...runs.map((run) => {
      const part = element('span', {class: MAP_CLASSES[run[0]]});
      part.style.flexGrow = String(run.length);
      return part;
    }));
}

function streamName(row) {
  return row.stream === 0 ? t('default stream') : `${t('stream')} ${row.stream}`;
}

// Of a snapshot a pool is two numbers; of a recording PyTorch's number of a private pool, 0 for the one of all.
function poolName(row) {
  const pool = Array.isArray(row.pool) ? row.pool.join(', ') : row.pool ?? 0;
  return pool === 0 || pool === '0, 0' ? t('shared pool') : `${t('private pool')} ${pool}`;
}

function pointsTable(fragmentation) {
  const points = [['at_peak', 'peak of reserved'], ['at_end', 'end']].filter(([key]) => fragmentation[key]);
  return tableElement([
    textColumn('time', ([, name]) => t(name)),
    bytesColumn('free', ([key]) => fragmentation[key].free_bytes),
    bytesColumn('largest free range', ([key]) => fragmentation[key].largest_free_range_bytes),
    numberColumn('free ranges', ([key]) => fragmentation[key].free_ranges),
    bytesColumn('returned by empty_cache()', ([key]) => fragmentation[key].empty_cache_bytes),
  ], points, t('not known'));
}

function poolsTable(rows) {
  return tableElement([
    textColumn('stream', streamName),
    textColumn('pool', poolName),
    bytesColumn('reserved', (row) => row.reserved_bytes, {bar: (row) => row.reserved_bytes / Math.max(...rows.map((each) => each.reserved_bytes), 1)}),
    bytesColumn('free', (row) => row.free_bytes),
    bytesColumn('pending', (row) => row.pending_bytes),
    numberColumn('segments', (row) => row.segments),
  ], rows, t('not known'), {sort: 2});
}

function segmentsTable(rows) {
  return tableElement([
    bytesColumn('reserved', (row) => row.reserved_bytes),
    bytesColumn('free', (row) => row.free_bytes),
    numberColumn('blocks', (row) => row.blocks),
    {head: 'what is where', text: segmentMap, value: (row) => row.allocated_bytes + row.pending_bytes},
    textColumn('kind', (row) => t(row.kind)),
    textColumn('stream', streamName),
    textColumn('pool', poolName),
    textColumn('address', (row) => row.address),
  ], rows, t('not known'), {sort: 0});
}

function fragmentationTab(trace) {
  return trace.answers.fragmentation.devices.map((device) => {
    const {fragmentation} = device;
    const [caches, pools, segments] = [fragmentation.caches_at_peak ?? [], device.pools_at_end ?? [], device.segments_at_end ?? []];
    return sectionElement(`GPU ${device.device}`, pointsTable(fragmentation),
      ...(caches.length > 1 ? [element('h4', {}, t('By stream and pool, at the peak of reserved')), poolsTable(caches)] : []),
      ...(pools.length > 0 ? [element('h4', {}, t('By stream and pool, at the end')), poolsTable(pools)] : []),
      ...(segments.length > 0 ? [
        element('h4', {}, t('Segments at the end')),
        element('p', {class: 'aside legend-map'}, ...Object.entries({used: 'in use', pending: 'freed, but in use by another stream', free: 'free'})
          .flatMap(([kind, words]) => [element('span', {class: `segment-map ${kind}`}, element('span', {class: kind})), element('span', {}, t(words))])),
        segmentsTable(segments),
      ] : [element('p', {class: 'aside'}, t('Where blocks lie in their segments, at any moment, is in the tab of addresses.'))]));
  });
}
