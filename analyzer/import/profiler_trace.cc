// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/profiler_trace.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/import.h"
#include "import/profiler_events.h"

namespace gpumem {
namespace {

constexpr int64_t kCuda = 1;  // of c10::DeviceType
constexpr int64_t kMostDevices = 1024;
// Where nothing lies: the block of what the profile never saw allocated nor freed.
constexpr uint64_t kBeforeAddress = 0xffff000000000000;

struct DeviceBefore {
  uint64_t total = 0;  // allocated before the first event
  uint64_t peak_reserved = 0;
  bool is_known = false;
  absl::flat_hash_set<uint64_t> seen;             // addresses that had an event
  std::vector<const ProfilerMemoryEvent*> freed;  // whose allocation came before
};

class ProfilerImport {
 public:
  ProfilerImport(ProfilerEvents events, TraceWriter::Sink sink)
      : events_(std::move(events)), writer_(std::move(sink)) {}

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  void Sort();
  void FindBefore();
  std::vector<std::string> Notes() const;
  absl::Status WriteBefore();
  absl::Status WriteEvent(const ProfilerMemoryEvent& event);
  absl::Status WriteRange(const ProfilerAnnotation& annotation, uint64_t number, bool begins);
  absl::Status WriteAll();
  uint32_t ThreadOf(uint64_t tid);

