// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/xspace_profile.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/wire.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr size_t kMostXEvents = size_t{4} << 20;
constexpr uint64_t kBeforeXSpace = 0xffff000000000000;  // where nothing lies

struct XMemoryEvent {
  uint64_t time_ns = 0, address = 0, bytes = 0, requested = 0;
  uint64_t allocated = 0;  // by its allocator, after it
  uint32_t thread = 0;
  int device = kNoAllocator;
  bool allocates = false;
  absl::string_view operation;
};

// One plane: its names by id, then its lines.
class PlaneReader {
 public:
  PlaneReader(absl::string_view plane, std::vector<XMemoryEvent>* events) : plane_(plane), events_(events) {}

  // False where it is damaged.
  bool Read();

 private:
  bool ReadName(absl::string_view entry, absl::flat_hash_map<uint64_t, absl::string_view>* names);
  bool ReadLine(absl::string_view line);
  bool ReadEvent(absl::string_view event, uint64_t line_ns, uint32_t thread);
  bool ReadStat(absl::string_view stat, XMemoryEvent* event);

  absl::string_view plane_;
  std::vector<XMemoryEvent>* events_;
  absl::flat_hash_map<uint64_t, absl::string_view> events_names_, stat_names_;
};

bool PlaneReader::ReadName(absl::string_view entry, absl::flat_hash_map<uint64_t, absl::string_view>* names) {
  uint64_t key = 0;
  absl::string_view name;
  WireFields fields(entry);
  while (fields.Next()) {
    if (fields.number() == 1) key = fields.value();
    if (fields.number() != 2) continue;
    WireFields metadata(fields.bytes());
    while (metadata.Next()) {
      if (metadata.number() == 2) name = metadata.bytes();
    }
  }
  (*names)[key] = name;
  return fields.ok();
}

bool PlaneReader::ReadStat(absl::string_view stat, XMemoryEvent* event) {
  uint64_t name = 0, number = 0;
  absl::string_view text;
  WireFields fields(stat);
  while (fields.Next()) {
    if (fields.number() == 1) name = fields.value();
    if (fields.number() == 3 || fields.number() == 4) number = fields.value();
    if (fields.number() == 5) text = fields.bytes();
    if (fields.number() != 7) continue;
    const auto found = stat_names_.find(fields.value());
    if (found != stat_names_.end()) text = found->second;
  }
  const auto found = stat_names_.find(name);
  const absl::string_view which = found == stat_names_.end() ? absl::string_view() : found->second;
  if (which == "allocator_name") event->device = DeviceOfAllocator(text);
  if (which == "bytes_allocated") event->allocated = number;
  if (which == "allocation_bytes") event->bytes = number;
  if (which == "requested_bytes") event->requested = number;
  if (which == "addr") event->address = number;
  if (which == "tf_op") event->operation = text;
  return fields.ok();
}

bool PlaneReader::ReadEvent(absl::string_view bytes, uint64_t line_ns, uint32_t thread) {
  XMemoryEvent event;
  uint64_t offset_ps = 0;
  absl::string_view name;
  std::vector<absl::string_view> stats;
  WireFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == 1) {
      const auto found = events_names_.find(fields.value());
      if (found != events_names_.end()) name = found->second;
    }
    if (fields.number() == 2) offset_ps = fields.value();
    if (fields.number() == 4) stats.push_back(fields.bytes());
  }
  event.allocates = name == "MemoryAllocation";
  if (!event.allocates && name != "MemoryDeallocation") return fields.ok();
  for (const absl::string_view stat : stats) {
    if (!ReadStat(stat, &event)) return false;
  }
  event.time_ns = line_ns + offset_ps / 1000;
  event.thread = thread;
  if (event.device != kNoAllocator && event.bytes < uint64_t{1} << 50 && events_->size() < kMostXEvents)
    events_->push_back(event);
  return fields.ok();
}

