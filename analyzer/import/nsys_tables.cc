// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/nsys_tables.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "import/import.h"
#include "trace/write/definition_builder.h"

namespace gpumem {
namespace {

constexpr int64_t kAllocation = 0, kDeallocation = 1;  // ENUM_CUDA_DEV_MEM_EVENT_OPER
constexpr int64_t kPushPop = 59, kStartEnd = 60;       // ENUM_NSYS_EVENT_TYPE, of NVTX
constexpr size_t kLongestNsysName = 4096, kMostRanges = 1000000;
constexpr uint64_t kBytesOfEntry = 128;  // that an element of a map or list of these may take

class NsysReader {
 public:
  explicit NsysReader(const SqliteFile& file) : file_(file) {}

  absl::StatusOr<NsysTables> Run();

 private:
  absl::Status ReadEvents();
  void ChooseProcess();
  absl::Status ReadCalls();
  void ForgetOtherCalls();
  absl::Status ReadRanges();
  absl::Status ReadStrings();
  absl::Status ReadChains();
  absl::Status ReadTarget();
  absl::Status Spend() { return memory_.Spend(kBytesOfEntry) ? absl::OkStatus() : memory_.TooMuch(); }

  const SqliteFile& file_;
  ImportMemory memory_ = ImportMemory::OfProcess();
  NsysTables tables_;
  int64_t first_ = 0;  // time of the first event
};

absl::Status NsysReader::ReadEvents() {
  return file_.Read(
      kNsysEvents,
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
        if (event.kind == kNsysPageable) {
          ++tables_.pageable;
        } else if (is_known && event.device >= 0 && event.device < kMostGpus && event.bytes < uint64_t{1} << 50) {
          tables_.events.push_back(event);
        }
        return absl::OkStatus();
      });
}

// Processes may have the same addresses, and a trace is of one.
void NsysReader::ChooseProcess() {
  std::stable_sort(tables_.events.begin(), tables_.events.end(),
                   [](const NsysEvent& a, const NsysEvent& b) { return a.start < b.start; });
  std::map<int64_t, uint64_t> live;
  for (const NsysEvent& event : tables_.events) {
    uint64_t& bytes = live[event.pid];
    bytes = event.allocates ? bytes + event.bytes : bytes - std::min(bytes, event.bytes);
    tables_.peaks[event.pid] = std::max(tables_.peaks[event.pid], bytes);
  }
  const auto most = std::max_element(tables_.peaks.begin(), tables_.peaks.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  tables_.pid = most == tables_.peaks.end() ? 0 : most->first;
  std::erase_if(tables_.events, [this](const NsysEvent& event) { return event.pid != tables_.pid; });
  first_ = tables_.events.empty() ? 0 : tables_.events[0].start;
}

// By correlation; reports of some versions have none: there an event is of the shortest call around its time, which
// ForgetOtherCalls then looks at once more. Its correlation is a number below 0 of our own.
absl::Status NsysReader::ReadCalls() {
  absl::flat_hash_set<int64_t> asked;
  for (size_t i = 0; i < tables_.events.size(); ++i) {
    if (tables_.events[i].correlation <= 0) tables_.events[i].correlation = -static_cast<int64_t>(i) - 1;
    asked.insert(tables_.events[i].correlation);
  }
  return file_.Read(
      "CUPTI_ACTIVITY_KIND_RUNTIME", {"correlationId", "globalTid", "nameId", "callchainId", "start", "end"},
      [&](const SqliteRow& row) -> absl::Status {
        if (PidOf(row.Number(1)) != PidOf(tables_.pid)) return absl::OkStatus();
        const int64_t start = row.Number(4), end = std::max(start, row.Number(5));
        const NsysCall call{TidOf(row.Number(1)), row.Number(2), row.Number(3), end - start};
        if (asked.contains(row.Number(0))) {
          GPUMEM_RETURN_IF_ERROR(Spend());
          tables_.calls[row.Number(0)] = call;
        }
        auto event = std::lower_bound(tables_.events.begin(), tables_.events.end(), start,
                                      [](const NsysEvent& each, int64_t time) { return each.start < time; });
        for (; event != tables_.events.end() && event->start <= end; ++event) {
          if (event->correlation > 0) continue;
          GPUMEM_RETURN_IF_ERROR(Spend());
          const auto [found, is_new] = tables_.calls.try_emplace(event->correlation, call);
          if (!is_new && call.took < found->second.took) found->second = call;
        }
        return absl::OkStatus();
      });
}

// Of calls that were found by their time alone those that do not allocate or free.
void NsysReader::ForgetOtherCalls() {
  absl::erase_if(tables_.calls, [this](const auto& call) {
    const absl::string_view name = tables_.Text(call.second.name);
    return call.first < 0 && !absl::StrContains(name, "Alloc") && !absl::StrContains(name, "alloc") &&
           !absl::StrContains(name, "Free");
  });
}

absl::Status NsysReader::ReadRanges() {
  return file_.Read("NVTX_EVENTS", {"start", "end", "eventType", "text", "textId", "globalTid"},
                    [this](const SqliteRow& row) -> absl::Status {
                      const bool is_range = row.Number(2) == kPushPop || row.Number(2) == kStartEnd;
                      if (!is_range || row.IsNull(1) || PidOf(row.Number(5)) != PidOf(tables_.pid) ||
                          tables_.ranges.size() >= kMostRanges || row.Number(1) < row.Number(0) ||
                          row.Number(1) < first_)
                        return absl::OkStatus();
                      if (!memory_.Spend(kBytesOfEntry + row.Text(3).size())) return memory_.TooMuch();
                      tables_.ranges.push_back({std::max(row.Number(0), first_), row.Number(1), row.Number(4),
                                                ValidText(row.Text(3).substr(0, kLongestNsysName))});
                      return absl::OkStatus();
                    });
}

absl::Status NsysReader::ReadChains() {
  absl::flat_hash_set<int64_t> asked;
  for (const auto& [correlation, call] : tables_.calls) asked.insert(call.chain);
  return file_.Read("CUDA_CALLCHAINS", {"id", "stackDepth", "symbol", "module"},
                    [&](const SqliteRow& row) -> absl::Status {
                      if (!asked.contains(row.Number(0))) return absl::OkStatus();
                      GPUMEM_RETURN_IF_ERROR(Spend());
                      tables_.chains[row.Number(0)].emplace_back(row.Number(1), row.Number(2), row.Number(3));
                      return absl::OkStatus();
                    });
}

absl::Status NsysReader::ReadStrings() {
  absl::flat_hash_set<int64_t> asked;
  for (const auto& [correlation, call] : tables_.calls) asked.insert(call.name);
  for (const NsysRange& range : tables_.ranges) asked.insert(range.text_id);
  for (auto& [id, frames] : tables_.chains) {
    std::sort(frames.begin(), frames.end());  // innermost first
    for (const auto& [depth, symbol, module] : frames) asked.insert({symbol, module});
  }
  return file_.Read("StringIds", {"id", "value"}, [&](const SqliteRow& row) -> absl::Status {
    if (!asked.contains(row.Number(0))) return absl::OkStatus();
    if (!memory_.Spend(kBytesOfEntry + row.Text(1).size())) return memory_.TooMuch();
    tables_.strings[row.Number(0)] = ValidText(row.Text(1).substr(0, kLongestNsysName));
    return absl::OkStatus();
  });
}

// When it began, what the processes are called, and what its GPUs are.
absl::Status NsysReader::ReadTarget() {
  GPUMEM_RETURN_IF_ERROR(file_.Read("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [this](const SqliteRow& row) {
    tables_.epoch_ns = static_cast<uint64_t>(std::max<int64_t>(row.Number(0), 0));
    return absl::OkStatus();
  }));
  GPUMEM_RETURN_IF_ERROR(file_.Read("PROCESSES", {"globalPid", "name"}, [this](const SqliteRow& row) {
    if (tables_.peaks.contains(row.Number(0)))
      tables_.processes[row.Number(0)] = ValidText(row.Text(1).substr(0, kLongestNsysName));
    return absl::OkStatus();
  }));
  std::map<int64_t, int64_t> ordinals;  // CUDA's, by the report's id of the GPU
  GPUMEM_RETURN_IF_ERROR(file_.Read("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"}, [&](const SqliteRow& row) {
    if (row.IsNull(2) || static_cast<uint64_t>(row.Number(2)) == PidOf(tables_.pid))
      ordinals[row.Number(0)] = row.Number(1);
    return absl::OkStatus();
  }));
  std::set<int64_t> used;
  for (const NsysEvent& event : tables_.events) used.insert(event.device);
  return file_.Read("TARGET_INFO_GPU", {"id", "name", "totalMemory", "cuDevice", "computeMajor", "computeMinor"},
                    [&](const SqliteRow& row) {
                      const auto found = ordinals.find(row.Number(0));
                      const int64_t ordinal = found != ordinals.end() ? found->second : row.Number(3);
                      if (used.erase(ordinal) == 0) return absl::OkStatus();
                      tables_.gpus.push_back(
                          {ordinal, ValidText(row.Text(1)), static_cast<uint64_t>(std::max<int64_t>(row.Number(2), 0)),
                           static_cast<uint32_t>(row.Number(4)), static_cast<uint32_t>(row.Number(5))});
                      return absl::OkStatus();
                    });
}

absl::StatusOr<NsysTables> NsysReader::Run() {
  GPUMEM_RETURN_IF_ERROR(ReadEvents());
  ChooseProcess();
  GPUMEM_RETURN_IF_ERROR(ReadCalls());
  GPUMEM_RETURN_IF_ERROR(ReadRanges());
  GPUMEM_RETURN_IF_ERROR(ReadChains());
  GPUMEM_RETURN_IF_ERROR(ReadStrings());
  ForgetOtherCalls();
  GPUMEM_RETURN_IF_ERROR(ReadTarget());
  return std::move(tables_);
}

}  // namespace

absl::StatusOr<NsysTables> ReadNsysTables(const SqliteFile& file) { return NsysReader(file).Run(); }

}  // namespace gpumem