  ProfilerEvents events_;
  TraceWriter writer_;
  std::map<int, DeviceBefore> devices_;
  absl::flat_hash_map<uint64_t, uint32_t> threads_;
  uint64_t of_cpu_ = 0, begin_ns_ = 0;
};

void ProfilerImport::Sort() {
  std::erase_if(events_.memory, [this](const ProfilerMemoryEvent& event) {
    const bool is_cuda = event.device_type == kCuda && event.device >= 0 && event.device < kMostDevices;
    of_cpu_ += is_cuda ? 0 : 1;
    return !is_cuda;
  });
  std::stable_sort(events_.memory.begin(), events_.memory.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  begin_ns_ = events_.memory.empty() ? 0 : events_.memory[0].time_ns;
}

void ProfilerImport::FindBefore() {
  for (const ProfilerMemoryEvent& event : events_.memory) {
    DeviceBefore& device = devices_[static_cast<int>(event.device)];
    device.peak_reserved = std::max(device.peak_reserved, event.total_reserved);
    if (!std::exchange(device.is_known, true)) {
      const int64_t before = static_cast<int64_t>(event.total_allocated) - event.bytes;
      device.total = before > 0 ? static_cast<uint64_t>(before) : 0;
    }
    if (device.seen.insert(event.address).second && event.bytes < 0) device.freed.push_back(&event);
  }
}

std::vector<std::string> ProfilerImport::Notes() const {
  std::vector<std::string> notes;
  for (const auto& [index, device] : devices_) {
    notes.push_back(
        absl::StrCat("GPU ", index, ": PyTorch's reserved memory peaked at ", FormatBytes(device.peak_reserved),
                     " by the profile's own totals. It names no segments, so reserved is in no other number."));
    if (device.total == 0) continue;
    notes.push_back(absl::StrCat("GPU ", index, ": ", FormatBytes(device.total),
                                 " were allocated before the profile began. What of it is not freed in the profile is "
                                 "shown as one block."));
  }
  notes.push_back(
      "A profile's memory events have no stacks. For stacks, import a memory snapshot, or record with gpumemshim run.");
  if (of_cpu_ != 0)
    notes.push_back(absl::StrCat(FormatCountOf(of_cpu_, "event", "events"), " of memory that is on no GPU ",
                                 of_cpu_ == 1 ? "was" : "were", " left out."));
  return notes;
}

absl::Status ProfilerImport::WriteBefore() {
  std::vector<EventRow> rows;
  for (const auto& [index, device] : devices_) {
    EventRow row;
    row.kind = trace::ALLOC;
    row.layer = trace::TORCH;
    row.device = index;
    row.time_ns = begin_ns_;
    row.api = writer_.definitions().String("allocated before the profile");
    uint64_t rest = device.total;
    for (const ProfilerMemoryEvent* const freed : device.freed) {
      row.address = freed->address;
      row.size = static_cast<uint64_t>(-freed->bytes);
      rest -= std::min(rest, row.size);
      rows.push_back(row);
    }
    row.address = kBeforeAddress + (static_cast<uint64_t>(index) << 32);
    row.size = rest;
    if (rest != 0) rows.push_back(row);
  }
  return rows.empty() ? absl::OkStatus() : writer_.AddLiveSnapshot(rows, {});
}

uint32_t ProfilerImport::ThreadOf(uint64_t tid) {
  const auto [it, is_new] = threads_.try_emplace(tid, static_cast<uint32_t>(threads_.size() + 1));
  if (is_new) {
    trace::Thread* const thread = writer_.definitions().pending()->add_threads();
    thread->set_id(it->second);
    thread->set_tid(static_cast<uint32_t>(tid));
  }
  return it->second;
}

absl::Status ProfilerImport::WriteEvent(const ProfilerMemoryEvent& event) {
  EventRow row;
  row.time_ns = event.time_ns;
  row.kind = event.bytes < 0 ? trace::FREE : trace::ALLOC;
  row.layer = trace::TORCH;
  row.device = static_cast<int>(event.device);
  row.address = event.address;
  row.size = event.bytes < 0 ? uint64_t{0} - static_cast<uint64_t>(event.bytes) : static_cast<uint64_t>(event.bytes);
  row.thread = ThreadOf(event.thread);
  row.api =
      writer_.definitions().String(event.bytes < 0 ? "CUDACachingAllocator::free" : "CUDACachingAllocator::malloc");
  return writer_.Add(row);
}

absl::Status ProfilerImport::WriteRange(const ProfilerAnnotation& annotation, uint64_t number, bool begins) {
  EventRow row;
  row.time_ns = std::max(begin_ns_, annotation.time_ns + (begins ? 0 : annotation.duration_ns));
  row.kind = begins ? trace::RANGE_START : trace::RANGE_END;
  row.handle = number;
  row.text = writer_.definitions().String(annotation.name);
  absl::string_view step = annotation.name;
  uint64_t count = 0;
  if (begins && absl::ConsumePrefix(&step, "ProfilerStep#") && absl::SimpleAtoi(step, &count)) {
    EventRow mark = row;
    mark.kind = trace::STEP;
    mark.handle = count + 1;
    mark.text = 0;
    GPUMEM_RETURN_IF_ERROR(writer_.Add(mark));
  }
  return writer_.Add(row);
}

// Memory events and the ends of ranges, merged by time.
absl::Status ProfilerImport::WriteAll() {
  struct Edge {
    uint64_t time_ns;
    size_t annotation;
    bool begins;
  };
  std::vector<Edge> edges;
  for (size_t i = 0; i < events_.annotations.size(); ++i) {
    const ProfilerAnnotation& annotation = events_.annotations[i];
    edges.push_back({annotation.time_ns, i, true});
    edges.push_back({annotation.time_ns + annotation.duration_ns, i, false});
  }
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.time_ns < b.time_ns; });
  size_t next = 0;
  const auto write_edges = [&](uint64_t until_ns) -> absl::Status {
    for (; next < edges.size() && edges[next].time_ns <= until_ns; ++next) {
      const Edge& edge = edges[next];
      GPUMEM_RETURN_IF_ERROR(WriteRange(events_.annotations[edge.annotation], edge.annotation + 1, edge.begins));
    }
    return absl::OkStatus();
  };
  for (const ProfilerMemoryEvent& event : events_.memory) {
    GPUMEM_RETURN_IF_ERROR(write_edges(event.time_ns));
    GPUMEM_RETURN_IF_ERROR(WriteEvent(event));
  }
  return write_edges(UINT64_MAX);
}

absl::StatusOr<ImportResult> ProfilerImport::Run(const std::string& path) {
  Sort();
  if (events_.memory.empty()) {
    return absl::DataLossError(absl::StrCat("is JSON, but holds no memory event of a GPU",
                                            of_cpu_ == 0 ? "" : absl::StrCat(" (", of_cpu_, " of the CPU)"),
                                            ". Profile with torch.profiler.profile(profile_memory=True)"));
  }
  FindBefore();
  ImportResult result;
  result.format = "torch.profiler trace";
  result.devices = static_cast<uint32_t>(devices_.size());
  result.notes = Notes();
  result.has_failures = result.has_stacks = false;
  trace::Header header = ImportHeader(path, result, "torch.profiler");
  header.set_anchor_monotonic_ns(begin_ns_);
  // Small numbers without a base are of a clock that nobody knows.
  constexpr uint64_t kYear2001 = 1'000'000'000'000'000'000;
  if (events_.base_ns + begin_ns_ > kYear2001) header.set_anchor_realtime_ns(events_.base_ns + begin_ns_);
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(std::move(header)));
  GPUMEM_RETURN_IF_ERROR(WriteBefore());
  GPUMEM_RETURN_IF_ERROR(WriteAll());
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

bool IsJson(absl::string_view begin) {
  begin = absl::StripLeadingAsciiWhitespace(begin);
  return !begin.empty() && (begin[0] == '{' || begin[0] == '[');
}

absl::StatusOr<ImportResult> ImportProfilerTrace(ByteSource* source, const std::string& path, TraceWriter::Sink sink) {
  GPUMEM_ASSIGN_OR_RETURN(ProfilerEvents events, ReadProfilerEvents(source));
  return ProfilerImport(std::move(events), std::move(sink)).Run(path);
}

}  // namespace gpumem
