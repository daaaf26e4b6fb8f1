// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/find_reductions.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/format.h"
#include "planner/predict/verdict.h"
#include "planner/predict/what_if.h"

namespace gpumem::plan {
namespace {

constexpr double kLeastShare = 0.005;  // of the need: what saves less is of no use by itself
constexpr size_t kMaxFailureText = 160;

// What the forecast's doubts may add to a run's need, whatever a device of this size makes of it.
uint64_t RoomOf(Forecast forecast) {
  forecast.fits_when_tight.reset();
  forecast.when_tight.reset();
  const Assessment assessment = Assess(forecast);
  return assessment.high - std::min(assessment.high, assessment.likely);
}

class Finder {
 public:
  Finder(const RunRequest& request, const Forecast& forecast, uint64_t goal, const MeasureChanges& measure)
      : request_(request),
        measure_(measure),
        batch_(FindBatch(request.command, forecast.processes.front().reported.changes)),
        trains_(forecast.processes.front().reported.steps > 0),
        last_growth_(forecast.processes.front().reported.last_growth) {
    for (const ChangeReport& report : forecast.processes.front().reported.changes)
      met_.insert(report.met.begin(), report.met.end());
    answer_.goal = goal;
    answer_.need = forecast.wanted != 0 ? forecast.wanted : forecast.need();
    answer_.room = RoomOf(forecast);
    answer_.max_runs = kMaxReductionRuns;
  }

  Explanation Find() {
    TryEach();
    if (!answer_.reached()) Combine();
    const auto cheapest = [this](const Reduction& a, const Reduction& b) {
      return a.cost != b.cost ? a.cost < b.cost : *a.need < *b.need;
    };
    std::stable_sort(answer_.ways.begin(), answer_.ways.end(), cheapest);
    return std::move(answer_);
  }

 private:
  struct Single {
    ChangeKind kind;
    uint64_t need;
    ChangeReport report;
  };

  bool Reaches(const std::optional<uint64_t>& need) const {
    return need.has_value() && *need + answer_.room <= answer_.goal;
  }
  bool HasRuns() const { return answer_.runs < kMaxReductionRuns; }

  ChangedRun RunOf(const Choice& choice, const std::string& what) {
    return {WithChanges(request_, choice, batch_),
            absl::StrCat(++answer_.runs, " of at most ", kMaxReductionRuns, ": ", what)};
  }

  static ChangeReport ReportOf(ChangeKind kind, const MeasuredChange& measured) {
    for (const ChangeReport& report : measured.reports) {
      if (report.name == ChangeName(kind)) return report;
    }
    ChangeReport report;
    report.name = ChangeName(kind);
    report.applied = kind == ChangeKind::kExpandable ? 1 : 0;
    report.of = 1;
    return report;
  }

  void Refuse(ChangeKind kind, const std::string& why) {
    Reduction row;
    row.changes = {ChangeName(kind)};
    row.text = ChangeText(kind, {}, batch_);
    if (kind == ChangeKind::kCheckpointing) row.text = "checkpoint blocks";
    row.cost = CostOf(kind);
    row.why = why;
    answer_.not_possible.push_back(std::move(row));
  }

  // What is for inference alone, or for a library or layers that the program does not have, is not worth a line.
  bool IsBesideThePoint(ChangeKind kind) const {
    const std::string needed = NeedsToMeet(kind);
    return (UseOf(kind) == ChangeUse::kInference && trains_) || (!needed.empty() && met_.count(needed) == 0);
  }

  // Without a run, where it is known that there is nothing to change.
  std::string KnownReason(ChangeKind kind) const {
    if (UseOf(kind) == ChangeUse::kTraining && !trains_) return "the program makes no step of an optimizer";
    if (kind == ChangeKind::kExpandable && !ExpandableSetting().has_value())
      return "PYTORCH_CUDA_ALLOC_CONF says something of it already";
    return "";
  }

  void TryEach() {
    std::vector<ChangeKind> kinds;
    std::vector<ChangedRun> runs;
    for (size_t i = 0; i < kChangeKinds; ++i) {
      const auto kind = static_cast<ChangeKind>(i);
      if (IsBesideThePoint(kind)) continue;
      if (const std::string why = KnownReason(kind); !why.empty()) {
        Refuse(kind, why);
        continue;
      }
      kinds.push_back(kind);
      runs.push_back(RunOf({{kind}, 0}, ChangeName(kind)));
    }
    const std::vector<MeasuredChange> measured = measure_(runs);
    for (size_t i = 0; i < measured.size(); ++i) AddSingle(kinds[i], measured[i]);
  }

  void AddSingle(ChangeKind kind, const MeasuredChange& measured) {
    const ChangeReport report = ReportOf(kind, measured);
    if (!measured.need.has_value()) return Refuse(kind, absl::StrCat("the program fails with it: ", measured.failure));
    if (report.applied == 0) return Refuse(kind, report.why);
    if (measured.steps < LeastSteps({{kind}, 0})) {
      return Refuse(kind, absl::StrCat("the program makes ", FormatCountOf(measured.steps, "step", "steps"),
                                       " with it, and ", LeastSteps({{kind}, 0}), " are needed to compare"));
    }
    Reduction row = RowOf({{kind}, 0}, measured);
    const double saved = static_cast<double>(answer_.need) - static_cast<double>(*measured.need);
    (saved >= kLeastShare * static_cast<double>(answer_.need) ? answer_.ways : answer_.without_use)
        .push_back(std::move(row));
    singles_.push_back({kind, *measured.need, report});
  }

