// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CheckedRunOf: how exact the numbers of a trace are.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "answers/compare/check.h"
#include "base/format.h"
#include "ledger/load/ground.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// Why events may be missing in the middle of what was read: then live memory may be too high as well as too low.
std::string MissingEvents(const Analysis& analysis, const RunFacts& facts) {
  const SeriesInfo& series = analysis.series;
  if (facts.is_damaged) return "the trace is damaged";
  if (facts.lost_events > 0) return absl::StrCat(FormatCountOf(facts.lost_events, "event was", "events were"), " lost");
  if (!analysis.losses.write_error.empty())
    return absl::StrCat("the trace was not written: ", analysis.losses.write_error);
  if (series.missing_files > 0) return "files of the trace are missing";
  return "";
}

// Why there was more to see before or after what was read: then a peak is the least that it was.
std::string MissingTime(const Analysis& analysis, const RunFacts& facts) {
  const SeriesInfo& series = analysis.series;
  if (series.first_number > 1 || series.events_before > 0) return "the trace's first files are not here";
  if (series.goes_on_elsewhere) return "the trace's last files are not here";
  if (analysis.marks.was_switched()) return "only a part of the program was recorded";
  if (facts.ending == RunEnding::kOutOfMemory) return "the program ran out of memory";
  if (facts.ending == RunEnding::kKilled) return "the program was killed before it was done";
  if (facts.ending == RunEnding::kRunning) return "the program still runs";
  if (analysis.snapshot) return "the program went on after this copy of its trace";
  if (facts.ending == RunEnding::kUnknown) return "the trace has no end";
  if (!GroundOf(analysis).has_history()) return "the file is of one moment";
  if (const ImportInfo import = ImportInfoOf(analysis.process.settings); import.any())
    return absl::StrCat(import.recorder, " does not count what it leaves out");
  return "";
}

// The highest of all GPUs.
std::optional<CheckedBytes> Highest(const Analysis& analysis, SeriesPeak DeviceAnalysis::*peak, bool with_context,
                                    bool is_exact) {
  std::optional<CheckedBytes> highest;
  for (const DeviceAnalysis& device : analysis.devices) {
    CheckedBytes each;
    each.bytes = (device.*peak).bytes;
    if (with_context) each.bytes += device.residual.context_bytes + device.residual.module_bytes;
    if (device.bound != PeakBound::kAbout) each.least = each.bytes;
    if (is_exact) each.most = each.bytes;
    if (!highest || each.bytes > highest->bytes) highest = each;
  }
  return highest;
}

void ReadFragmentation(const Analysis& analysis, CheckedRun* run) {
  for (const DeviceAnalysis& device : analysis.devices) {
    const MeasureValues& full = device.at_peak_reserved.values;
    if (full.reserved == 0) continue;
    const double unused =
        1 - static_cast<double>(std::min(full.allocated, full.reserved)) / static_cast<double>(full.reserved);
    run->fragmentation = std::max(run->fragmentation.value_or(0), unused);
  }
  run->fragmentation_is_exact = run->doubt.empty();
}

}  // namespace

CheckedRun CheckedRunOf(const Analysis& analysis, const RunFacts& facts) {
  CheckedRun run;
  run.name = facts.name;
  run.doubt = MissingEvents(analysis, facts);
  const bool misses_events = !run.doubt.empty();
  if (!misses_events) run.doubt = MissingTime(analysis, facts);
  bool any = false;
  for (const DeviceAnalysis& device : analysis.devices) any |= device.peak_total.bytes > 0 || UsesTorch(device);
  if (!any) {
    run.doubt = "no GPU memory was recorded";
    return run;
  }
  if (!analysis.losses.unseen.empty()) run.total_doubt = "calls of CUDA went past the recorder";
  const bool is_exact = run.doubt.empty();
  const auto peak = facts.measure == Measure::kTotal ? &DeviceAnalysis::peak_total : &DeviceAnalysis::peak_allocated;
  run.peak = Highest(analysis, peak, false, is_exact);
  run.reserved = Highest(analysis, &DeviceAnalysis::peak_reserved, false, is_exact);
  run.total = Highest(analysis, &DeviceAnalysis::peak_total, true, is_exact && run.total_doubt.empty());
  if (facts.ending == RunEnding::kOutOfMemory && !misses_events) {
    run.refused = absl::StrCat("it asked for ", FormatBytes(facts.refused_bytes), " more and ran out of memory");
    for (auto* each : {&run.peak, &run.reserved, &run.total}) {
      if (*each) (*each)->least = std::max((*each)->least, facts.needed_bytes);
    }
  }
  ReadFragmentation(analysis, &run);
  if (facts.judged_leaks) run.leak = facts.growth_per_step;
  run.leak_is_exact = !misses_events;
  return run;
}

}  // namespace gpumem
