// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/nsys_report.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/nsys_tables.h"
#include "import/sqlite_file.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

bool IsOnDevice(int64_t kind) {
  return kind != kNsysPageable && kind != kNsysPinned && kind != kNsysManaged && kind != kNsysManagedStatic;
}

class NsysImport {
 public:
  NsysImport(NsysTables tables, TraceWriter::Sink sink);

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  // Where a range begins or ends.
  struct Edge {
    int64_t time;
    size_t range;
    bool begins;
  };

  std::vector<std::string> Notes() const;
  absl::Status WriteEvents();
  EventRow RowOf(const NsysEvent& event);
  absl::Status WriteRanges(int64_t until);
  uint32_t ThreadOf(uint32_t tid);

  NsysTables tables_;
  TraceWriter writer_;
  std::vector<Edge> edges_;  // by time
  size_t next_edge_ = 0;
  absl::flat_hash_map<uint32_t, uint32_t> threads_;
  absl::flat_hash_map<int64_t, uint64_t> stacks_;  // of calls, by correlation
  uint64_t unknown_frees_ = 0;
};

NsysImport::NsysImport(NsysTables tables, TraceWriter::Sink sink)
    : tables_(std::move(tables)), writer_(std::move(sink)) {
  for (size_t i = 0; i < tables_.ranges.size(); ++i) {
    edges_.push_back({tables_.ranges[i].start, i, true});
    edges_.push_back({tables_.ranges[i].end, i, false});
  }
  std::stable_sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.time < b.time; });
}

std::vector<std::string> NsysImport::Notes() const {
  std::vector<std::string> notes = {
      "Nsight Systems records CUDA memory: PyTorch's blocks inside of it, requests that failed, the CUDA context and "
      "what other programs hold are in no number."};
  if (tables_.peaks.size() > 1) {
    std::string others;
    for (const auto& [process, peak] : tables_.peaks) {
      if (process == tables_.pid) continue;
      const auto name = tables_.processes.find(process);
      absl::StrAppend(&others, others.empty() ? "" : ", ", PidOf(process),
                      name == tables_.processes.end() ? "" : absl::StrCat(" (", name->second, ")"), " ",
                      FormatBytes(peak));
    }
    notes.push_back(absl::StrCat("The report is of ", tables_.peaks.size(), " processes that used GPU memory. This is ",
                                 PidOf(tables_.pid), ", which held most. Left out, with their peaks: ", others, "."));
  }
  if (unknown_frees_ != 0)
    notes.push_back(absl::StrCat(FormatCountOf(unknown_frees_, "free is", "frees are"),
                                 " of memory from before the report: what was allocated then is in no number."));
  if (tables_.calls.empty()) {
    notes.push_back(
        "The report has no calls of CUDA's API, so no threads and names: add --trace=cuda to nsys profile.");
  } else if (tables_.chains.empty()) {
    notes.push_back(
        "The report has no stacks of these calls: add --cudabacktrace=memory to nsys profile to see who allocates.");
  }
  if (tables_.pageable != 0)
    notes.push_back(absl::StrCat(FormatCountOf(tables_.pageable, "event", "events"), " of pageable host memory ",
                                 tables_.pageable == 1 ? "was" : "were", " left out."));
  return notes;
}

uint32_t NsysImport::ThreadOf(uint32_t tid) {
  const auto [it, is_new] = threads_.try_emplace(tid, 0);
  if (is_new) it->second = writer_.definitions().Thread(tid);
  return it->second;
}

EventRow NsysImport::RowOf(const NsysEvent& event) {
  EventRow row;
  row.kind = event.allocates ? trace::ALLOC : trace::FREE;
  row.layer = trace::RUNTIME;
  row.time_ns = static_cast<uint64_t>(event.start) + kMadeTimeNs;  // 0 is "not known"
  row.address = event.address;
  row.size = event.bytes;
  row.device = IsOnDevice(event.kind) ? static_cast<int>(event.device) : -1;
  row.memory = event.kind == kNsysPinned                                        ? trace::HOST_PINNED
               : event.kind == kNsysManaged || event.kind == kNsysManagedStatic ? trace::MANAGED
               : event.pool != 0                                                ? trace::STREAM_ORDERED
                                                                                : trace::DEVICE;
  row.handle = row.memory == trace::STREAM_ORDERED ? event.pool : 0;
  row.stream = row.memory == trace::STREAM_ORDERED ? static_cast<uint64_t>(event.stream) : 0;
  DefinitionBuilder& definitions = writer_.definitions();
  const auto call = tables_.calls.find(event.correlation);
  if (call == tables_.calls.end()) {
    const bool is_static = event.kind == kNsysDeviceStatic || event.kind == kNsysManagedStatic;
    row.api = definitions.String(is_static ? "static memory of a module" : event.allocates ? "allocation" : "free");
    return row;
  }
  row.thread = ThreadOf(call->second.tid);
  absl::string_view name = tables_.Text(call->second.name);
  row.api = definitions.String(name.substr(0, name.rfind("_v")));  // "cudaMalloc_v3020"
  const auto chain = tables_.chains.find(call->second.chain);
  if (chain == tables_.chains.end()) return row;
  const auto [stack, is_new] = stacks_.try_emplace(event.correlation, 0);
  if (is_new) {
    for (auto frame = chain->second.rbegin(); frame != chain->second.rend(); ++frame)
      stack->second = definitions.Stack(stack->second, definitions.NativeFrame(tables_.Text(std::get<2>(*frame)),
                                                                               tables_.Text(std::get<1>(*frame)), 0));
  }
  row.stack = stack->second;
  return row;
}

