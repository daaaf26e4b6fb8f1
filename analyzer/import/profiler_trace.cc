// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/profiler_trace.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/import.h"
#include "import/profiler_blocks.h"
#include "import/profiler_events.h"
#include "import/profiler_stacks.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// Where nothing lies: the block of what the profile never saw allocated nor freed.
constexpr uint64_t kBeforeAddress = 0xffff000000000000;
constexpr int kTorchOutOfMemory = 2;  // of cudaError_t

std::string AllocatorOf(int32_t kind) { return absl::StrCat(DeviceKindName(kind), "CachingAllocator"); }

class ProfilerImport {
 public:
  ProfilerImport(ProfilerEvents events, ImportMemory* memory, TraceWriter::Sink sink)
      : events_(std::move(events)),
        writer_(std::move(sink)),
        blocks_(&events_.memory, memory),
        stacks_(&events_, memory, &writer_) {}

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  trace::Header Header(const std::string& path, const ImportResult& result) const;
  void DefineDevices();
  absl::Status WriteBefore();
  absl::Status WriteReserved(const ProfilerMemoryEvent& event);
  absl::Status WriteEvent(const ProfilerMemoryEvent& event);
  absl::Status WriteRange(const ProfilerAnnotation& annotation, uint64_t number, bool begins);
  absl::Status WriteAll();
  uint32_t ThreadOf(uint32_t thread);

  ProfilerEvents events_;
  TraceWriter writer_;
  ProfilerBlocks blocks_;
  ProfilerStacks stacks_;
  absl::flat_hash_map<uint32_t, uint32_t> threads_;  // by the profile's
  absl::flat_hash_map<int32_t, uint64_t> reserved_;  // as written last, by device
  uint64_t begin_ns_ = 0;
};

// What the profile lacks, and what was derived.

std::string NoteOnDevice(int index, const ProfilerDeviceUse& device, const ProfilerEvents& events) {
  std::string note;
  const auto add = [&](auto&&... parts) { absl::StrAppend(&note, note.empty() ? "" : " ", parts...); };
  if (device.id != index) add("It is ", DeviceKindName(device.kind), " device ", device.id, " of the profile.");
  if (device.has_reserved) {
    add("Reserved is the profile's own total. It names no segments: where free memory lay is not known.");
  } else {
    add("The profile does not say what PyTorch reserved.");
  }
  if (device.before != 0 && device.has_totals) {
    add(FormatBytes(device.before),
        " were allocated before the profile began. What of it is not freed in the profile is shown as one block.");
  } else if (device.before != 0) {
    add("At least ", FormatBytes(device.before),
        " were allocated before the profile began: it frees them. What was "
        "not freed in it is in no number.");
  } else if (!device.has_totals) {
    add("The profile states no totals: they are the sum of its events, and what was allocated before it is in none.");
  }
  if (device.matched_by_size != 0) {
    add("It has no addresses: ", FormatCountOf(device.matched_by_size, "free was", "frees were"),
        " matched to the last block of the same size. Totals are exact; which of several equal blocks lived on is not "
        "known.");
  }
  if (device.disagreeing != 0) {
    add(FormatCountOf(device.disagreeing, "event states", "events state"),
        " another total than the sum of those before, first at ",
        FormatTime(device.first_wrong_ns - events.memory[0].time_ns), "; shown is the sum.");
  }
  return absl::StrCat("GPU ", index, ": ", note);
}

std::string NoteOnStacks(const ProfilerStacks& stacks) {
  if (!stacks.has_any()) {
    return "The profile has nothing around its memory events. For stacks, profile with with_stack=True, import a "
           "memory "
           "snapshot, or record with gpumemshim run.";
  }
  if (!stacks.has_python()) {
    return "The profile has operators and no lines of Python. For lines, profile with with_stack=True.";
  }
  if (!stacks.has_functions()) return "";
  return "The line of a function is the one where it begins, as the profiler has it; of a function that ran when the "
         "profile began, the one where it was.";
}

std::vector<std::string> NotesOnProfile(const ProfilerBlocks& blocks, const ProfilerStacks& stacks,
                                        const ProfilerEvents& events) {
  std::vector<std::string> notes;
  for (const auto& [index, device] : blocks.devices()) notes.push_back(NoteOnDevice(index, device, events));
  if (std::string note = NoteOnStacks(stacks); !note.empty()) notes.push_back(std::move(note));
  if (blocks.of_host() != 0)
    notes.push_back(absl::StrCat(FormatCountOf(blocks.of_host(), "event", "events"), " of memory that is on no GPU ",
                                 blocks.of_host() == 1 ? "was" : "were", " left out."));
  return notes;
}

trace::Header ProfilerImport::Header(const std::string& path, const ImportResult& result) const {
  trace::Header header = ImportHeader(path, result, "torch.profiler");
  header.set_anchor_monotonic_ns(begin_ns_);
  // Small numbers without a base are of a clock that nobody knows.
  constexpr uint64_t kYear2001 = 1'000'000'000'000'000'000;
  if (events_.base_ns + begin_ns_ > kYear2001) header.set_anchor_realtime_ns(events_.base_ns + begin_ns_);
  const uint64_t process = events_.threads[events_.memory[0].thread].first;
  if (process != 0 && process <= UINT32_MAX) header.set_pid(static_cast<uint32_t>(process));
  if (events_.rank >= 0 && events_.rank < INT32_MAX) header.set_rank(static_cast<uint32_t>(events_.rank));
  if (events_.world_size > 0 && events_.world_size < INT32_MAX)
    header.set_world_size(static_cast<uint32_t>(events_.world_size));
  return header;
}

