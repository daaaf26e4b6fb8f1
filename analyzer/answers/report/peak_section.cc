// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/strings/str_cat.h"
#include "answers/report/live_moment.h"
#include "answers/report/marks.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
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

void AddOtherSeries(const LiveSet& live, Page* page) {
  const MeasureValues& values = live.values;
  page->Line({{Tone::kAside, absl::StrCat("  at that moment: allocated ", FormatBytes(values.allocated), ", reserved ",
                                          FormatBytes(values.reserved), ", other ", FormatBytes(values.other),
                                          ", total ", FormatBytes(values.total))}});
}

// How long the blocks had been there: what came first is state, what came last is the spike.
void AddAges(const LiveSet& live, const ReportInput& input, Page* page) {
  if (live.stacks.empty()) return;
  uint64_t early = 0;
  const uint64_t start = input.analysis->origin_ns;
  const uint64_t middle = start + (live.time_ns > start ? (live.time_ns - start) / 2 : 0);
  for (const StackUse& use : live.stacks) {
    if (use.newest_ns <= middle) early += use.bytes;
  }
  page->Line(
      {{Tone::kAside, absl::StrCat("  ", FormatBytes(early), " of it is from stacks that allocated nothing after ",
                                   FormatTime(input.Since(middle)), " (long-lived)")}});
}

}  // namespace

void AddPeak(const DeviceAnalysis& device, Measure measure, const ReportInput& input, const TextOptions& options,
             Page* page) {
  const SeriesPeak& peak = PeakOf(device, measure);
  const LiveSet& live = LiveAtPeak(device, measure);
  page->Gap();
  page->Line({{Tone::kHeading, absl::StrCat("Peak ", MeasureName(measure), " on ", DeviceLabel(device.device), ": ",
                                            BoundedBytes(device.bound, peak.bytes))},
              {Tone::kPlain, absl::StrCat(" at ", PeakInstant(peak.time_ns, input), WhenText(live, input), ", ",
                                          FormatCountOf(live.block_count, "live block", "live blocks"))}});
  if (const std::string place = PlaceText(input.analysis->marks.At(peak.time_ns)); !place.empty())
    page->Paragraph("  at      ", place);
  if (options.detail == Detail::kFull) {
    AddOtherSeries(live, page);
    AddAges(live, input, page);
  }
  if (live.stacks.empty()) {
    page->Line("  nothing was live");
    return;
  }
  AddStackRows(live.stacks, Words(live), input, options, page);
}

void AddPlateaus(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Page* page) {
  if (device.plateaus.size() < 2) return;
  page->Gap();
  page->Line({{Tone::kHeading, absl::StrCat("Other near-peaks on ", DeviceLabel(device.device))},
              {Tone::kAside, "  separate in time, highest first"}});
  TextOptions few = options;
  few.top = kSitesPerPlateau;
  few.full_stacks = false;
  for (size_t i = 1; i < device.plateaus.size(); ++i) {
    const LiveSet& plateau = device.plateaus[i];
    page->Line(absl::StrCat("  ", i + 1, ". ", FormatBytes(plateau.bytes), " ", MeasureName(plateau.measure), " at ",
                            FormatTime(input.Since(plateau.time_ns))));
    AddStackRows(plateau.stacks, {"this one", plateau.bytes}, input, few, page);
  }
}

}  // namespace gpumem
