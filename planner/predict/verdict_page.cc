// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The first part of a forecast's page: the verdict, the peaks, what is open; or why there is none.

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "planner/predict/failure_advice.h"
#include "planner/predict/plan_answer.h"
#include "planner/predict/verdict.h"

namespace gpumem::plan {
namespace {

std::string DeviceText(const Forecast& forecast) {
  return absl::StrCat(forecast.device_count > 1 ? absl::StrCat(forecast.device_count, " x ") : "", forecast.device.name,
                      " (", FormatBytes(forecast.capacity()), ", capability ",
                      CapabilityText(forecast.device.capability), ")");
}

// "gpumemshim plan" is sure of nothing without an upper end, or with one above what there is: what would break its
// word, in the headline.
std::string UnlessText(const Assessment& assessment, uint64_t have) {
  std::vector<std::string> unless;
  for (const Doubt& doubt : assessment.doubts) {
    if (!doubt.bounded) unless.push_back(doubt.unless);
  }
  if (unless.empty() && assessment.high > have) {
    for (const Doubt& doubt : assessment.doubts) {
      if (doubt.more == 0) continue;
      unless.push_back(absl::StrCat("up to ", FormatBytes(doubt.more), " more are taken (", doubt.what, ")"));
    }
  }
  return absl::StrJoin(unless, ", or ");
}

// What the range is of: the largest doubt, or both of the largest two.
std::string BecauseText(const Assessment& assessment) {
  std::vector<std::string> causes;
  for (const Doubt& doubt : assessment.doubts) {
    if (doubt.bounded && causes.size() < 2) causes.push_back(doubt.what);
  }
  return causes.empty() ? "" : absl::StrCat(" Open: ", absl::StrJoin(causes, "; "), ".");
}

// What would settle that there is no upper bound.
std::string SettleText(const Assessment& assessment) {
  std::vector<std::string> ways;
  for (const Doubt& doubt : assessment.doubts) {
    if (!doubt.bounded && doubt.kind != Doubt::Kind::kLaterSteps && !doubt.settle.empty()) ways.push_back(doubt.settle);
  }
  return ways.empty() ? "" : absl::StrCat(". To settle it: ", absl::StrJoin(ways, "; "));
}

std::string LeftText(const Assessment& assessment, uint64_t have) {
  if (!assessment.has_upper())
    return absl::StrCat(RangeText(assessment), "; there are ", FormatBytes(have), SettleText(assessment));
  if (assessment.high > have) {
    return absl::StrCat(RangeText(assessment), " of ", FormatBytes(have),
                        "; at the upper end PyTorch gives cached memory back, which costs time");
  }
  const uint64_t left = have - assessment.high;
  return absl::StrCat(RangeText(assessment), " of ", FormatBytes(have), ", ",
                      assessment.low == assessment.high ? "" : "at least ", FormatBytes(left), " are left");
}

// It wants more than there is, and gets through all the same.
std::string TightText(const Forecast& forecast) {
  if (forecast.refused_when_tight > 0) {
    return absl::StrCat("the program was refused ", FormatCountOf(forecast.refused_when_tight, "request", "requests"),
                        " of up to ", FormatBytes(forecast.largest_refused), ", handled that and settled on ",
                        FormatBytes(forecast.when_tight->need()), " of ", FormatBytes(forecast.capacity()));
  }
  return absl::StrCat("it would like ", FormatBytes(forecast.wanted), " of ", FormatBytes(forecast.capacity()),
                      "; with that PyTorch gives cached memory back, which costs time");
}

void AddFits(const Forecast& forecast, const Assessment& assessment, Document* answer) {
  const uint64_t have = forecast.capacity();
  const bool tight = forecast.when_tight.has_value(), barely = tight || assessment.high > have;
  switch (assessment.verdict) {
    case Verdict::kUnknown:
      if (!IsCutShort(forecast.end)) {
        answer->Paragraph("  not known: ",
                          absl::StrCat("does not fit unless ", UnlessText(assessment, have), ": ",
                                       RangeText(assessment), " of ", FormatBytes(have), SettleText(assessment)),
                          Tone::kWarning);
        return;
      }
      answer->Line({{Tone::kWarning, "  not known"},
                    {Tone::kPlain, absl::StrCat(": up to where it ended it needed ", RangeText(assessment), " of ",
                                                FormatBytes(have))}});
      return;
    case Verdict::kFits:
      answer->Paragraph(barely && forecast.refused_when_tight == 0 ? "  fits, but tightly: " : "  fits: ",
                        tight ? TightText(forecast) : LeftText(assessment, have),
                        barely ? Tone::kWarning : Tone::kGood);
      return;
    case Verdict::kFitsUnless:
      answer->Paragraph(
          "  fits unless ",
          absl::StrCat(UnlessText(assessment, have), ": ", tight ? TightText(forecast) : LeftText(assessment, have)),
          Tone::kWarning);
      return;
    case Verdict::kTooClose:
      answer->Paragraph(
          "  too close to say: ",
          tight ? TightText(forecast)
                : absl::StrCat(RangeText(assessment), " of ", FormatBytes(have), ".", BecauseText(assessment),
                               forecast.tight_is_open ? " Whether it runs in what there is, there was no time to try "
                                                        "(--timeout)."
                                                      : ""),
          Tone::kWarning);
      return;
    case Verdict::kDoesNotFit:
      answer->Paragraph(
          "  does not fit: ",
          absl::StrCat(RangeText(assessment), " are wanted, ", assessment.low == assessment.high ? "" : "at least ",
                       FormatBytes(assessment.low - have), " more than the ", FormatBytes(have), " of the device"),
          Tone::kAlarm);
  }
}

std::string Signed(uint64_t bytes, char sign) {
  return bytes == 0 ? "" : absl::StrCat(std::string(1, sign), FormatBytes(bytes));
}

// A row for each thing that is open: what it may change, and what would settle it.
void AddDoubts(const Assessment& assessment, Document* answer) {
  if (assessment.doubts.empty()) return;
  answer->Gap();
  answer->Line("What is open, and how much it may change", Tone::kHeading);
  for (const Doubt& doubt : assessment.doubts) {
    const std::string less = Signed(doubt.less, '-'), more = doubt.bounded ? Signed(doubt.more, '+') : "no upper bound";
    const std::string change = absl::StrCat(less, less.empty() || more.empty() ? "" : ", ", more);
    answer->Paragraph(absl::StrCat("  ", change, "  "),
                      absl::StrCat(doubt.what, ".", doubt.settle.empty() ? "" : absl::StrCat(" ", doubt.settle)));
  }
}

void AddOutput(const Forecast& forecast, Document* answer) {
  const std::vector<std::string> lines = forecast.last_lines();
  if (!lines.empty()) answer->Line("  The end of what it wrote:");
  for (const std::string& line : lines) answer->Line(absl::StrCat("    ", line), Tone::kAside);
  if (const std::string advice = AdviceOnFailure(forecast.output); !advice.empty())
    answer->Paragraph("  What to do: ", advice, Tone::kWarning);
}

// Of several processes: a row each, by rank.
void AddProcesses(const Forecast& forecast, Document* answer) {
  if (forecast.processes.size() < 2) return;
  std::vector<Page::Row> rows{{"process", "rank", "GPU", "allocated", "reserved", "nvidia-smi", "command"}};
  std::vector<PlannedProcess> processes = forecast.processes;
  absl::c_stable_sort(
      processes, [](const PlannedProcess& a, const PlannedProcess& b) { return a.reported.rank < b.reported.rank; });
  for (const PlannedProcess& process : processes) {
    rows.push_back({absl::StrCat(process.reported.pid), absl::StrCat(process.reported.rank),
                    absl::StrCat(process.peaks.device), FormatBytes(process.peaks.allocated),
                    FormatBytes(process.peaks.reserved), FormatBytes(process.peaks.process), process.name});
  }
  answer->Gap();
  const SharedDevice* const fullest = forecast.fullest();
  if (fullest != nullptr && fullest->processes.size() > 1) {
    answer->Line({{Tone::kHeading, absl::StrCat(fullest->processes.size(), " processes share GPU ", fullest->device)},
                  {Tone::kPlain, absl::StrCat("  together up to ", FormatBytes(fullest->in_time), " at a time; ",
                                              FormatBytes(fullest->at_once), " were all at their peaks at once")}});
  } else {
    const uint64_t skew = forecast.skew();
    const std::string compared =
        skew == 0 ? "All need the same" : absl::StrCat("The others need up to ", FormatBytes(skew), " less");
    answer->Line({{Tone::kHeading, absl::StrCat(forecast.processes.size(), " processes used CUDA; above is rank ",
                                                forecast.processes.front().reported.rank, ", which needs most")},
                  {Tone::kPlain, absl::StrCat("  ", compared)}});
  }
  std::vector<Align> columns(6, Align::kRight);
  columns.push_back(Align::kLeft);
  answer->Cells(columns, rows);
}

}  // namespace

std::string EndText(const Forecast& forecast) {
  const ProcessResult& reported = forecast.processes.empty() ? ProcessResult() : forecast.processes.front().reported;
  const std::string steps = FormatCountOf(reported.steps, "step", "steps");
  switch (forecast.end) {
    case RunEnd::kStable:
      return absl::StrCat("stopped after step ", reported.steps, ": the peak did not grow since step ",
                          reported.last_growth);
    case RunEnd::kSteps:
      return absl::StrCat("stopped after step ", reported.steps, ", as asked for; the peak grew last in step ",
                          reported.last_growth);
    case RunEnd::kEnded:
      return absl::StrCat("ran to its end",
                          reported.steps == 0 ? ", without a step of an optimizer" : absl::StrCat(", ", steps));
    case RunEnd::kTimedOut:
      return absl::StrCat("was ended after ", absl::StrFormat("%.0f s", forecast.timeout_s), ", ", steps,
                          forecast.stuck_at.empty() ? "" : absl::StrCat(", at ", forecast.stuck_at));
    case RunEnd::kSpins:
      return absl::StrCat("was ended: it waits for a value that no simulated kernel computes",
                          forecast.stuck_at.empty() ? "" : absl::StrCat(", at ", forecast.stuck_at),
                          ". --pin gives it one");
    case RunEnd::kFailed:
      return absl::StrCat("failed with exit code ", forecast.exit_code, " after ", steps);
    case RunEnd::kCapability:
      return "was not run";
  }
  return "";
}

void AddVerdict(const Forecast& forecast, Document* answer) {
  const Assessment assessment = Assess(forecast);
  answer->Line(absl::StrJoin(forecast.command, " "), Tone::kHeading);
  answer->Line({{Tone::kPlain, absl::StrCat("  on ", DeviceText(forecast), ", ")},
                {Tone::kHeading, "simulated"},
                {Tone::kPlain, ": no GPU was used"}});
  AddFits(forecast, assessment, answer);
  const RunPeaks& peaks = forecast.peaks();
  answer->Cells({Align::kLeft, Align::kRight, Align::kLeft},
                {{"allocated", FormatBytes(peaks.allocated), "peak of PyTorch's blocks"},
                 {"reserved", FormatBytes(peaks.reserved), "peak of PyTorch's segments"},
                 {"nvidia-smi", FormatBytes(peaks.process),
                  absl::StrCat("with ", FormatBytes(peaks.context), " of context and rounding",
                               peaks.elsewhere == 0 ? ""
                                                    : absl::StrCat(" and ", FormatBytes(peaks.elsewhere),
                                                                   " past PyTorch's allocator"))}},
                false);
  const bool warn = IsCutShort(forecast.end);
  answer->Paragraph("  the program ", absl::StrCat(EndText(forecast), absl::StrFormat(" (%.1f s).", forecast.seconds)),
                    warn ? Tone::kWarning : Tone::kPlain);
  if (warn) answer->Line("  The numbers are those up to there: what comes later may need more.", Tone::kWarning);
  if (forecast.end == RunEnd::kFailed) AddOutput(forecast, answer);
  if (forecast.world_size > 0) {
    answer->Paragraph("  ranks       ",
                      absl::StrCat("one process simulated rank ", forecast.rank, " of ", forecast.world_size,
                                   forecast.from_launcher.empty()
                                       ? ""
                                       : absl::StrCat(", of those that ", forecast.from_launcher, " would start"),
                                   ": the others are not there, and count as holding the same data."));
  }
  AddProcesses(forecast, answer);
  AddDoubts(assessment, answer);
}

void AddFailure(const Forecast& forecast, Document* answer) {
  answer->Line({{Tone::kHeading, absl::StrJoin(forecast.command, " ")},
                {Tone::kPlain, absl::StrCat("  on ", DeviceText(forecast))}});
  if (forecast.end == RunEnd::kCapability) {
    const ProcessResult& reported = forecast.processes.front().reported;
    answer->Paragraph("  ",
                      absl::StrCat("PyTorch ", reported.torch, " has no code for capability ",
                                   CapabilityText(forecast.device.capability), " of ", forecast.device.name,
                                   ": it was built for ", absl::StrJoin(reported.built_for, ", "),
                                   ". Install a PyTorch that has, or plan for another device."),
                      Tone::kAlarm);
    return;
  }
  answer->Paragraph("  ", absl::StrCat("No CUDA memory was used: the program ", EndText(forecast), "."), Tone::kAlarm);
  AddOutput(forecast, answer);
}

}  // namespace gpumem::plan
