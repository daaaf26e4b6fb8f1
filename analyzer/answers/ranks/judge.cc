// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/judge.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "answers/ranks/aligned.h"
#include "answers/ranks/model_parts.h"
#include "answers/ranks/persistent.h"

namespace gpumem {
namespace {

// Of CUDA memory in all: which segments PyTorch keeps depends on chance, and one has 20 MiB.
constexpr double kEqualCuda = 0.1;
constexpr uint64_t kLeastCuda = uint64_t{32} << 20;

class Judge {
 public:
  Judge(const Job& job, const RanksQuery& query)
      : job_(job),
        query_(query),
        measure_(MeasureOf(job)),
        steps_(job.ranks, measure_),
        part_of_(Parts(job)),
        lasting_(steps_, part_of_) {}

  RanksVerdict Take() {
    verdict_.measure = measure_;
    if (measure_ != Measure::kAllocated) verdict_.subject = RanksSubject::kCudaMemory;
    verdict_.first_oom = FindFirstOom(job_);
    verdict_.stragglers = FindStragglers(job_);
    verdict_.running = RunningRanks(job_);
    verdict_.stray = FindStrayMemory(job_);
    Compare();
    ListSteps();
    return std::move(verdict_);
  }

 private:
  static PartOfRank Parts(const Job& job) {
    PartOfRank result;
    const std::vector<size_t> parts = PartsOfModel(job.ranks);
    for (size_t i = 0; i < parts.size(); ++i) result[job.ranks[i].rank] = parts[i];
    return result;
  }

  static Measure MeasureOf(const Job& job) {
    const bool is_total = std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankSummary& rank) {
      return rank.device >= 0 && rank.measure != Measure::kAllocated;
    });
    return is_total ? Measure::kTotal : Measure::kAllocated;
  }

  std::vector<RankValue> Peaks(bool of_cuda_memory) const {
    std::vector<RankValue> values;
    for (const RankSummary& rank : job_.ranks) {
      if (rank.device < 0) continue;
      const bool is_allocated = !of_cuda_memory && measure_ == Measure::kAllocated;
      values.push_back({rank.rank, is_allocated ? rank.peak_allocated : rank.peak_total + rank.context});
    }
    SortValues(&values);
    return values;
  }

  bool Contains(const std::vector<RankValue>& values, int rank) const {
    return std::any_of(values.begin(), values.end(), [&](const RankValue& value) { return value.rank == rank; });
  }

  // The step to compare in; nothing where peaks of runs are compared.
  std::optional<uint64_t> WindowToCompare() const {
    if (query_.step) return *query_.step / steps_.width();
    if (steps_.common().empty()) return std::nullopt;
    const uint64_t highest = steps_.Highest(lasting_.windows());
    // A rank that ran out of memory before is what everybody asks about.
    if (verdict_.first_oom && !Contains(steps_.In(highest), verdict_.first_oom->rank))
      return LastOf(verdict_.first_oom->rank);
    return highest;
  }

  // The last common step that this rank completed too.
  std::optional<uint64_t> LastOf(int rank) const {
    const std::vector<uint64_t>& common = steps_.common();
    const auto found = std::find_if(common.rbegin(), common.rend(),
                                    [&](uint64_t window) { return Contains(steps_.In(window), rank); });
    return found == common.rend() ? std::nullopt : std::optional<uint64_t>(*found);
  }

  void Compare() {
    const std::optional<uint64_t> window = WindowToCompare();
    if (!window) {
      CompareValues(Peaks(false), std::nullopt);
    } else {
      CompareValues(steps_.In(*window), window);
      // The step with the highest peak may hide what is seen in the others.
      if (verdict_.kind != RanksKind::kUneven && !query_.step && lasting_.any()) {
        const uint64_t strongest = lasting_.StrongestWindow();
        CompareValues(steps_.In(strongest), strongest);
        verdict_.even_at_peak = true;
      }
    }
    if (verdict_.kind != RanksKind::kUneven && measure_ == Measure::kAllocated && !query_.step) CompareCudaMemory();
  }

  void CompareCudaMemory() {
    const RanksVerdict allocated = verdict_;
    verdict_.subject = RanksSubject::kCudaMemory;
    CompareValues(Peaks(true), std::nullopt);
    if (verdict_.kind != RanksKind::kUneven) {
      verdict_ = allocated;
    }
  }

