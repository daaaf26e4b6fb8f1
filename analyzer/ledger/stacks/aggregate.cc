// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/aggregate.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/user_stages.h"
#include "ledger/stacks/lifetime_pass.h"
#include "ledger/stacks/process_moments.h"
#include "ledger/stacks/weight_map.h"
#include "replay/state/accounts.h"
#include "replay/state/replay.h"

namespace gpumem {
namespace {

uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

// Of a byte: a temporary that is held for a millionth of the window has fewer bytes on average than one.
constexpr uint64_t kPartsOfByte = 1 << 16;

// What is looked at. `from_ns` is 0 where the view begins with the file; the rest is absolute.
struct AggregateWindow {
  uint64_t from_ns = 0, begin_ns = 0, end_ns = 0;
};

// In kPartsOfByte: bytes x time within the window, by the window's length.
uint64_t AverageOf(const SingleAllocation& life, const AggregateWindow& window) {
  const uint64_t begin_ns = std::max(life.alloc_ns, window.begin_ns), end_ns = std::min(life.ended_ns, window.end_ns);
  if (begin_ns >= end_ns) return 0;
  using Wide = unsigned __int128;
  const Wide parts = Wide{life.size} * kPartsOfByte * (end_ns - begin_ns) / (window.end_ns - window.begin_ns);
  return static_cast<uint64_t>(std::min<Wide>(parts, UINT64_MAX));
}

// Decides what counts, and where.
class Aggregator {
 public:
  Aggregator(const StackSelection& selection, const AggregateWindow& window, UserStages* stages)
      : selection_(selection), window_(window), stages_(stages), map_(selection.most_stacks) {}

  void Take(const SingleAllocation& life) {
    if (life.size < selection_.min_bytes || life.size > selection_.max_bytes) return;
    const uint64_t age_ns = life.ended_ns - std::min(life.ended_ns, life.alloc_ns);
    if (age_ns < selection_.min_age_ns || age_ns > selection_.max_age_ns) return;
    const bool is_average = selection_.mode == ViewMode::kAverage;
    if (is_average && (life.alloc_ns > window_.end_ns || life.ended_ns < window_.begin_ns)) return;
    if (selection_.mode != ViewMode::kPeak && !is_average && life.alloc_ns < window_.from_ns) return;
    if (selection_.mode == ViewMode::kTemporary && (!life.freed || life.others > selection_.temporary_threshold))
      return;
    const uint32_t group = selection_.by_user_stage ? stages_->Of(life.alloc_ns, life.thread) : 0;
    const uint64_t bytes = is_average ? AverageOf(life, window_) : life.size;
    map_.Add({life.stack, selection_.by_size ? life.size : 0, life.slot, life.thread, group}, {bytes, 1}, life.api);
  }

  // What the device held beyond all lives: no event says who has it, nor in how many blocks.
  void TakeNotRecorded(uint32_t slot, uint64_t bytes) {
    const StackSelection all;
    const bool takes_all = selection_.min_bytes == all.min_bytes && selection_.max_bytes == all.max_bytes &&
                           selection_.min_age_ns == all.min_age_ns && selection_.max_age_ns == all.max_age_ns &&
                           (selection_.mode == ViewMode::kPeak || window_.from_ns == 0);
    if (takes_all && bytes > 0) map_.Add({0, 0, slot, 0, 0}, {bytes, 0}, 0);
  }

  void Finish(AggregatedStacks* result) { map_.Take(result, selection_.mode == ViewMode::kAverage ? kPartsOfByte : 1); }