  Reduction RowOf(const Choice& choice, const MeasuredChange& measured) const {
    Reduction row;
    std::vector<std::string> texts, costs;
    for (const ChangeKind kind : choice.kinds) {
      const ChangeReport report = ReportOf(kind, measured);
      row.changes.push_back(ChangeName(kind));
      if (kind == ChangeKind::kCheckpointing && choice.blocks > 0)
        absl::StrAppend(&row.changes.back(), ":", choice.blocks);
      texts.push_back(ChangeText(kind, report, batch_));
      if (const std::string cost = CostText(kind, report); cost != "nothing") costs.push_back(cost);
      row.cost = std::max(row.cost, CostOf(kind));
      row.applied += report.applied;
      row.of += report.of;
      if (row.why.empty()) row.why = report.why;
      if (const std::string other = OtherResults(kind, report); !other.empty())
        absl::StrAppend(&row.other_results, row.other_results.empty() ? "" : "; ", other);
    }
    row.text = absl::StrJoin(texts, " + ");
    row.cost_text = costs.empty() ? "nothing" : absl::StrJoin(costs, "; ");
    row.need = measured.need;
    return row;
  }

  // A program may handle what a change breaks, and do less from then on: that is not a saving.
  uint64_t LeastSteps(const Choice& choice) const {
    const uint64_t steps = choice.Has(ChangeKind::kAccumulate) ? last_growth_ / 2 : last_growth_;
    return std::max<uint64_t>(steps, trains_ ? 1 : 0);
  }

  MeasuredChange Measure(const Choice& choice) {
    std::vector<std::string> names;
    for (const ChangeKind kind : choice.kinds) names.push_back(ChangeName(kind));
    if (choice.blocks > 0) names.push_back(absl::StrCat(choice.blocks, " blocks"));
    const std::vector<MeasuredChange> measured = measure_({RunOf(choice, absl::StrJoin(names, " + "))});
    if (measured.empty() || measured.front().steps < LeastSteps(choice)) return {};
    return measured.front();
  }

  const Single* Find(ChangeKind kind) const {
    const auto found =
        std::find_if(singles_.begin(), singles_.end(), [&](const Single& single) { return single.kind == kind; });
    return found == singles_.end() ? nullptr : &*found;
  }

  // Of two alternatives, the one that needs less.
  bool IsWorseOf(ChangeKind kind, ChangeKind one, ChangeKind other) const {
    if (kind != one && kind != other) return false;
    const Single *const mine = Find(kind), *const its = Find(kind == one ? other : one);
    return its != nullptr && (its->need < mine->need || (its->need == mine->need && kind == other));
  }

  void Combine() {
    for (const Single& single : singles_) {
      if (!Reaches(single.need)) continue;
      Choice choice{{single.kind}, 0};
      MeasuredChange measured{single.need, "", {single.report}, 0};
      Lessen(&choice, &measured);
      answer_.to_fit = RowOf(choice, measured);
      return;
    }
    Choice choice;
    MeasuredChange measured;
    measured.need = answer_.need;
    const std::optional<ChangeKind> last = Gather(&choice, &measured);
    if (choice.kinds.empty()) return;
    if (!Reaches(measured.need)) {
      answer_.least = RowOf(choice, measured);
      return;
    }
    LeaveOut(last, &choice, &measured);
    Lessen(&choice, &measured);
    answer_.to_fit = RowOf(choice, measured);
  }

  // One more change after another, the cheapest first, each kept where less is needed with it; what saves nothing at
  // first may do so once another peak is gone. Returns the one that reached the goal.
  std::optional<ChangeKind> Gather(Choice* choice, MeasuredChange* measured) {
    for (int round = 0; round < 2; ++round) {
      for (const Single& single : singles_) {
        if (choice->Has(single.kind) || Excludes(*choice, single.kind)) continue;
        if (IsWorseOf(single.kind, ChangeKind::kFused, ChangeKind::kForeach)) continue;
        const Choice more = With(*choice, single.kind);
        if (more.kinds.size() > 1 && !HasRuns()) return std::nullopt;
        const MeasuredChange now =
            more.kinds.size() == 1 ? MeasuredChange{single.need, "", {single.report}, 0} : Measure(more);
        const bool is_less = now.need.has_value() && *now.need < *measured->need;
        if (!is_less || ReportOf(single.kind, now).applied == 0) continue;
        *choice = more;
        *measured = now;
        if (Reaches(now.need)) return single.kind;
      }
    }
    return std::nullopt;
  }

  static bool AreStates(ChangeKind kind) {
    return kind == ChangeKind::kBf16States || kind == ChangeKind::kEightBitStates;
  }

