// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/nsys_report.h"

#include <algorithm>
#include <cstdint>
#include <map>
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
#include "import/sqlite_file.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr char kEvents[] = "CUDA_GPU_MEMORY_USAGE_EVENTS";
// ENUM_CUDA_MEM_KIND and ENUM_CUDA_DEV_MEM_EVENT_OPER of every report.
enum MemKind : int64_t { kPageable = 0, kPinned, kDevice, kArray, kManaged, kDeviceStatic, kManagedStatic };
constexpr int64_t kAllocation = 0, kDeallocation = 1;
constexpr int64_t kPushPop = 59, kStartEnd = 60;  // ENUM_NSYS_EVENT_TYPE, of NVTX
constexpr size_t kLongestNsysName = 4096, kMostRanges = 1000000;
constexpr uint64_t kBytesOfEntry = 128;  // that an element of a map or list of these may take

// A "global" id is of a machine, a process and a thread, 24 bits each of the latter.
constexpr uint64_t PidOf(int64_t global) { return static_cast<uint64_t>(global) >> 24 & 0xffffff; }
constexpr uint32_t TidOf(int64_t global) { return static_cast<uint32_t>(global) & 0xffffff; }

struct NsysEvent {
  int64_t start = 0, pid = 0, device = 0, kind = 0, correlation = 0, stream = 0;
  uint64_t address = 0, bytes = 0, pool = 0;
  bool allocates = false;
};

struct NsysCall {
  uint32_t tid = 0;
  int64_t name = 0, chain = 0;  // StringIds.id, CUDA_CALLCHAINS.id
};

struct NsysRange {
  int64_t start = 0, end = 0, text_id = 0;
  std::string text;
};

bool IsOnDevice(int64_t kind) {
  return kind != kPageable && kind != kPinned && kind != kManaged && kind != kManagedStatic;
}

class NsysImport {
 public:
  NsysImport(SqliteFile file, TraceWriter::Sink sink) : file_(std::move(file)), writer_(std::move(sink)) {}

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  absl::Status ReadEvents();
  void ChooseProcess();
  absl::Status ReadCalls();
  absl::Status ReadRanges();
  absl::Status ReadStrings();
  absl::Status ReadChains();
  absl::Status ReadTarget();
  std::vector<std::string> Notes() const;
  absl::Status WriteEvents();
  EventRow RowOf(const NsysEvent& event);
  absl::Status WriteRanges(int64_t until);
  uint32_t ThreadOf(uint32_t tid);
  absl::string_view Text(int64_t id) const {
    const auto found = strings_.find(id);
    return found == strings_.end() ? absl::string_view() : absl::string_view(found->second);
  }
  absl::Status Spend() { return memory_.Spend(kBytesOfEntry) ? absl::OkStatus() : memory_.TooMuch(); }

  SqliteFile file_;
  TraceWriter writer_;
  ImportMemory memory_ = ImportMemory::OfProcess();
  std::vector<NsysEvent> events_;
  std::map<int64_t, uint64_t> peaks_;  // bytes, by process
  std::map<int64_t, std::string> processes_;
  absl::flat_hash_map<int64_t, NsysCall> calls_;  // by correlation
  absl::flat_hash_map<int64_t, std::string> strings_;
  absl::flat_hash_map<int64_t, std::vector<std::tuple<int64_t, int64_t, int64_t>>> chains_;  // depth, symbol, module
  std::vector<NsysRange> ranges_;
  struct Edge {
    int64_t time;
    size_t range;
    bool begins;
  };
  std::vector<Edge> edges_;
  size_t next_edge_ = 0;
  absl::flat_hash_map<uint32_t, uint32_t> threads_;
  absl::flat_hash_map<int64_t, uint64_t> stacks_;  // of calls, by correlation
  int64_t pid_ = 0, first_ = 0;
  uint64_t epoch_ns_ = 0, unknown_frees_ = 0, pageable_ = 0;
};

absl::Status NsysImport::ReadEvents() {
  return file_.Read(
      kEvents,
      {"start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType", "correlationId",
       "streamId", "localMemoryPoolAddress"},
      [this](const SqliteRow& row) -> absl::Status {
        GPUMEM_RETURN_IF_ERROR(Spend());
        NsysEvent event;
        event.start = std::max<int64_t>(row.Number(0), 0);
        event.pid = row.Number(1);
        event.device = row.Number(2);
        event.address = static_cast<uint64_t>(row.Number(3));
        event.bytes = static_cast<uint64_t>(std::max<int64_t>(row.Number(4), 0));
        event.kind = row.Number(5);
        event.allocates = row.Number(6) == kAllocation;
        event.correlation = row.Number(7);
        event.stream = row.Number(8);
        event.pool = static_cast<uint64_t>(row.Number(9));
        const bool is_known = event.allocates || row.Number(6) == kDeallocation;
        if (event.kind == kPageable) {
          ++pageable_;
        } else if (is_known && event.device >= 0 && event.device < kMostGpus && event.bytes < uint64_t{1} << 50) {
          events_.push_back(event);
        }
        return absl::OkStatus();
      });
}

