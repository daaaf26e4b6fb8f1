// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "ledger/load/ground.h"
#include "ledger/stacks/names.h"
#include "render/instants.h"

namespace gpumem {
namespace {

constexpr size_t kSitesPerPlateau = 3;

// What the entries of a live set are, by its measure.
StackListWords Words(const LiveSet& live) {
  StackListWords words{"the peak", live.bytes};
  if (live.measure == Measure::kReserved) words = {"the peak", live.bytes, "segments", "reserved by"};
  return words;
}

void AddOtherSeries(const LiveSet& live, Document* answer) {
  const MeasureValues& values = live.values;
  answer->Line({{Tone::kAside, absl::StrCat("  at that moment: allocated ", FormatBytes(values.allocated),
                                            ", reserved ", FormatBytes(values.reserved), ", other ",
                                            FormatBytes(values.other), ", total ", FormatBytes(values.total))}});
}

// How long the blocks had been there: what came first is state, what came last is the spike.
void AddAges(const LiveSet& live, const ReportInput& input, Document* answer) {
  if (live.stacks.empty()) return;
  uint64_t early = 0;
  const uint64_t start = input.analysis->origin_ns;
  const uint64_t middle = start + (live.time_ns > start ? (live.time_ns - start) / 2 : 0);
  for (const StackUse& use : live.stacks) {
    if (use.newest_ns <= middle) early += use.bytes;
  }
  answer->Line(
      {{Tone::kAside, absl::StrCat("  ", FormatBytes(early), " of it is from stacks that allocated nothing after ",
                                   FormatTime(input.Since(middle)), " (long-lived)")}});
}

// What the set is of, and how large it is.
void AddLiveFields(const LiveSet& live, const ReportInput& input, Document* answer) {
  answer->Field("measure", MeasureName(live.measure), "");
  answer->Field("time_ns", input.Since(live.time_ns), "");
  answer->Field("bytes", live.bytes, "");
  answer->Field("count", live.block_count, "");
  answer->Field("stack_count", live.stacks.size(), "");
}

void AddPlateaus(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Document* answer) {
  if (device.plateaus.size() < 2) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, absl::StrCat("Other near-peaks on ", DeviceLabel(device.device))},
                {Tone::kAside, "  separate in time, highest first"}});
  TextOptions few = options;
  few.top = kSitesPerPlateau;
  few.full_stacks = false;
  for (size_t i = 1; i < device.plateaus.size(); ++i) {
    const LiveSet& plateau = device.plateaus[i];
    answer->Line(absl::StrCat("  ", i + 1, ". ", FormatBytes(plateau.bytes), " ", MeasureName(plateau.measure), " at ",
                              FormatTime(input.Since(plateau.time_ns))));
    AddStackRows(plateau.stacks, {"this one", plateau.bytes}, input, few, answer);
  }
}

}  // namespace

void AddPeak(const DeviceAnalysis& device, Measure measure, const ReportInput& input, const TextOptions& options,
             Document* answer) {
  const SeriesPeak& peak = PeakOf(device, measure);
  const LiveSet& live = LiveAtPeak(device, measure);
  answer->Gap();
  const absl::string_view what = GroundOf(*input.analysis).has_history() ? "Peak " : "Held, ";
  answer->Line({{Tone::kHeading, absl::StrCat(what, MeasureName(measure), " on ", DeviceLabel(device.device), ": ",
                                              BoundedBytes(device.bound, peak.bytes))},
                {Tone::kPlain, absl::StrCat(" ", AtPeak(peak.time_ns, input), WhenText(live, input), ", ",
                                            FormatCountOf(live.block_count, "live block", "live blocks"))}});
  if (const std::string place = PlaceText(input.analysis->marks.At(peak.time_ns)); !place.empty())
    answer->Paragraph("  at      ", place);
  if (options.detail == Detail::kFull) {
    AddOtherSeries(live, answer);
    AddAges(live, input, answer);
  }
  if (live.stacks.empty()) {
    answer->Line("  nothing was live");
    return;
  }
  AddStackRows(live.stacks, Words(live), input, options, answer);
}

Document PeakAnswer(const ReportInput& input, const DeviceAnalysis* device, Measure measure, const TextOptions& options,
                    size_t top) {
  const static LiveSet kNone;
  const LiveSet& live = device == nullptr ? kNone : LiveAtPeak(*device, measure);
  Document answer = TraceAnswer("peak", input);
  answer.Field("device", device == nullptr ? Datum() : Datum(device->device),
               "the one with the largest peak, or `--device`; null = no GPU memory");
  AddLiveFields(live, input, &answer);
  answer.Field("where", PlaceDatum(live.time_ns, input), "");
  answer.Field("values", ValuesDatum(live.values), "");
  AddStacks("stacks", live.stacks, top, input, &answer);
  std::set<uint64_t> written;
  for (size_t i = 0; i < Shown(live.stacks.size(), top); ++i)
    written.insert(input.stacks->Hash(live.stacks[i].stack_id));
  AddDevices(
      input,
      [&](const DeviceAnalysis& each, Document* object) {
        std::vector<Document> plateaus;
        for (const LiveSet& plateau : each.plateaus) {
          AddLiveFields(plateau, input, &plateaus.emplace_back());
          AddStacks("stacks", plateau.stacks, top, input, &plateaus.back(), &written);
        }
        object->Documents("plateaus",
                          "in devices: separate near-peaks, highest first, each a live set; the first is the peak. A "
                          "stack here has `frames` only if no stack before has its `hash`",
                          std::move(plateaus));
      },
      &answer);
  if (device == nullptr) return answer;
  AddPeak(*device, measure, input, options, &answer);
  AddPlateaus(*device, input, options, &answer);
  return answer;
}

}  // namespace gpumem