 private:
  const StackSelection& selection_;
  AggregateWindow window_;
  UserStages* stages_;
  WeightMap map_;
};

// PyTorch's own measure where it was at work, as `gpumemshim peak` chooses.
ViewMeasure ChosenForPeak(const DeviceAnalysis& device, ViewMeasure asked) {
  if (asked != ViewMeasure::kDefault && asked != ViewMeasure::kHeld) return asked;
  const bool uses_torch = device.peak_allocated.bytes > 0 || device.peak_reserved.bytes > 0;
  return uses_torch ? ViewMeasure::kAllocated : ViewMeasure::kTotal;
}

const SeriesPeak& PeakOf(const DeviceAnalysis& device, ViewMeasure measure) {
  if (measure == ViewMeasure::kAllocated) return device.peak_allocated;
  return measure == ViewMeasure::kReserved ? device.peak_reserved : device.peak_total;
}

// What of the process was alive at the peak, or at the end.
void AggregateProcess(const OpenTrace& trace, uint64_t from_ns, uint64_t to_ns, AggregatedStacks* result,
                      Aggregator* aggregator) {
  AggregatedDevice& process = result->devices[0];
  const ProcessMoments moments = FindProcessMoments(trace, process.measure, from_ns, to_ns);
  const bool of_peak = result->mode == ViewMode::kPeak;
  process.bytes = of_peak ? moments.peak.bytes : moments.end_bytes;
  if (of_peak) process.time_ns = moments.peak.time_ns;
  if (process.bytes == 0) return;
  const uint64_t event_index = of_peak ? moments.peak.event_index : moments.last_event_index;
  Revisit(trace.reader, *trace.checkpoints, {{event_index, [&](const LiveState& state) {
                                                VisitLive(
                                                    state, 0, process.measure, process.time_ns,
                                                    [&](const SingleAllocation& life) { aggregator->Take(life); });
                                              }}});
}

// The event after which the view looks at a device, whose time and bytes are set; nothing where nothing is there.
std::optional<uint64_t> InstantOf(const Analysis& analysis, ViewMode mode, AggregatedDevice* aggregated) {
  const DeviceAnalysis& device =
      *std::find_if(analysis.devices.begin(), analysis.devices.end(),
                    [&](const DeviceAnalysis& candidate) { return candidate.device == aggregated->device; });
  if (mode != ViewMode::kPeak) return device.leaks.at_end_torch.event_index;
  const SeriesPeak& peak = PeakOf(device, aggregated->measure);
  aggregated->time_ns = peak.time_ns;
  aggregated->bytes = peak.bytes;
  return peak.bytes == 0 ? std::nullopt : std::optional(peak.event_index);
}

// What was alive at an instant of each device.
void AggregateLive(const OpenTrace& trace, AggregatedStacks* result, Aggregator* aggregator) {
  std::vector<StateLook> looks;
  for (AggregatedDevice& aggregated : result->devices) {
    const std::optional<uint64_t> event_index = InstantOf(*trace.analysis, result->mode, &aggregated);
    if (!event_index) continue;
    looks.push_back({*event_index, [aggregated, aggregator](const LiveState& state) {
                       const uint32_t slot = SlotOfDevice(aggregated.device);
                       uint64_t recorded = 0;
                       VisitLive(state, slot, aggregated.measure, aggregated.time_ns,
                                 [&](const SingleAllocation& life) {
                                   recorded += life.size;
                                   aggregator->Take(life);
                                 });
                       aggregator->TakeNotRecorded(slot, aggregated.bytes - std::min(aggregated.bytes, recorded));
                     }});
  }
  Revisit(trace.reader, *trace.checkpoints, std::move(looks));
}

uint64_t EndBytes(const MeasureValues& end, ViewMeasure measure) {
  switch (measure) {
    case ViewMeasure::kAllocated:
      return end.allocated;
    case ViewMeasure::kReserved:
      return end.reserved;
    case ViewMeasure::kTotal:
      return end.total;
    default:
      return end.allocated + end.other;
  }
}

std::vector<AggregatedDevice> ChooseDevices(const Analysis& analysis, const StackSelection& selection,
                                            uint64_t end_ns) {
  if (IsOfProcess(selection.measure)) return {{kProcess, selection.measure, end_ns, 0}};
  std::vector<AggregatedDevice> devices;
  for (const DeviceAnalysis& device : analysis.devices) {
    if (selection.device && device.device != *selection.device) continue;
    AggregatedDevice aggregated{device.device, selection.measure, end_ns, 0};
    if (selection.mode == ViewMode::kPeak) aggregated.measure = ChosenForPeak(device, selection.measure);
    if (aggregated.measure == ViewMeasure::kDefault) aggregated.measure = ViewMeasure::kHeld;
    if (selection.mode == ViewMode::kLeaks) aggregated.bytes = EndBytes(device.end, aggregated.measure);
    devices.push_back(aggregated);
  }
  return devices;
}

bool Counts(ViewMeasure measure, LifeKind kind) {
  switch (kind) {
    case LifeKind::kBlock:
      return measure == ViewMeasure::kAllocated || measure == ViewMeasure::kHeld;
    case LifeKind::kSegment:
      return measure == ViewMeasure::kReserved || measure == ViewMeasure::kTotal;
    case LifeKind::kOther:
      break;
  }
  return measure == ViewMeasure::kHeld || measure == ViewMeasure::kTotal;
}

SingleAllocation OfLife(const Life& life, const AttributedUse& use, uint64_t end_ns) {
  SingleAllocation single;
  single.kind = life.kind == LifeKind::kBlock ? Held::kBlock : Held::kAllocation;
  single.stack = use.stack_id;
  single.size = life.size;
  single.alloc_ns = life.time_ns;
  single.freed = life.end_ns != 0;
  single.ended_ns = single.freed ? life.end_ns : end_ns;
  single.thread = life.thread;
  single.slot = life.slot;
  single.api = life.api;
  return single;
}

// False where the lives do not add up to what the analysis says, or cannot be read.
bool TakeAliveAt(const LifeTable& lives, uint64_t event, const AggregatedDevice& device, Aggregator* aggregator) {
  const uint32_t slot = SlotOfDevice(device.device);
  uint64_t bytes = 0;
  const bool is_read = lives.ReadAliveAt(event, [&](const Life& life, const AttributedUse& use) {
    if (life.slot != slot || !Counts(device.measure, life.kind)) return;
    SingleAllocation single = OfLife(life, use, device.time_ns);
    single.freed = false;
    single.ended_ns = device.time_ns;
    bytes += life.size;
    aggregator->Take(single);
  });
  return is_read && bytes == device.bytes;
}

// SingleAllocation::others of lives. Memory: 8 bytes a life.
class Births {
 public:
  void Add(const Life& life) { of_key_[KeyOf(life)].events.push_back(life.born); }
  // False where several are of one event: of what was alive when the file began. Their order is not known.
  bool Sort() {
    return std::all_of(of_key_.begin(), of_key_.end(), [](auto& each) {
      std::vector<uint64_t>& events = each.second.events;
      std::sort(events.begin(), events.end());
      return std::adjacent_find(events.begin(), events.end()) == events.end();
    });
  }
  // Of each life once, in the order of their ends. Most have few others.
  uint64_t Within(const Life& life) {
    auto& [events, ended] = of_key_[KeyOf(life)];
    while (ended < events.size() && events[ended] < life.end) ++ended;
    size_t from = ended;
    for (size_t step = 1; from > 0 && events[from - 1] > life.born; step *= 2) from -= std::min(step, from);
    const auto begin = events.begin() + static_cast<ptrdiff_t>(from),
               end = events.begin() + static_cast<ptrdiff_t>(ended);
    return static_cast<uint64_t>(end - std::upper_bound(begin, end, life.born));
  }