  void CompareValues(std::vector<RankValue> values, std::optional<uint64_t> window) {
    verdict_.by_step = window.has_value();
    verdict_.first_step = window ? std::max<uint64_t>(*window * steps_.width(), 1) : 0;
    verdict_.last_step = window ? std::min((*window + 1) * steps_.width() - 1, LastStep()) : 0;
    verdict_.values = std::move(values);
    verdict_.deviations.clear();
    verdict_.not_compared.clear();
    verdict_.transients.clear();
    for (const RankSummary& rank : job_.ranks) {
      if (!Contains(verdict_.values, rank.rank)) verdict_.not_compared.push_back(rank.rank);
    }
    verdict_.kind = RanksKind::kNothing;
    if (verdict_.values.empty()) return;
    Summarize();
    if (verdict_.values.size() < 2) return;
    FindDeviations(window);
  }

  uint64_t LastStep() const {
    uint64_t last = 1;
    for (const RankSummary& rank : job_.ranks) last = std::max(last, rank.steps.last_ended());
    return last;
  }

  void Summarize() {
    double sum = 0;
    for (const RankValue& value : verdict_.values) sum += static_cast<double>(value.bytes);
    verdict_.mean = static_cast<uint64_t>(std::llround(sum / static_cast<double>(verdict_.values.size())));
    verdict_.least = verdict_.values.front().bytes;
    verdict_.most = verdict_.values.back().bytes;
    verdict_.median = MedianOf(verdict_.values).bytes;
    verdict_.median_rank = MedianOf(verdict_.values).rank;
  }

  void FindDeviations(std::optional<uint64_t> window) {
    std::map<size_t, std::vector<RankValue>> by_part;
    for (const RankValue& value : verdict_.values) by_part[part_of_.at(value.rank)].push_back(value);
    verdict_.parts = by_part.size();
    verdict_.has_lone_parts = verdict_.parts > 1 && std::any_of(by_part.begin(), by_part.end(), [](const auto& each) {
                                return each.second.size() == 1;
                              });
    for (const auto& [part, values] : by_part) {
      // Of the part, not of all: what is equal for a small stage is not what is for a large one.
      const std::vector<ValueCluster> clusters = FindClusters(values, Tolerance(values));
      const auto main = std::find_if(clusters.begin(), clusters.end(), [](const auto& each) { return each.is_main; });
      for (const ValueCluster& cluster : clusters) {
        if (cluster.is_main) continue;
        const ValueCluster lasting =
            window && ListsLasting(*window) ? WithoutTransients(cluster, main->median().bytes) : cluster;
        if (!lasting.members.empty()) AddDeviation(lasting, ComparedTo(*main), part, /*by_design=*/false, window);
      }
    }
    std::sort(verdict_.transients.begin(), verdict_.transients.end());
    const bool is_uneven = !verdict_.deviations.empty();
    if (verdict_.parts > 1) AddParts(by_part, window);
    std::stable_sort(verdict_.deviations.begin(), verdict_.deviations.end(),
                     [](const Deviation& a, const Deviation& b) {
                       if (a.by_design != b.by_design) return b.by_design;
                       return std::abs(a.delta()) > std::abs(b.delta());
                     });
    const bool are_designed = !verdict_.deviations.empty();
    verdict_.kind = is_uneven ? RanksKind::kUneven : are_designed ? RanksKind::kByDesign : RanksKind::kBalanced;
  }

  uint64_t Tolerance(const std::vector<RankValue>& values) const {
    if (verdict_.subject == RanksSubject::kAllocated || measure_ != Measure::kAllocated) return EqualWithin(values);
    return std::max(kLeastCuda, static_cast<uint64_t>(kEqualCuda * static_cast<double>(MedianOf(values).bytes)));
  }

  // The median rank of all where it is one of these.
  const RankValue& ComparedTo(const ValueCluster& main) const {
    const RankValue& median = MedianOf(verdict_.values);
    return WithTrace(main, Contains(main.members, median.rank) ? median : main.median());
  }

  bool KeepsTrace(int rank) const {
    return std::any_of(job_.ranks.begin(), job_.ranks.end(),
                       [&](const RankSummary& each) { return each.rank == rank && !each.summary_only; });
  }

