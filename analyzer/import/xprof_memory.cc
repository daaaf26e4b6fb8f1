// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/xprof_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/xspace_profile.h"
#include "trace/import_info.h"
#include "trace/write/definition_builder.h"

namespace gpumem {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kJsonMemoryPerByte = 32;  // of a file that is nothing but short numbers
constexpr uint64_t kMostXprofBytes = uint64_t{1} << 50, kMostXprofNumber = uint64_t{1} << 62;
constexpr size_t kMostXprofAllocators = 2000;  // each has a range of addresses
// Shown in place of a line.
constexpr absl::string_view kXprofOtherSteps = "allocated outside the step of the peak";
constexpr absl::string_view kXprofNotListed = "not listed at the peak";
constexpr absl::string_view kXprofTotal = "total of the allocator";

// Numbers of 64 bits stand in quotes, zeros may be left out. Anything else is 0.
uint64_t Amount(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) return 0;
  double value = 0;
  uint64_t whole = 0;
  if (found->is_string() && absl::SimpleAtoi(found->get_ref<const std::string&>(), &whole))
    return std::min(whole, kMostXprofNumber);
  if (found->is_number()) value = found->get<double>();
  return value > 0 && value < 1e18 ? static_cast<uint64_t>(value) : 0;
}

const Json& Part(const Json& object, const char* key) {
  static const Json kNone;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return !object.is_object() || found == object.end() ? kNone : *found;
}

std::string Words(const Json& object, const char* key) {
  const Json& part = Part(object, key);
  return part.is_string() ? part.get<std::string>() : std::string();
}

uint64_t InUse(const Json& stats) {
  return std::min(Amount(stats, "stackReservedBytes") + Amount(stats, "heapAllocatedBytes"), kMostXprofBytes);
}

struct XprofBlocks {
  std::string operation;
  uint64_t bytes = 0, count = 0;  // each has so many bytes
};

struct XprofAllocator {
  int device = 0;
  std::map<uint64_t, uint64_t> totals;  // by time in ps
  uint64_t peak_ps = 0, peak = 0, lifetime_peak = 0, limit = 0;
  std::vector<XprofBlocks> at_peak;
  uint64_t samples = 0;

  uint64_t listed_at_peak() const {
    uint64_t listed = 0;
    for (const XprofBlocks& same : at_peak) listed = std::min(listed + same.bytes * same.count, kMostXprofNumber);
    return listed;
  }
};

// The allocations at the peak: each is an index into the snapshots that are kept for it, or into the special ones.
std::vector<XprofBlocks> BlocksAtPeak(const Json& profile) {
  std::vector<XprofBlocks> blocks;
  const Json& kept = Part(profile, "memoryProfileSnapshots");
  const Json& special = Part(profile, "specialAllocations");
  for (const Json& active : Part(profile, "activeAllocations")) {
    // Negative ones are of the special allocations.
    const bool is_special = absl::StartsWith(Words(active, "snapshotIndex"), "-") ||
                            (Part(active, "snapshotIndex").is_number() && Part(active, "snapshotIndex") < 0);
    const uint64_t index = Amount(active, is_special ? "specialIndex" : "snapshotIndex");
    const Json& list = is_special ? special : kept;
    if (!list.is_array() || index >= list.size()) continue;
    const Json& metadata = is_special ? list[index] : Part(list[index], "activityMetadata");
    XprofBlocks same;
    same.operation = Words(metadata, "tfOpName");
    if (is_special && Words(metadata, "regionType") == "persist/dynamic")
      same.operation = std::string(kXprofOtherSteps);
    same.bytes = std::min(Amount(metadata, "allocationBytes"), kMostXprofBytes);
    same.count = std::max<uint64_t>(Amount(active, "numOccurrences"), 1);
    if (same.bytes != 0) blocks.push_back(std::move(same));
  }
  return blocks;
}

XprofAllocator ReadAllocator(const Json& profile) {
  XprofAllocator allocator;
  // Before version 1 of the format one list was both.
  const Json& sampled = Part(profile, "sampledTimelineSnapshots");
  const Json& timeline = sampled.is_array() && !sampled.empty() ? sampled : Part(profile, "memoryProfileSnapshots");
  for (const Json& snapshot : timeline) {
    allocator.totals[Amount(snapshot, "timeOffsetPs")] = InUse(Part(snapshot, "aggregationStats"));
    ++allocator.samples;
  }
  const Json& summary = Part(profile, "profileSummary");
  allocator.peak = InUse(Part(summary, "peakStats"));
  allocator.peak_ps = Amount(summary, "peakStatsTimePs");
  allocator.lifetime_peak = Amount(summary, "peakBytesUsageLifetime");
  allocator.limit = Amount(summary, "memoryCapacity");
  if (allocator.peak != 0) {
    allocator.totals[allocator.peak_ps] = allocator.peak;
    allocator.at_peak = BlocksAtPeak(profile);
  }
  return allocator;
}