// The ends and beginnings of ranges until then.
absl::Status NsysImport::WriteRanges(int64_t until) {
  for (; next_edge_ < edges_.size() && edges_[next_edge_].time <= until; ++next_edge_) {
    const Edge& edge = edges_[next_edge_];
    const NsysRange& range = tables_.ranges[edge.range];
    EventRow row;
    row.time_ns = static_cast<uint64_t>(edge.time) + kMadeTimeNs;
    row.kind = edge.begins ? trace::RANGE_START : trace::RANGE_END;
    row.handle = edge.range + 1;
    row.device = -1;
    row.text =
        writer_.definitions().String(range.text.empty() ? tables_.Text(range.text_id) : absl::string_view(range.text));
    GPUMEM_RETURN_IF_ERROR(writer_.Add(row));
  }
  return absl::OkStatus();
}

absl::Status NsysImport::WriteEvents() {
  for (const NsysEvent& event : tables_.events) {
    GPUMEM_RETURN_IF_ERROR(WriteRanges(event.start));
    GPUMEM_RETURN_IF_ERROR(writer_.Add(RowOf(event)));
  }
  return WriteRanges(INT64_MAX);
}

absl::StatusOr<ImportResult> NsysImport::Run(const std::string& path) {
  std::set<int64_t> devices;
  absl::flat_hash_set<uint64_t> seen;
  for (const NsysEvent& event : tables_.events) {
    if (IsOnDevice(event.kind)) devices.insert(event.device);
    unknown_frees_ += seen.insert(event.address).second && !event.allocates ? 1 : 0;
  }
  ImportResult result;
  result.format = "Nsight Systems report";
  result.devices = static_cast<uint32_t>(devices.size());
  result.covers = tables_.events.empty() ? "nothing" : unknown_frees_ != 0 ? "window" : "run";
  result.has_failures = false;
  result.has_stacks = !tables_.chains.empty();
  result.notes = Notes();
  trace::Header header = ImportHeader(path, result, "Nsight Systems");
  header.set_pid(static_cast<uint32_t>(PidOf(tables_.pid)));
  header.set_anchor_monotonic_ns(kMadeTimeNs);
  if (tables_.epoch_ns > kYear2001Ns) header.set_anchor_realtime_ns(tables_.epoch_ns);
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(std::move(header)));
  for (const NsysGpu& gpu : tables_.gpus) {
    trace::Device* const device = writer_.definitions().pending()->add_devices();
    device->set_index(static_cast<int32_t>(gpu.ordinal));
    device->set_name(gpu.name);
    device->set_total_bytes(gpu.total_bytes);
    device->set_compute_major(gpu.compute_major);
    device->set_compute_minor(gpu.compute_minor);
  }
  GPUMEM_RETURN_IF_ERROR(WriteEvents());
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

bool IsSqlite(absl::string_view begin) { return absl::StartsWith(begin, absl::string_view("SQLite format 3\0", 16)); }

absl::StatusOr<ImportResult> ImportNsysReport(const std::string& path, TraceWriter::Sink sink) {
  GPUMEM_ASSIGN_OR_RETURN(const SqliteFile file, SqliteFile::Open(path));
  if (!file.Has(kNsysEvents)) {
    const bool is_nsys = file.Has("StringIds") &&
                         (file.Has("TARGET_INFO_GPU") || file.Has("META_DATA_EXPORT") || file.Has("EXPORT_META_DATA"));
    return absl::DataLossError(
        is_nsys ? "is a report of Nsight Systems without memory events. Record with nsys profile "
                  "--cuda-memory-usage=true, then nsys export --type sqlite"
                : "is an SQLite database, but no report of Nsight Systems (nsys export --type sqlite)");
  }
  GPUMEM_ASSIGN_OR_RETURN(NsysTables tables, ReadNsysTables(file));
  return NsysImport(std::move(tables), std::move(sink)).Run(path);
}

}  // namespace gpumem