  // `wanted`, or, where it kept no trace to find a cause in, the one of the cluster that is nearest to it and did.
  const RankValue& WithTrace(const ValueCluster& cluster, const RankValue& wanted) const {
    const RankValue* best = &wanted;
    if (KeepsTrace(wanted.rank)) return wanted;
    const auto apart = [&](const RankValue& value) {
      return std::max(value.bytes, wanted.bytes) - std::min(value.bytes, wanted.bytes);
    };
    for (const RankValue& each : cluster.members) {
      if (KeepsTrace(each.rank) && (best == &wanted || apart(each) < apart(*best))) best = &each;
    }
    return *best;
  }

  // Whether it is known of the window what lasts: it was not asked for, nor chosen for a rank that stopped before.
  bool ListsLasting(uint64_t window) const {
    const std::vector<uint64_t>& windows = lasting_.windows();
    return !query_.step && std::binary_search(windows.begin(), windows.end(), window);
  }

  // Without ranks that are like the others in most steps.
  ValueCluster WithoutTransients(const ValueCluster& cluster, uint64_t median) {
    ValueCluster lasting = cluster;
    std::erase_if(lasting.members, [&](const RankValue& value) {
      const bool lasts = lasting_.DirectionOf(value.rank) == (value.bytes > median ? 1 : -1);
      if (!lasts) verdict_.transients.push_back(value.rank);
      return !lasts;
    });
    return lasting;
  }

  // Parts of the model whose ranks hold more or less than the median rank.
  void AddParts(const std::map<size_t, std::vector<RankValue>>& by_part, std::optional<uint64_t> window) {
    const RankValue& median = MedianOf(verdict_.values);
    const uint64_t tolerance = Tolerance(verdict_.values);
    for (const auto& [part, values] : by_part) {
      const std::vector<ValueCluster> clusters = FindClusters(values, tolerance);
      const auto main = std::find_if(clusters.begin(), clusters.end(), [](const auto& each) { return each.is_main; });
      const uint64_t here = main->median().bytes;
      const uint64_t apart = std::max(here, median.bytes) - std::min(here, median.bytes);
      if (part != part_of_.at(median.rank) && apart > tolerance) AddDeviation(*main, median, part, true, window);
    }
  }

  void AddDeviation(const ValueCluster& cluster, const RankValue& compared_to, size_t part, bool by_design,
                    std::optional<uint64_t> window) {
    Deviation deviation;
    for (const RankValue& value : cluster.members) deviation.ranks.push_back(value.rank);
    std::sort(deviation.ranks.begin(), deviation.ranks.end());
    deviation.part = part;
    deviation.by_design = by_design;
    deviation.least = cluster.members.front().bytes;
    deviation.most = cluster.members.back().bytes;
    const RankValue& compared = WithTrace(cluster, cluster.median());
    deviation.compared = compared.rank;
    deviation.bytes = compared.bytes;
    deviation.compared_to = compared_to.rank;
    deviation.compared_to_bytes = compared_to.bytes;
    deviation.moment = window ? steps_.MomentOf(deviation.compared, *window) : "peak";
    deviation.moment_to = window ? steps_.MomentOf(deviation.compared_to, *window) : "peak";
    verdict_.deviations.push_back(std::move(deviation));
  }

  void ListSteps() {
    for (const uint64_t window : steps_.All()) {
      const std::vector<RankValue> values = steps_.In(window);
      verdict_.steps.push_back({std::max<uint64_t>(window * steps_.width(), 1),
                                std::min((window + 1) * steps_.width() - 1, LastStep()), values.front().bytes,
                                MedianOf(values).bytes, values.back().bytes, values.back().rank, values.size()});
    }
  }

  const Job& job_;
  const RanksQuery& query_;
  const Measure measure_;
  const AlignedSteps steps_;
  const PartOfRank part_of_;
  const PersistentDeviations lasting_;
  RanksVerdict verdict_;
};

}  // namespace

absl::string_view RanksKindName(RanksKind kind) {
  constexpr absl::string_view kNames[] = {"nothing", "balanced", "by_design", "uneven"};
  return kNames[static_cast<size_t>(kind)];
}

RanksVerdict JudgeRanks(const Job& job, const RanksQuery& query) { return Judge(job, query).Take(); }

}  // namespace gpumem
