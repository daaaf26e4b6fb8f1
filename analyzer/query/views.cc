// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/views.h"

#include "absl/strings/str_cat.h"
#include "query/database.h"
#include "query/schema.h"

namespace gpumem {
namespace {

// The table of every trace, each row with its trace and rank.
std::string UnionOf(const TableSchema& table, const std::vector<AttachedTrace>& traces) {
  std::string sql = absl::StrCat("CREATE VIEW ", table.name, " AS ");
  for (size_t i = 0; i < traces.size(); ++i) {
    absl::StrAppend(&sql, i == 0 ? "" : " UNION ALL ", "SELECT *, ", i, " AS trace, ", TagColumns(traces[i]), " FROM ",
                    IsOfEvents(table) ? traces[i].events_schema : traces[i].schema, ".", table.name);
  }
  return sql;
}

constexpr char kMarks[] = R"(CREATE VIEW marks AS
SELECT event, time_ns, kind, text, thread, handle AS number, step, trace, rank, _rank, _host, _role
FROM events
WHERE kind IN ('mark', 'range_push', 'range_pop', 'range_start', 'range_end', 'step', 'tag', 'recording_start',
               'recording_stop'))";

constexpr char kTorchTrace[] = R"(CREATE VIEW python.torch_trace AS
SELECT step, step AS local_step, step AS global_step, rank, NULL::INTEGER AS world_size, '' AS role, event AS seq,
       module, stage, allocated / 1048576.0 AS allocated, allocated_max / 1048576.0 AS max_allocated,
       reserved / 1048576.0 AS cached, reserved_max / 1048576.0 AS max_cached,
       CASE kind WHEN 'alloc' THEN size ELSE -size END / 1048576.0 AS allocated_delta,
       time_ns / 1e9 AS time_offset, duration_ns / 1e9 AS duration
FROM events WHERE layer = 'torch' AND kind IN ('alloc', 'free'))";

constexpr char kDeviceTraces[] = R"(CREATE VIEW device_traces AS
WITH origin AS (SELECT trace, coalesce(start_unix_ns, 0) AS ns FROM processes)
SELECT device, action, addr, size, stream, (time_ns + ns) // 1000 AS time_us, event, stack, trace, rank FROM (
  SELECT device, CASE kind WHEN 'alloc' THEN 'alloc' WHEN 'free' THEN 'free_completed' ELSE 'oom' END AS action,
         address AS addr, CASE WHEN kind = 'free' THEN size ELSE coalesce(requested, size) END AS size, stream, time_ns,
         event, stack, trace, rank
  FROM events WHERE layer = 'torch' AND kind IN ('alloc', 'free', 'alloc_failed')
  UNION ALL SELECT device, 'segment_alloc', address, size, 0, born_ns, born_event, stack, trace, rank FROM segments
  UNION ALL SELECT device, 'segment_free', address, size, 0, died_ns, died_event, NULL, trace, rank FROM segments
            WHERE died_event IS NOT NULL)
JOIN origin USING (trace))";

constexpr char kNsight[] = R"(CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS
SELECT time_ns AS start, pid * 16777216 AS globalPid, coalesce(e.device, 0) AS deviceId, 0 AS contextId, address,
       NULL::UBIGINT AS pc, size AS bytes,
       CASE memory WHEN 'host_pinned' THEN 1 WHEN 'array' THEN 3 WHEN 'managed' THEN 4 ELSE 2 END AS memKind,
       CASE kind WHEN 'alloc' THEN 0 ELSE 1 END AS memoryOperationType, NULL::VARCHAR AS name, event AS correlationId,
       stream AS streamId, NULL::UBIGINT AS localMemoryPoolAddress, NULL::BIGINT AS localMemoryPoolReleaseThreshold,
       NULL::BIGINT AS localMemoryPoolSize, NULL::BIGINT AS localMemoryPoolUtilizedSize,
       NULL::UBIGINT AS importedMemoryPoolAddress, NULL::BIGINT AS importedMemoryPoolProcessId, e.trace, e.rank
FROM events e JOIN processes p ON e.trace = p.trace
WHERE layer IN ('runtime', 'driver') AND kind IN ('alloc', 'free'))";

// As base/format.h's FormatBytes.
constexpr char kHuman[] = R"(CREATE MACRO human(bytes) AS CASE
  WHEN bytes IS NULL THEN NULL
  WHEN abs(bytes) < 1024 THEN format('{} B', bytes::BIGINT)
  WHEN abs(bytes) < 1023.995 * 1024 THEN human_in(bytes, 1024.0, 'KiB')
  WHEN abs(bytes) < 1023.995 * 1048576 THEN human_in(bytes, 1048576.0, 'MiB')
  WHEN abs(bytes) < 1023.995 * 1073741824 THEN human_in(bytes, 1073741824.0, 'GiB')
  ELSE human_in(bytes, 1099511627776.0, 'TiB') END)";

constexpr char kHumanIn[] = R"(CREATE MACRO human_in(bytes, unit, name) AS CASE
  WHEN bytes::DOUBLE % unit::DOUBLE = 0 THEN format('{:.0f} {}', bytes / unit::DOUBLE, name)
  WHEN abs(bytes / unit::DOUBLE) < 99.995 THEN format('{:.2f} {}', bytes / unit::DOUBLE, name)
  ELSE format('{:.1f} {}', bytes / unit::DOUBLE, name) END)";