// Processes may have the same addresses, and a trace is of one.
void NsysImport::ChooseProcess() {
  std::stable_sort(events_.begin(), events_.end(),
                   [](const NsysEvent& a, const NsysEvent& b) { return a.start < b.start; });
  std::map<int64_t, uint64_t> live;
  for (const NsysEvent& event : events_) {
    uint64_t& bytes = live[event.pid];
    bytes = event.allocates ? bytes + event.bytes : bytes - std::min(bytes, event.bytes);
    peaks_[event.pid] = std::max(peaks_[event.pid], bytes);
  }
  const auto most =
      std::max_element(peaks_.begin(), peaks_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  pid_ = most == peaks_.end() ? 0 : most->first;
  std::erase_if(events_, [this](const NsysEvent& event) { return event.pid != pid_; });
  first_ = events_.empty() ? 0 : events_[0].start;
}

absl::Status NsysImport::ReadCalls() {
  absl::flat_hash_set<int64_t> asked;
  for (const NsysEvent& event : events_) {
    if (event.correlation != 0) asked.insert(event.correlation);
  }
  return file_.Read("CUPTI_ACTIVITY_KIND_RUNTIME", {"correlationId", "globalTid", "nameId", "callchainId"},
                    [&](const SqliteRow& row) -> absl::Status {
                      if (!asked.contains(row.Number(0)) || PidOf(row.Number(1)) != PidOf(pid_))
                        return absl::OkStatus();
                      GPUMEM_RETURN_IF_ERROR(Spend());
                      calls_[row.Number(0)] = {TidOf(row.Number(1)), row.Number(2), row.Number(3)};
                      return absl::OkStatus();
                    });
}

absl::Status NsysImport::ReadRanges() {
  const absl::Status read =
      file_.Read("NVTX_EVENTS", {"start", "end", "eventType", "text", "textId", "globalTid"},
                 [this](const SqliteRow& row) -> absl::Status {
                   const bool is_range = row.Number(2) == kPushPop || row.Number(2) == kStartEnd;
                   if (!is_range || row.IsNull(1) || PidOf(row.Number(5)) != PidOf(pid_) ||
                       ranges_.size() >= kMostRanges || row.Number(1) < row.Number(0) || row.Number(1) < first_)
                     return absl::OkStatus();
                   if (!memory_.Spend(kBytesOfEntry + row.Text(3).size())) return memory_.TooMuch();
                   ranges_.push_back({std::max(row.Number(0), first_), row.Number(1), row.Number(4),
                                      std::string(row.Text(3).substr(0, kLongestNsysName))});
                   return absl::OkStatus();
                 });
  for (size_t i = 0; i < ranges_.size(); ++i) {
    edges_.push_back({ranges_[i].start, i, true});
    edges_.push_back({ranges_[i].end, i, false});
  }
  std::stable_sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.time < b.time; });
  return read;
}

absl::Status NsysImport::ReadChains() {
  absl::flat_hash_set<int64_t> asked;
  for (const auto& [correlation, call] : calls_) asked.insert(call.chain);
  return file_.Read("CUDA_CALLCHAINS", {"id", "stackDepth", "symbol", "module"},
                    [&](const SqliteRow& row) -> absl::Status {
                      if (!asked.contains(row.Number(0))) return absl::OkStatus();
                      GPUMEM_RETURN_IF_ERROR(Spend());
                      chains_[row.Number(0)].emplace_back(row.Number(1), row.Number(2), row.Number(3));
                      return absl::OkStatus();
                    });
}

absl::Status NsysImport::ReadStrings() {
  absl::flat_hash_set<int64_t> asked;
  for (const auto& [correlation, call] : calls_) asked.insert(call.name);
  for (const NsysRange& range : ranges_) asked.insert(range.text_id);
  for (auto& [id, frames] : chains_) {
    std::sort(frames.begin(), frames.end());  // innermost first
    for (const auto& [depth, symbol, module] : frames) asked.insert({symbol, module});
  }
  return file_.Read("StringIds", {"id", "value"}, [&](const SqliteRow& row) -> absl::Status {
    if (!asked.contains(row.Number(0))) return absl::OkStatus();
    if (!memory_.Spend(kBytesOfEntry + row.Text(1).size())) return memory_.TooMuch();
    strings_[row.Number(0)] = std::string(row.Text(1).substr(0, kLongestNsysName));
    return absl::OkStatus();
  });
}