class XprofImport {
 public:
  XprofImport(ImportMemory* memory, TraceWriter::Sink sink) : memory_(*memory), writer_(std::move(sink)) {}

  absl::Status Read(const Json& file);
  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  // A total of one allocator from a time on.
  struct Point {
    uint64_t time_ps = 0, total = 0;
    size_t allocator = 0;
  };

  std::vector<std::string> Notes() const;
  EventRow RowOf(size_t allocator, uint64_t address, uint64_t bytes, bool allocates, absl::string_view operation);
  absl::Status Write(const Point& point);
  absl::Status Allocate(size_t allocator, uint64_t bytes, absl::string_view operation);
  absl::Status AllocateAtPeak(const Point& point);

  ImportMemory& memory_;
  TraceWriter writer_;
  std::vector<XprofAllocator> allocators_;
  std::vector<std::vector<EventRow>> live_;  // by allocator
  std::vector<std::string> others_;          // names of those that are on no device
  uint64_t now_ns_ = 0, next_address_ = 0;
  bool has_numbered_ = false, has_excess_ = false;
};

absl::Status XprofImport::Read(const Json& file) {
  const Json& profiles = Part(file, "memoryProfilePerAllocator");
  if (!profiles.is_object()) return absl::DataLossError("is no memory profile of XProf. Export it anew");
  for (const auto& [name, profile] : profiles.items()) {
    uint32_t number = 0;
    XprofAllocator allocator = ReadAllocator(profile);
    if (allocator.totals.empty() || allocators_.size() == kMostXprofAllocators) continue;
    allocator.device = DeviceOfAllocator(name);
    if (absl::SimpleAtoi(name, &number) && number < static_cast<uint32_t>(kMostGpus)) {
      has_numbered_ = true;
      allocator.device = static_cast<int>(number);
    }
    if (allocator.device == kNoAllocator) {
      others_.push_back(name.substr(0, 100));
      continue;
    }
    uint64_t blocks = allocator.totals.size() * 2;
    for (XprofBlocks& same : allocator.at_peak) {
      if (same.count > kMostXprofBytes / same.bytes) return absl::DataLossError("has an impossible number of blocks");
      blocks += same.count;
    }
    if (!memory_.Spend(blocks * 2 * sizeof(EventRow))) return memory_.TooMuch();
    allocators_.push_back(std::move(allocator));
  }
  if (!allocators_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("is a memory profile of XProf without memory of a device",
                   others_.empty() ? "" : absl::StrCat(" (it has ", absl::StrJoin(others_, ", "), ")"),
                   ". Profile where TensorFlow or JAX uses a GPU"));
}

std::vector<std::string> XprofImport::Notes() const {
  uint64_t samples = 0;
  for (const XprofAllocator& allocator : allocators_) samples += allocator.samples;
  std::vector<std::string> notes = {absl::StrCat("XProf's memory profile has ",
                                                 FormatCountOf(samples, "sample", "samples"),
                                                 " of totals (the tool keeps the highest of each few events, 1,000 by "
                                                 "default). Between them nothing is known. The "
                                                 "peak of the profile and its blocks by operation are exact; of other "
                                                 "blocks it has no lives, so what grows is not "
                                                 "judged.")};
  for (const XprofAllocator& allocator : allocators_) {
    const std::string who =
        allocator.device == kHostAllocator ? "Pinned host memory" : absl::StrCat("GPU ", allocator.device);
    if (allocator.lifetime_peak > allocator.peak)
      notes.push_back(absl::StrCat(who, ": outside of the profile the allocator had up to ",
                                   FormatBytes(allocator.lifetime_peak), " in use."));
    if (allocator.limit != 0)
      notes.push_back(absl::StrCat(who, ": the allocator may use ", FormatBytes(allocator.limit), "."));
  }
  if (!others_.empty())
    notes.push_back(absl::StrCat("Allocators of the host were left out: ", absl::StrJoin(others_, ", "), "."));
  if (has_numbered_)
    notes.push_back("An allocator is a number alone, as those of TPUs are: it is shown as the GPU of that number.");
  if (has_excess_)
    notes.push_back("The blocks that the file lists at the peak are more than the peak, so they are not shown.");
  return notes;
}