// A time as the command line takes it: seconds, or with a unit; a whole number is nanoseconds, as in all columns.
// NULL where it is not a time.
constexpr char kTimeNs[] = R"(CREATE MACRO parse_time_ns(t) AS CASE
  WHEN typeof(t) IN ('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'UBIGINT', 'HUGEINT') THEN t::VARCHAR::BIGINT
  WHEN regexp_full_match(t::VARCHAR, '[0-9.]+(e[0-9]+)?(ns|us|ms|s|m|min|h)?') THEN
    (regexp_extract(t::VARCHAR, '^[0-9.]+(e[0-9]+)?')::DOUBLE *
     CASE regexp_extract(t::VARCHAR, '[a-df-z]+$') WHEN 'ns' THEN 1 WHEN 'us' THEN 1e3 WHEN 'ms' THEN 1e6
          WHEN 'm' THEN 6e10 WHEN 'min' THEN 6e10 WHEN 'h' THEN 3.6e12 ELSE 1e9 END)::BIGINT END)";

// The event behind which a moment lies, in each trace.
constexpr char kMomentAt[] = R"(CREATE MACRO moment_at(t) AS TABLE
SELECT p.trace, CASE
    WHEN t::VARCHAR = 'peak' THEN p.peak_event
    WHEN t::VARCHAR = 'end' THEN p.end_event
    WHEN regexp_full_match(t::VARCHAR, 'step[ :][0-9]+') THEN
      (SELECT max(peak_event) FROM steps s
       WHERE s.trace = p.trace AND s.step = try_cast(regexp_extract(t::VARCHAR, '[0-9]+') AS BIGINT))
    ELSE )";
constexpr char kMomentOfEvents[] = R"(CASE WHEN parse_time_ns(t) IS NOT NULL THEN
      (SELECT max(event) FROM events e WHERE e.trace = p.trace AND e.time_ns <= parse_time_ns(t))
    ELSE (SELECT min(event) FROM events e WHERE e.trace = p.trace AND e.kind = 'mark' AND e.text = t::VARCHAR) END)";
constexpr char kMomentNotRead[] = "error('the events of this moment are not read')";
constexpr char kMomentFrom[] = " END AS event FROM processes p";

constexpr char kLiveAt[] = R"(CREATE MACRO live_at(t) AS TABLE
SELECT b.* FROM blocks b JOIN moment_at(t) m ON b.trace = m.trace
WHERE b.born_event <= m.event AND (b.died_event IS NULL OR b.died_event > m.event))";

}  // namespace

std::string TagColumns(const AttachedTrace& trace) {
  const std::string rank = trace.rank < 0 ? "NULL::INTEGER" : absl::StrCat(trace.rank);
  const auto text = [](const std::string& value) { return value.empty() ? "NULL::VARCHAR" : SqlQuoted(value); };
  return absl::StrCat(rank, " AS rank, ", rank, " AS _rank, ", text(trace.host), " AS _host, ", text(trace.role),
                      " AS _role");
}

std::vector<std::string> ViewStatements(const std::vector<AttachedTrace>& traces) {
  std::vector<std::string> statements;
  const bool has_events = !traces.front().events_schema.empty();
  for (const TableSchema* const table : AllTables()) {
    if (has_events || !IsOfEvents(*table)) statements.push_back(UnionOf(*table, traces));
  }
  statements.emplace_back("CREATE SCHEMA python");
  if (has_events) statements.insert(statements.end(), {kMarks, kTorchTrace, kDeviceTraces, kNsight});
  statements.insert(statements.end(), {kHumanIn, kHuman, kTimeNs});
  statements.push_back(absl::StrCat(kMomentAt, has_events ? kMomentOfEvents : kMomentNotRead, kMomentFrom));
  statements.emplace_back(kLiveAt);
  return statements;
}

const std::vector<ViewInfo>& Views() {
  static const std::vector<ViewInfo> views = {
      {"marks", "what the program said about itself: marks, stages, steps; events with their text"},
      {"python.torch_trace",
       "as Probing has it: a row an allocation or free of PyTorch; MB are 1,048,576 bytes, as doubles"},
      {"device_traces", "as in PyTorch's snapshots: alloc, free_completed, segment_alloc, segment_free, oom"},
      {"CUDA_GPU_MEMORY_USAGE_EVENTS", "as Nsight Systems exports it: a row an allocation or free of CUDA"}};
  return views;
}

const std::vector<ViewInfo>& Functions() {
  static const std::vector<ViewInfo> functions = {
      {"live_at(moment)",
       "the rows of blocks that are alive at a moment: 'peak', 'end', 'step 12', a mark's text, a time ('1.5s'; a "
       "whole "
       "number is nanoseconds)"},
      {"moment_at(moment)", "the event behind which a moment lies, in each trace"},
      {"human(bytes)", "bytes in binary units: '1.50 GiB'"}};
  return functions;
}

}  // namespace gpumem