// When it began, what the processes are called, and what its GPUs are.
absl::Status NsysImport::ReadTarget() {
  GPUMEM_RETURN_IF_ERROR(file_.Read("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [this](const SqliteRow& row) {
    epoch_ns_ = static_cast<uint64_t>(std::max<int64_t>(row.Number(0), 0));
    return absl::OkStatus();
  }));
  GPUMEM_RETURN_IF_ERROR(file_.Read("PROCESSES", {"globalPid", "name"}, [this](const SqliteRow& row) {
    if (peaks_.contains(row.Number(0)))
      processes_[row.Number(0)] = std::string(row.Text(1).substr(0, kLongestNsysName));
    return absl::OkStatus();
  }));
  std::map<int64_t, int64_t> ordinals;  // CUDA's, by the report's id of the GPU
  GPUMEM_RETURN_IF_ERROR(file_.Read("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"}, [&](const SqliteRow& row) {
    if (row.IsNull(2) || static_cast<uint64_t>(row.Number(2)) == PidOf(pid_)) ordinals[row.Number(0)] = row.Number(1);
    return absl::OkStatus();
  }));
  std::set<int64_t> used;
  for (const NsysEvent& event : events_) used.insert(event.device);
  return file_.Read("TARGET_INFO_GPU", {"id", "name", "totalMemory", "cuDevice", "computeMajor", "computeMinor"},
                    [&](const SqliteRow& row) {
                      const auto found = ordinals.find(row.Number(0));
                      const int64_t ordinal = found != ordinals.end() ? found->second : row.Number(3);
                      if (used.erase(ordinal) == 0) return absl::OkStatus();
                      trace::Device* const device = writer_.definitions().pending()->add_devices();
                      device->set_index(static_cast<int32_t>(ordinal));
                      device->set_name(ValidText(row.Text(1)));
                      device->set_total_bytes(static_cast<uint64_t>(std::max<int64_t>(row.Number(2), 0)));
                      device->set_compute_major(static_cast<uint32_t>(row.Number(4)));
                      device->set_compute_minor(static_cast<uint32_t>(row.Number(5)));
                      return absl::OkStatus();
                    });
}

std::vector<std::string> NsysImport::Notes() const {
  std::vector<std::string> notes = {
      "Nsight Systems records CUDA memory: PyTorch's blocks inside of it, requests that failed, the CUDA context and "
      "what other programs hold are in no number."};
  if (peaks_.size() > 1) {
    std::string others;
    for (const auto& [process, peak] : peaks_) {
      if (process == pid_) continue;
      const auto name = processes_.find(process);
      absl::StrAppend(&others, others.empty() ? "" : ", ", PidOf(process),
                      name == processes_.end() ? "" : absl::StrCat(" (", name->second, ")"), " ", FormatBytes(peak));
    }
    notes.push_back(absl::StrCat("The report is of ", peaks_.size(), " processes that used GPU memory. This is ",
                                 PidOf(pid_), ", which held most. Left out, with their peaks: ", others, "."));
  }
  if (unknown_frees_ != 0)
    notes.push_back(absl::StrCat(FormatCountOf(unknown_frees_, "free is", "frees are"),
                                 " of memory from before the report: what was allocated then is in no number."));
  if (calls_.empty()) {
    notes.push_back(
        "The report has no calls of CUDA's API, so no threads and names: add --trace=cuda to nsys profile.");
  } else if (chains_.empty()) {
    notes.push_back(
        "The report has no stacks of these calls: add --cudabacktrace=memory to nsys profile to see who allocates.");
  }
  if (pageable_ != 0)
    notes.push_back(absl::StrCat(FormatCountOf(pageable_, "event", "events"), " of pageable host memory ",
                                 pageable_ == 1 ? "was" : "were", " left out."));
  return notes;
}

uint32_t NsysImport::ThreadOf(uint32_t tid) {
  const auto [it, is_new] = threads_.try_emplace(tid, static_cast<uint32_t>(threads_.size() + 1));
  if (is_new) {
    trace::Thread* const thread = writer_.definitions().pending()->add_threads();
    thread->set_id(it->second);
    thread->set_tid(tid);
  }
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
  row.memory = event.kind == kPinned                                    ? trace::HOST_PINNED
               : event.kind == kManaged || event.kind == kManagedStatic ? trace::MANAGED
               : event.pool != 0                                        ? trace::STREAM_ORDERED
                                                                        : trace::DEVICE;
  row.handle = row.memory == trace::STREAM_ORDERED ? event.pool : 0;
  row.stream = row.memory == trace::STREAM_ORDERED ? static_cast<uint64_t>(event.stream) : 0;
  DefinitionBuilder& definitions = writer_.definitions();
  const auto call = calls_.find(event.correlation);
  if (call == calls_.end()) {
    const bool is_static = event.kind == kDeviceStatic || event.kind == kManagedStatic;
    row.api = definitions.String(is_static ? "static memory of a module" : event.allocates ? "allocation" : "free");
    return row;
  }
  row.thread = ThreadOf(call->second.tid);
  absl::string_view name = Text(call->second.name);
  row.api = definitions.String(name.substr(0, name.rfind("_v")));  // "cudaMalloc_v3020"
  const auto chain = chains_.find(call->second.chain);
  if (chain == chains_.end()) return row;
  const auto [stack, is_new] = stacks_.try_emplace(event.correlation, 0);
  if (is_new) {
    for (auto frame = chain->second.rbegin(); frame != chain->second.rend(); ++frame)
      stack->second = definitions.Stack(
          stack->second, definitions.NativeFrame(Text(std::get<2>(*frame)), Text(std::get<1>(*frame)), 0));
  }
  row.stack = stack->second;
  return row;
}