bool PlaneReader::ReadLine(absl::string_view line) {
  uint64_t begin_ns = 0, id = 0;
  WireFields head(line);
  while (head.Next()) {
    if (head.number() == 1) id = head.value();
    if (head.number() == 3) begin_ns = head.value();
  }
  if (!head.ok()) return false;
  WireFields fields(line);
  while (fields.Next()) {
    if (fields.number() == 4 && !ReadEvent(fields.bytes(), begin_ns, static_cast<uint32_t>(id))) return false;
  }
  return true;
}

bool PlaneReader::Read() {
  WireFields names(plane_);
  while (names.Next()) {
    if (names.number() == 4 && !ReadName(names.bytes(), &events_names_)) return false;
    if (names.number() == 5 && !ReadName(names.bytes(), &stat_names_)) return false;
  }
  WireFields lines(plane_);
  while (lines.Next()) {
    if (lines.number() == 3 && !ReadLine(lines.bytes())) return false;
  }
  return names.ok();
}

class XSpaceImport {
 public:
  XSpaceImport(std::vector<XMemoryEvent> events, TraceWriter::Sink sink)
      : events_(std::move(events)), writer_(std::move(sink)) {}

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  struct Before {
    uint64_t bytes = 0;
    std::vector<const XMemoryEvent*> freed;  // whose allocation came before
    absl::flat_hash_set<uint64_t> seen;
  };

  void FindBefore();
  EventRow RowOf(int device, bool allocates, uint64_t address, uint64_t bytes);
  absl::Status WriteBefore();
  absl::Status WriteEvent(const XMemoryEvent& event);

  std::vector<XMemoryEvent> events_;
  TraceWriter writer_;
  std::map<int, Before> before_;  // by device
  absl::flat_hash_map<uint32_t, uint32_t> threads_;
};

void XSpaceImport::FindBefore() {
  std::stable_sort(events_.begin(), events_.end(),
                   [](const XMemoryEvent& a, const XMemoryEvent& b) { return a.time_ns < b.time_ns; });
  for (const XMemoryEvent& event : events_) {
    const auto [found, is_first] = before_.try_emplace(event.device);
    Before& before = found->second;
    if (is_first)
      before.bytes =
          event.allocates ? event.allocated - std::min(event.allocated, event.bytes) : event.allocated + event.bytes;
    if (before.seen.insert(event.address).second && !event.allocates) before.freed.push_back(&event);
  }
}

EventRow XSpaceImport::RowOf(int device, bool allocates, uint64_t address, uint64_t bytes) {
  EventRow row;
  row.kind = allocates ? trace::ALLOC : trace::FREE;
  row.layer = trace::RUNTIME;
  row.device = device;
  row.memory = device == kHostAllocator ? trace::HOST_PINNED : trace::DEVICE;
  row.address = address;
  row.size = bytes;
  row.time_ns = events_[0].time_ns;
  return row;
}

absl::Status XSpaceImport::WriteBefore() {
  std::vector<EventRow> rows;
  for (const auto& [device, before] : before_) {
    uint64_t rest = before.bytes;
    for (const XMemoryEvent* const freed : before.freed) {
      rows.push_back(RowOf(device, true, freed->address, freed->bytes));
      rest -= std::min(rest, freed->bytes);
    }
    if (rest != 0) rows.push_back(RowOf(device, true, kBeforeXSpace + (static_cast<uint64_t>(device + 1) << 32), rest));
  }
  for (EventRow& row : rows) row.api = writer_.definitions().String("allocated before the profile");
  return rows.empty() ? absl::OkStatus() : writer_.AddLiveSnapshot(rows, {});
}