EventRow XprofImport::RowOf(size_t allocator, uint64_t address, uint64_t bytes, bool allocates,
                            absl::string_view operation) {
  DefinitionBuilder& definitions = writer_.definitions();
  EventRow row;
  row.kind = allocates ? trace::ALLOC : trace::FREE;
  row.layer = trace::RUNTIME;
  row.device = allocators_[allocator].device;
  row.memory = row.device == kHostAllocator ? trace::HOST_PINNED : trace::DEVICE;
  row.address = address;
  row.size = bytes;
  row.time_ns = now_ns_;
  row.thread = static_cast<uint32_t>(allocator) + 1;
  row.api = definitions.String(allocates ? "allocation without an operation" : "free");
  if (!allocates || operation.empty()) return row;
  if (operation == kXprofOtherSteps || operation == kXprofNotListed || operation == kXprofTotal) {
    row.api = definitions.String(operation);
    return row;
  }
  row.stack = definitions.Stack(0, definitions.NativeFrame("", operation, 0));
  if (row.device != kHostAllocator) row.stack = definitions.Stack(row.stack, StatedFrame("unknown", &definitions));
  return row;
}

absl::Status XprofImport::Allocate(size_t allocator, uint64_t bytes, absl::string_view operation) {
  const uint64_t address = next_address_;
  next_address_ += (bytes + 511) / 512 * 512;
  live_[allocator].push_back(RowOf(allocator, address, bytes, true, operation));
  return writer_.Add(live_[allocator].back());
}

absl::Status XprofImport::AllocateAtPeak(const Point& point) {
  const XprofAllocator& allocator = allocators_[point.allocator];
  const uint64_t listed = allocator.listed_at_peak();
  if (listed > point.total) return Allocate(point.allocator, point.total, kXprofTotal);
  for (const XprofBlocks& same : allocator.at_peak) {
    for (uint64_t i = 0; i < same.count; ++i)
      GPUMEM_RETURN_IF_ERROR(Allocate(point.allocator, same.bytes, same.operation));
  }
  return listed == point.total ? absl::OkStatus() : Allocate(point.allocator, point.total - listed, kXprofNotListed);
}

absl::Status XprofImport::Write(const Point& point) {
  now_ns_ = kMadeTimeNs + point.time_ps / 1000;
  for (const EventRow& held : std::exchange(live_[point.allocator], {}))
    GPUMEM_RETURN_IF_ERROR(writer_.Add(RowOf(point.allocator, held.address, held.size, false, "")));
  next_address_ = (point.allocator + 1) << 52;
  if (point.total == 0) return absl::OkStatus();
  const XprofAllocator& allocator = allocators_[point.allocator];
  const bool is_peak = point.time_ps == allocator.peak_ps && allocator.peak != 0;
  return is_peak ? AllocateAtPeak(point) : Allocate(point.allocator, point.total, kXprofTotal);
}

absl::StatusOr<ImportResult> XprofImport::Run(const std::string& path) {
  live_.resize(allocators_.size());
  std::vector<Point> points;
  uint64_t samples = 0;
  ImportResult result;
  for (size_t i = 0; i < allocators_.size(); ++i) {
    for (const auto& [time_ps, total] : allocators_[i].totals) points.push_back({time_ps, total, i});
    samples += allocators_[i].samples;
    result.devices += allocators_[i].device == kHostAllocator ? 0 : 1;
    has_excess_ |= allocators_[i].listed_at_peak() > allocators_[i].peak;
  }
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.time_ps < b.time_ps; });
  result.format = "XProf memory profile";
  result.has_failures = result.has_lives = false;
  result.notes = Notes();
  trace::Header header =
      ImportHeader(path, result, absl::StrCat("XProf in ", FormatCountOf(samples, "sample", "samples")));
  header.set_anchor_monotonic_ns(kMadeTimeNs + points.front().time_ps / 1000);
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(std::move(header)));
  for (const Point& point : points) GPUMEM_RETURN_IF_ERROR(Write(point));
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

bool IsXprofMemory(absl::string_view begin) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(begin), "{") &&
         absl::StrContains(begin, "\"memoryProfilePerAllocator\"");
}

absl::StatusOr<ImportResult> ImportXprofMemory(ByteSource* source, const std::string& path, TraceWriter::Sink sink) {
  ImportMemory memory = ImportMemory::OfProcess();
  GPUMEM_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(source, kJsonMemoryPerByte, &memory));
  const Json file = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded())
    return absl::DataLossError("is a memory profile of XProf, but its JSON is damaged or cut short. Export it anew");
  XprofImport import(&memory, std::move(sink));
  GPUMEM_RETURN_IF_ERROR(import.Read(file));
  return import.Run(path);
}

}  // namespace gpumem