// The ends and beginnings of ranges until then.
absl::Status NsysImport::WriteRanges(int64_t until) {
  for (; next_edge_ < edges_.size() && edges_[next_edge_].time <= until; ++next_edge_) {
    const Edge& edge = edges_[next_edge_];
    const NsysRange& range = ranges_[edge.range];
    EventRow row;
    row.time_ns = static_cast<uint64_t>(edge.time) + kMadeTimeNs;
    row.kind = edge.begins ? trace::RANGE_START : trace::RANGE_END;
    row.handle = edge.range + 1;
    row.device = -1;
    row.text = writer_.definitions().String(range.text.empty() ? Text(range.text_id) : absl::string_view(range.text));
    GPUMEM_RETURN_IF_ERROR(writer_.Add(row));
  }
  return absl::OkStatus();
}

absl::Status NsysImport::WriteEvents() {
  for (const NsysEvent& event : events_) {
    GPUMEM_RETURN_IF_ERROR(WriteRanges(event.start));
    GPUMEM_RETURN_IF_ERROR(writer_.Add(RowOf(event)));
  }
  return WriteRanges(INT64_MAX);
}

absl::StatusOr<ImportResult> NsysImport::Run(const std::string& path) {
  if (!file_.Has(kEvents)) {
    const bool is_nsys = file_.Has("StringIds") && (file_.Has("TARGET_INFO_GPU") || file_.Has("META_DATA_EXPORT") ||
                                                    file_.Has("EXPORT_META_DATA"));
    return absl::DataLossError(
        is_nsys ? "is a report of Nsight Systems without memory events. Record with nsys profile "
                  "--cuda-memory-usage=true, then nsys export --type sqlite"
                : "is an SQLite database, but no report of Nsight Systems (nsys export --type sqlite)");
  }
  GPUMEM_RETURN_IF_ERROR(ReadEvents());
  ChooseProcess();
  GPUMEM_RETURN_IF_ERROR(ReadCalls());
  GPUMEM_RETURN_IF_ERROR(ReadRanges());
  GPUMEM_RETURN_IF_ERROR(ReadChains());
  GPUMEM_RETURN_IF_ERROR(ReadStrings());
  GPUMEM_RETURN_IF_ERROR(ReadTarget());
  std::set<int64_t> devices;
  absl::flat_hash_set<uint64_t> seen;
  for (const NsysEvent& event : events_) {
    if (IsOnDevice(event.kind)) devices.insert(event.device);
    unknown_frees_ += seen.insert(event.address).second && !event.allocates ? 1 : 0;
  }
  ImportResult result;
  result.format = "Nsight Systems report";
  result.devices = static_cast<uint32_t>(devices.size());
  result.covers = events_.empty() ? "nothing" : unknown_frees_ != 0 ? "window" : "run";
  result.has_failures = false;
  result.has_stacks = !chains_.empty();
  result.notes = Notes();
  trace::Header header = ImportHeader(path, result, "Nsight Systems");
  header.set_pid(static_cast<uint32_t>(PidOf(pid_)));
  header.set_anchor_monotonic_ns(kMadeTimeNs);
  if (epoch_ns_ > kYear2001Ns) header.set_anchor_realtime_ns(epoch_ns_);
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(std::move(header)));
  GPUMEM_RETURN_IF_ERROR(WriteEvents());
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

bool IsSqlite(absl::string_view begin) { return absl::StartsWith(begin, absl::string_view("SQLite format 3\0", 16)); }

absl::StatusOr<ImportResult> ImportNsysReport(const std::string& path, TraceWriter::Sink sink) {
  GPUMEM_ASSIGN_OR_RETURN(SqliteFile file, SqliteFile::Open(path));
  return NsysImport(std::move(file), std::move(sink)).Run(path);
}

}  // namespace gpumem