  // Adam's states that are made smaller leave nothing to choose between its loops, and are made so in one way.
  static bool Excludes(const Choice& choice, ChangeKind kind) {
    const bool has_states = std::any_of(choice.kinds.begin(), choice.kinds.end(), AreStates);
    return has_states && (kind == ChangeKind::kFused || kind == ChangeKind::kForeach);
  }

  static Choice With(Choice choice, ChangeKind kind) {
    std::erase_if(choice.kinds, [&](ChangeKind each) {
      return AreStates(kind) && (each == ChangeKind::kFused || each == ChangeKind::kForeach || AreStates(each));
    });
    choice.kinds.push_back(kind);
    std::sort(choice.kinds.begin(), choice.kinds.end());
    return choice;
  }

  // What is not needed: the dearest first, but for the last one, without which it was not reached.
  void LeaveOut(std::optional<ChangeKind> last, Choice* choice, MeasuredChange* measured) {
    for (size_t i = choice->kinds.size(); i-- > 0 && HasRuns();) {
      if (choice->kinds[i] == last) continue;
      Choice less = *choice;
      less.kinds.erase(less.kinds.begin() + static_cast<std::ptrdiff_t>(i));
      const MeasuredChange now = Measure(less);
      if (!Reaches(now.need)) continue;
      *choice = less;
      *measured = now;
    }
  }

  // As few blocks as reach it.
  void Lessen(Choice* choice, MeasuredChange* measured) {
    if (!choice->Has(ChangeKind::kCheckpointing)) return;
    const auto all = static_cast<int64_t>(ReportOf(ChangeKind::kCheckpointing, *measured).of);
    std::vector<int64_t> left_alone(static_cast<size_t>(std::max<int64_t>(all, 1)));
    std::iota(left_alone.begin(), left_alone.end(), 0);
    const uint64_t limit = answer_.goal - answer_.room;
    const auto try_with = [&](int64_t left, bool) -> absl::StatusOr<uint64_t> {
      if (left == 0) return *measured->need;
      if (!HasRuns()) return UINT64_MAX;  // counts as too much
      Choice less = *choice;
      less.blocks = static_cast<uint64_t>(all - left);
      const MeasuredChange now = Measure(less);
      if (Reaches(now.need)) found_.emplace_back(less, now);
      return now.need.value_or(UINT64_MAX);
    };
    found_.clear();
    if (!FindLargest(left_alone, limit, try_with).ok()) return;
    for (const auto& [less, now] : found_) {
      if (choice->blocks != 0 && less.blocks >= choice->blocks) continue;
      *choice = less;
      *measured = now;
    }
  }

  const RunRequest request_;
  const MeasureChanges& measure_;
  const std::optional<BatchPlace> batch_;
  const bool trains_;
  std::set<std::string> met_;    // ChangeReport::met
  const uint64_t last_growth_;   // the step that had the peak
  std::vector<Single> singles_;  // that were applied, the cheapest first
  std::vector<std::pair<Choice, MeasuredChange>> found_;
  Explanation answer_;
};

// The last line that the program wrote.
std::string FailureOf(const PlannedRun& run) {
  if (run.end == RunEnd::kTimedOut) return "its time was up";
  if (run.end == RunEnd::kSpins) return absl::StrCat("it waits at ", StuckPlace(run));
  const std::vector<std::string> lines = absl::StrSplit(run.outcome.output, '\n', absl::SkipWhitespace());
  if (lines.empty()) return absl::StrCat("exit code ", run.exit_code);
  return lines.back().substr(0, kMaxFailureText);
}

MeasuredChange Summarize(const absl::StatusOr<PlannedRun>& run) {
  MeasuredChange measured;
  if (!run.ok()) {
    measured.failure = std::string(run.status().message());
    return measured;
  }
  if (!Succeeded(*run)) {
    measured.failure = FailureOf(*run);
    return measured;
  }
  measured.need = run->processes.front().peaks.need();
  measured.steps = run->processes.front().reported.steps;
  for (const PlannedProcess& process : run->processes) {
    for (const ChangeReport& report : process.reported.changes) {
      const auto same = std::find_if(measured.reports.begin(), measured.reports.end(),
                                     [&](const ChangeReport& each) { return each.name == report.name; });
      if (same == measured.reports.end()) {
        measured.reports.push_back(report);
      } else {
        // A process beside the one that trains meets nothing; of ranks that do the same, one speaks for all.
        if (report.applied > same->applied) *same = report;
      }
    }
  }
  return measured;
}

}  // namespace

MeasureChanges MeasureBy(Planner* planner) {
  return [planner](const std::vector<ChangedRun>& runs) {
    std::vector<std::pair<RunRequest, std::string>> requests;
    for (const ChangedRun& run : runs) requests.emplace_back(run.request, run.what);
    std::vector<MeasuredChange> measured(runs.size());
    planner->RunAll(requests, [&](size_t i, absl::StatusOr<PlannedRun> run) { measured[i] = Summarize(run); });
    return measured;
  };
}

Explanation FindReductions(const RunRequest& request, const Forecast& forecast, uint64_t goal,
                           const MeasureChanges& measure) {
  return Finder(request, forecast, goal, measure).Find();
}

}  // namespace gpumem::plan