 private:
  using Key = std::tuple<bool, uint32_t, uint32_t>;
  static Key KeyOf(const Life& life) { return {life.kind == LifeKind::kBlock, life.slot, life.thread}; }
  struct OfKey {
    std::vector<uint64_t> events;
    size_t ended = 0;  // those before the end of the last life that was asked for
  };

  absl::flat_hash_map<Key, OfKey> of_key_;
};

bool TakeAll(const LifeTable& lives, const Analysis& analysis, const std::vector<AggregatedDevice>& devices,
             bool counts_others, Aggregator* aggregator) {
  Births births;
  const auto add = [&](const Life& life, const AttributedUse&) { births.Add(life); };
  if (analysis.events.by_kind.count("FREE_FAILED") != 0) return false;
  if (counts_others && (!lives.ReadLives(add) || !births.Sort())) return false;
  return lives.ReadLives([&](const Life& life, const AttributedUse& use) {
    for (const AggregatedDevice& device : devices) {
      if (SlotOfDevice(device.device) != life.slot || !Counts(device.measure, life.kind)) continue;
      SingleAllocation single = OfLife(life, use, analysis.end_ns);
      if (counts_others && single.freed) single.others = births.Within(life);
      aggregator->Take(single);
    }
  });
}

}  // namespace

std::optional<AggregatedStacks> AggregateKept(const LifeTable& lives, const Analysis& analysis, const StackTable& names,
                                              const StackSelection& selection) {
  if (!IsInLives(selection)) return std::nullopt;
  AggregatedStacks result;
  result.mode = selection.mode;
  result.devices = ChooseDevices(analysis, selection, analysis.end_ns);
  UserStages stages(&analysis.marks, &names);
  Aggregator aggregator(selection, {0, analysis.origin_ns, analysis.end_ns}, &stages);
  bool is_complete = true;
  if (selection.mode != ViewMode::kPeak && selection.mode != ViewMode::kLeaks) {
    is_complete = TakeAll(lives, analysis, result.devices, selection.mode == ViewMode::kTemporary, &aggregator);
  } else {
    for (AggregatedDevice& device : result.devices) {
      const std::optional<uint64_t> event = InstantOf(analysis, selection.mode, &device);
      is_complete = is_complete && (!event || TakeAliveAt(lives, *event, device, &aggregator));
    }
  }
  if (!is_complete) return std::nullopt;
  aggregator.Finish(&result);
  result.user_stages = stages.names();
  return result;
}

AggregatedStacks AggregateStacks(const OpenTrace& trace, const AnalyzeOptions& asked, const StackSelection& selection,
                                 const ProgressCallback& progress) {
  AggregatedStacks result;
  result.mode = selection.mode;
  const uint64_t origin_ns = trace.analysis->origin_ns;
  const uint64_t from_ns = asked.from_ns == 0 ? 0 : SaturatingAdd(origin_ns, asked.from_ns);
  const uint64_t to_ns = SaturatingAdd(origin_ns, asked.to_ns);
  const uint64_t end_ns = std::min(to_ns, trace.analysis->end_ns);
  result.devices = ChooseDevices(*trace.analysis, selection, end_ns);
  UserStages stages(&trace.analysis->marks, trace.names);
  Aggregator aggregator(selection, {from_ns, std::max(origin_ns, from_ns), end_ns}, &stages);
  const bool of_instant = selection.mode == ViewMode::kPeak || selection.mode == ViewMode::kLeaks;
  if (of_instant && IsOfProcess(selection.measure)) {
    AggregateProcess(trace, from_ns, to_ns, &result, &aggregator);
  } else if (of_instant) {
    AggregateLive(trace, &result, &aggregator);
  } else if (const Checkpoint* const start = trace.checkpoints->Before(0)) {
    LifetimePass pass(trace, *start, to_ns, selection.mode == ViewMode::kTemporary);
    pass.Run(
        result.devices, [&](const SingleAllocation& life) { aggregator.Take(life); }, progress);
  }
  aggregator.Finish(&result);
  result.user_stages = stages.names();
  return result;
}

}  // namespace gpumem