absl::Status XSpaceImport::WriteEvent(const XMemoryEvent& event) {
  EventRow row = RowOf(event.device, event.allocates, event.address, event.bytes);
  row.time_ns = event.time_ns;
  row.requested_size = event.allocates ? event.requested : 0;
  DefinitionBuilder& definitions = writer_.definitions();
  const auto [thread, is_new] = threads_.try_emplace(event.thread, 0);
  if (is_new) thread->second = definitions.Thread(event.thread);
  row.thread = thread->second;
  row.api = definitions.String(event.allocates ? "XLA allocation" : "XLA free");
  if (event.allocates && event.device != kHostAllocator) {
    // The program's or XLA's, no library's: what for is not known.
    const uint64_t caller =
        event.operation.empty() ? 0 : definitions.Stack(0, definitions.NativeFrame("", event.operation, 0));
    row.stack = definitions.Stack(caller, StatedFrame("unknown", &definitions));
  }
  return writer_.Add(row);
}

absl::StatusOr<ImportResult> XSpaceImport::Run(const std::string& path) {
  FindBefore();
  ImportResult result;
  result.format = "profile of XLA";
  result.devices = static_cast<uint32_t>(before_.size() - before_.count(kHostAllocator));
  result.has_failures = false;
  result.has_stacks =
      std::any_of(events_.begin(), events_.end(), [](const XMemoryEvent& event) { return !event.operation.empty(); });
  result.notes.push_back(
      "A profile of XLA has the blocks of its allocators on GPUs and of its pinned memory: what these reserved beyond "
      "them, and memory of libraries, are in no number. It has no stacks, but the names of operations, where XLA knew "
      "them.");
  for (const auto& [device, before] : before_) {
    if (before.bytes != 0 && device != kHostAllocator)
      result.notes.push_back(absl::StrCat("GPU ", device, ": ", FormatBytes(before.bytes),
                                          " were allocated before the profile began. What of it is not freed in the "
                                          "profile is shown as one block."));
  }
  trace::Header header = ImportHeader(path, result, "XLA");
  header.set_anchor_monotonic_ns(events_[0].time_ns);
  if (events_[0].time_ns > kYear2001Ns) header.set_anchor_realtime_ns(events_[0].time_ns);
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(std::move(header)));
  GPUMEM_RETURN_IF_ERROR(WriteBefore());
  for (const XMemoryEvent& event : events_) GPUMEM_RETURN_IF_ERROR(WriteEvent(event));
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

int DeviceOfAllocator(absl::string_view name) {
  if (absl::StrContains(name, "gpu_host")) return kHostAllocator;
  uint32_t device = 0;
  if (!absl::ConsumePrefix(&name, "GPU_") || !absl::SimpleAtoi(name.substr(0, name.find('_')), &device) ||
      device >= kMostGpus)
    return kNoAllocator;
  return static_cast<int>(device);
}

bool IsXSpace(absl::string_view begin) {
  const absl::string_view head = begin.substr(0, 64);
  return absl::StartsWith(head, "\x0a") && (absl::StrContains(head, "/host:") || absl::StrContains(head, "/device:") ||
                                            absl::StrContains(head, "Task Environment"));
}

absl::StatusOr<ImportResult> ImportXSpace(ByteSource* source, const std::string& path, TraceWriter::Sink sink) {
  ImportMemory memory = ImportMemory::OfProcess();
  GPUMEM_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(source, 2, &memory));
  std::vector<XMemoryEvent> events;
  WireFields planes(bytes);
  bool is_whole = true;
  while (planes.Next()) {
    if (planes.number() == 1) is_whole &= PlaneReader(planes.bytes(), &events).Read();
  }
  if (!planes.ok() || !is_whole)
    return absl::DataLossError("is a profile of XLA (XSpace) that is damaged or cut short. Record it anew");
  if (events.empty()) {
    return absl::DataLossError(
        "is a profile of XLA (XSpace) without an event of a GPU's allocator. Profile with jax.profiler.trace() where "
        "XLA uses a GPU");
  }
  if (!memory.Spend(events.size() * 2 * sizeof(XMemoryEvent))) return memory.TooMuch();
  return XSpaceImport(std::move(events), std::move(sink)).Run(path);
}

}  // namespace gpumem