void ProfilerImport::DefineDevices() {
  for (const auto& [index, device] : blocks_.devices()) {
    for (const ProfilerDevice& described : events_.devices) {
      if (described.id != device.id || device.id != index) continue;
      trace::Device* const written = writer_.definitions().pending()->add_devices();
      written->set_index(index);
      written->set_name(ValidText(described.name));
      written->set_total_bytes(described.total_bytes);
      written->set_compute_major(described.compute_major);
      written->set_compute_minor(described.compute_minor);
      break;
    }
  }
}

absl::Status ProfilerImport::WriteBefore() {
  std::vector<EventRow> rows;
  for (const auto& [index, device] : blocks_.devices()) {
    EventRow row;
    row.kind = trace::ALLOC;
    row.layer = trace::TORCH;
    row.device = index;
    row.time_ns = begin_ns_;
    row.api = writer_.definitions().String("allocated before the profile");
    uint64_t rest = device.before;
    for (const size_t i : device.freed) {
      row.address = events_.memory[i].address;
      row.size = ProfilerBlocks::SizeOf(events_.memory[i]);
      rest -= std::min(rest, row.size);
      rows.push_back(row);
    }
    row.address = kBeforeAddress + (static_cast<uint64_t>(index) << 32);
    row.size = rest;
    if (rest != 0) rows.push_back(row);
  }
  return rows.empty() ? absl::OkStatus() : writer_.AddLiveSnapshot(rows, {});
}

uint32_t ProfilerImport::ThreadOf(uint32_t index) {
  const auto [it, is_new] = threads_.try_emplace(index, 0);
  if (is_new) it->second = writer_.definitions().Thread(static_cast<uint32_t>(events_.threads[index].second));
  return it->second;
}

// What is reserved from an event on, which may have made PyTorch reserve more.
absl::Status ProfilerImport::WriteReserved(const ProfilerMemoryEvent& event) {
  if (!event.has_reserved || !blocks_.devices().at(event.device).has_reserved) return absl::OkStatus();
  const auto [last, is_new] = reserved_.try_emplace(event.device, 0);
  if (last->second == event.total_reserved) return absl::OkStatus();
  last->second = event.total_reserved;
  EventRow row;
  row.time_ns = event.time_ns;
  row.kind = kTorchReserved;
  row.device = event.device;
  row.size = event.total_reserved;
  return writer_.Add(row);
}

absl::Status ProfilerImport::WriteEvent(const ProfilerMemoryEvent& event) {
  GPUMEM_RETURN_IF_ERROR(WriteReserved(event));
  EventRow row;
  row.time_ns = event.time_ns;
  row.kind = event.failed ? trace::ALLOC_FAILED : event.bytes < 0 ? trace::FREE : trace::ALLOC;
  row.layer = trace::TORCH;
  row.device = event.device;
  row.address = event.failed ? 0 : event.address;
  row.size = ProfilerBlocks::SizeOf(event);
  row.thread = ThreadOf(event.thread);
  row.stack = event.stack;
  row.result = event.failed ? kTorchOutOfMemory : 0;
  row.api = writer_.definitions().String(
      absl::StrCat(AllocatorOf(event.device_type), row.kind == trace::FREE ? "::free" : "::malloc"));
  GPUMEM_RETURN_IF_ERROR(writer_.Add(row));
  if (!event.failed || !event.has_total || !event.has_reserved) return absl::OkStatus();
  EventRow totals;
  totals.kind = trace::OOM_ALLOCATOR;
  totals.time_ns = row.time_ns;
  totals.device = row.device;
  totals.thread = row.thread;
  totals.size = event.total_allocated;
  totals.requested_size = event.total_reserved;
  return writer_.Add(totals);
}

absl::Status ProfilerImport::WriteRange(const ProfilerAnnotation& annotation, uint64_t number, bool begins) {
  const absl::string_view name = events_.names.Text(annotation.name);
  EventRow row;
  row.time_ns = std::max(begin_ns_, annotation.time_ns + (begins ? 0 : annotation.duration_ns));
  row.kind = begins ? trace::RANGE_START : trace::RANGE_END;
  row.handle = number;
  row.text = writer_.definitions().String(name);
  absl::string_view step = name;
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
  GPUMEM_RETURN_IF_ERROR(blocks_.Find());
  if (events_.memory.empty()) {
    return absl::DataLossError(absl::StrCat(
        "is JSON, but holds no memory event of a GPU",
        blocks_.of_host() == 0
            ? ". Profile with torch.profiler.profile(profile_memory=True)"
            : absl::StrCat(", and ", blocks_.of_host(),
                           " of the CPU: nothing was allocated on a GPU while it was profiled. Profile more of the "
                           "program, or where it uses the GPU")));
  }
  begin_ns_ = events_.memory[0].time_ns;
  GPUMEM_RETURN_IF_ERROR(stacks_.Look());
  ImportResult result;
  result.format = "torch.profiler trace";
  result.devices = static_cast<uint32_t>(blocks_.devices().size());
  result.notes = NotesOnProfile(blocks_, stacks_, events_);
  result.has_stacks = stacks_.has_any();
  // Older profiles say nothing of requests that failed.
  result.has_failures = std::any_of(events_.memory.begin(), events_.memory.end(),
                                    [](const ProfilerMemoryEvent& event) { return event.failed; });
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(Header(path, result)));
  DefineDevices();
  GPUMEM_RETURN_IF_ERROR(stacks_.Join());
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
  ImportMemory memory = ImportMemory::OfProcess();
  GPUMEM_ASSIGN_OR_RETURN(ProfilerEvents events, ReadProfilerEvents(source, &memory));
  return ProfilerImport(std::move(events), &memory, std::move(sink)).Run(path);
}

}  // namespace gpumem
