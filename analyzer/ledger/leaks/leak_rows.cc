// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/leak_rows.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ledger/leaks/replacement.h"
#include "replay/state/accounts.h"

namespace gpumem {
namespace {

// What a forward pass makes beside a graph (the loss itself), where it is at most this share of the graph.
constexpr double kBesideGraph = 0.05;
// Reserved memory grows for a reason of its own where allocated memory grows by less than this share of it.
constexpr double kOwnGrowth = 0.5;
// Of a line's growth at least this share is growth of all lines.
constexpr double kOwnRise = 0.5;
// Of what autograd saves, graphs that are kept keep at least this share.
constexpr double kLeastSavedShare = 0.5;

// By SurvivorKind.
constexpr LeakKind kLeakKinds[] = {LeakKind::kMemory, LeakKind::kMemory,  LeakKind::kMemory, LeakKind::kOutside,
                                   LeakKind::kHost,   LeakKind::kManaged, LeakKind::kDriver};

// Memory of one line, by what is known of it.
struct Group {
  LeakPlace place;
  SurvivorKind kind = SurvivorKind::kPlain;
  std::vector<std::pair<uint64_t, const SurvivalCurve*>> stacks;
};

class RowMaker {
 public:
  RowMaker(const LeakRowSources& sources, uint32_t slot) : sources_(sources), pass_(*sources.pass), slot_(slot) {
    for (const SurvivalPass::Ended& ended : pass_.alive_at_last_allocation()) {
      if (ended.slot != slot) continue;
      alive_at_last_[ended.stack] += ended.bytes;
      if (ended.alive) alive_at_end_[ended.stack] += ended.bytes;
    }
  }

  std::vector<LeakRow> Make() {
    const std::vector<Group> groups = Groups(pass_.curves());
    AddUpPlain(groups);
    for (const Group& group : groups) {
      LeakRow row;
      if (!JudgeGroup(group, &row)) continue;
      (group.kind == SurvivorKind::kSaved && row.status == LeakStatus::kGrowing ? graphs_ : rows_)
          .push_back(std::move(row));
    }
    MergeGraphs();
    FindReplaced();
    NameCandidates();
    for (LeakRow& row : rows_) row.owners = pass_.owners().Of(row.stacks, slot_);
    for (size_t loop = 0; slot_ != 0 && loop < sources_.loops; ++loop) JudgeAllocator(loop);
    return std::move(rows_);
  }

 private:
  // Where a loop's series begins: behind what only arrives after the delay, and behind what warms up.
  struct Window {
    size_t begin = 0, first = 0, end = 0;  // anchors: of the loop, and the first one that is judged
  };
  Window WindowOf(size_t loop) const { return WindowOf(loop, pass_.DelayOf(loop)); }
  Window WindowOf(size_t loop, size_t delay) const {
    const auto [begin, end] = pass_.AnchorsOf(loop);
    const size_t warm_up = std::clamp<size_t>((end - begin) / 10, 1, 20);
    return {begin, std::min(begin + delay + warm_up, end), end};
  }

  std::vector<Group> Groups(const SurvivalPass::Curves& curves) const {
    std::map<std::pair<std::string, SurvivorKind>, Group> by_site;
    std::vector<SurvivorKey> keys;
    for (const auto& [key, curve] : curves) {
      if (key.slot == slot_) keys.push_back(key);
    }
    std::sort(keys.begin(), keys.end());
    for (const SurvivorKey& key : keys) {
      LeakPlace place = (*sources_.place_of)(key.stack);
      Group& group = by_site[{place.site, key.kind}];
      if (group.stacks.empty()) {
        group.place = std::move(place);
        group.kind = key.kind;
      }
      group.stacks.emplace_back(key.stack, &curves.at(key));
    }
    std::vector<Group> groups;
    for (auto& [site, group] : by_site) groups.push_back(std::move(group));
    return groups;
  }

  SurvivalCurve::Values ValuesOf(const Group& group) const {
    SurvivalCurve::Values values{std::vector<int64_t>(pass_.anchor_count()),
                                 std::vector<int64_t>(pass_.anchor_count())};
    for (const auto& [stack, curve] : group.stacks) curve->AddTo(&values);
    return values;
  }

  // Fills what a series in a loop says; false where flat.
  bool Judge(const std::vector<int64_t>& values, size_t loop, LeakRow* row, bool is_replaced = false) const {
    const size_t delay = is_replaced ? 0 : pass_.DelayOf(loop);
    const Window window = WindowOf(loop, delay);
    const auto at = [&](size_t anchor) { return values.begin() + static_cast<std::ptrdiff_t>(anchor); };
    const GrowthVerdict verdict = JudgeGrowth({at(window.first), at(window.end)});
    if (verdict.status == LeakStatus::kFlat) return false;
    row->status = verdict.status;
    row->loop = loop;
    row->grown_bytes = static_cast<uint64_t>(verdict.grown);
    row->bytes_per_iteration = verdict.bytes_per_iteration / static_cast<double>(pass_.StrideOf(loop));
    row->growths = verdict.rises;
    row->confidence = verdict.confidence;
    row->bytes.assign(at(window.begin), at(window.end));
    const size_t judged = window.first + verdict.first_rise;
    const size_t gap = std::max(verdict.longest_gap, verdict.first_rise + 1);
    const size_t rise = FirstRise(values, window.begin + delay + 1, judged, gap);
    // What is counted for the first time at an anchor was allocated `delay` iterations before it. Iterations end at
    // their anchors, and what the first one keeps is in the baseline.
    size_t iteration = rise - window.begin - delay;
    if (iteration > 1) ++iteration;
    row->since_iteration = (iteration - 1) * pass_.StrideOf(loop) + 1;
    row->since_ns = pass_.TimeOf(rise - delay);
    return true;
  }

  // Growth that goes on since before the judged stretch began there. `gap`: as far apart as rises may be.
  static size_t FirstRise(const std::vector<int64_t>& values, size_t earliest, size_t judged, size_t gap) {
    size_t rise = judged;
    for (size_t i = judged; i-- > earliest && rise - i <= gap;) {
      if (values[i - 1] < values[i] && values[i] < values[rise]) rise = i;
    }
    return rise;
  }

  bool JudgeGroup(const Group& group, LeakRow* row) const {
    const SurvivalCurve::Values values = ValuesOf(group);
    for (size_t loop = 0; loop < sources_.loops; ++loop) {
      LeakRow here;
      if (!Judge(values.bytes, loop, &here)) continue;
      if (std::tie(here.status, here.grown_bytes) <= std::tie(row->status, row->grown_bytes)) continue;
      *row = std::move(here);
    }
    if (row->status == LeakStatus::kFlat ||
        (row->status == LeakStatus::kGrowing && !GrowsAltogether(group, values.bytes, row->loop)))
      return false;
    const Window window = WindowOf(row->loop);
    const int64_t blocks = values.blocks[window.end - 1] - values.blocks[window.first];
    row->grown_blocks = static_cast<uint64_t>(std::max<int64_t>(blocks, 0));
    row->kind = kLeakKinds[static_cast<size_t>(group.kind)];
    row->place = group.place;
    for (const auto& [stack, curve] : group.stacks) row->stacks.push_back(stack);
    row->stack = LargestOf(group, window.end - 1);
    if (row->status != LeakStatus::kGrowing && IsMeantToGrow(group, row->stack)) row->status = LeakStatus::kExpected;
    if (row->status == LeakStatus::kGrowing && MayBeOneAThread(*row)) row->status = LeakStatus::kExpected;
    if (row->status == LeakStatus::kGrowing && WasFreed(*row)) row->status = LeakStatus::kFreed;
    if (row->status == LeakStatus::kGrowing && (!Stays(group, row->loop) || pass_.PreparesGraphs(row->loop)))
      row->status = LeakStatus::kExpected;
    return true;
  }

  // Threads that serve requests begin one after the other, and each has its own workspace and a request in its hands.
  bool MayBeOneAThread(const LeakRow& row) const {  // which are numbered from 1
    const auto threads = static_cast<uint32_t>(row.grown_blocks + 1);
    return !sources_.are_steps[row.loop] && threads > 1 && sources_.classifier->stacks()->thread(threads) != nullptr;
  }

  static bool IsPlain(const Group& group) {
    return group.kind == SurvivorKind::kPlain || group.kind == SurvivorKind::kSaved;
  }

  // Whether a block was ever saved by autograd may be found out late in its life: of a buffer that is full, those that
  // were not rise to the end while those that were fall.
  void AddUpPlain(const std::vector<Group>& groups) {
    for (const Group& group : groups) {
      if (!IsPlain(group)) continue;
      const std::vector<int64_t> bytes = ValuesOf(group).bytes;
      std::vector<int64_t>& sum = altogether_[group.place.site];
      sum.resize(bytes.size());
      all_.resize(bytes.size());
      for (size_t i = 0; i < bytes.size(); ++i) {
        sum[i] += bytes[i];
        all_[i] += bytes[i];
      }
    }
  }

  // From the first quarter of a loop to its last one, on average.
  double RiseOf(const std::vector<int64_t>& bytes, size_t loop) const {
    const Window window = WindowOf(loop);
    const size_t quarter = std::max<size_t>((window.end - window.first) / 4, 1);
    double rise = 0;
    for (size_t i = 0; i < quarter && window.first + i < window.end; ++i)
      rise += static_cast<double>(bytes[window.end - 1 - i] - bytes[window.first + i]);
    return rise / static_cast<double>(quarter);
  }

  bool GrowsAltogether(const Group& group, const std::vector<int64_t>& bytes, size_t loop) const {
    if (!IsPlain(group)) return true;
    LeakRow row;
    if (!Judge(altogether_.at(group.place.site), loop, &row) || row.status != LeakStatus::kGrowing) return false;
    // What takes the place of another line's memory is no growth.
    if (RiseOf(all_, loop) < kOwnRise * RiseOf(bytes, loop)) return false;
    // Requests differ: in a cache that is full one line's answers take the place of another's.
    return sources_.are_steps[loop] || (Judge(all_, loop, &row) && row.status == LeakStatus::kGrowing);
  }

  // Of a model and its states: layers that are trained one after the other, a network that is made anew and larger.
  bool Stays(const Group& group, size_t loop) const {
    if (group.kind != SurvivorKind::kModel) return true;
    std::vector<int64_t> stayed(pass_.anchor_count());
    for (const auto& [stack, curve] : group.stacks) {
      const std::vector<int64_t> part = pass_.StayedOf({slot_, stack, group.kind});
      std::transform(part.begin(), part.end(), stayed.begin(), stayed.begin(), std::plus<>());
    }
    LeakRow row;
    return Judge(stayed, loop, &row) && row.status == LeakStatus::kGrowing;
  }

  // A list of an evaluation's predictions, which goes while the program goes on; what is let go of only when nothing
  // more is allocated was kept to the end. From training step to training step growth is none the better for it. Of
  // memory that is no tensor the program's own free before its end is the witness.
  bool WasFreed(const LeakRow& row) const {
    const bool is_own = row.kind != LeakKind::kMemory && row.kind != LeakKind::kGraph && !IsOfTensors(row.place);
    if (sources_.are_steps[row.loop] && !is_own) return false;
    const auto& alive_then = is_own && !sources_.ran_out ? alive_at_end_ : alive_at_last_;
    uint64_t alive = 0;
    for (const uint64_t stack : row.stacks)
      if (const auto found = alive_then.find(stack); found != alive_then.end()) alive += found->second;
    return 2 * alive < row.grown_bytes;
  }

  // What grows although none of its blocks stays. Of concatenations only: elsewhere it may be batches that get larger.
  // In training steps only: elsewhere it may be the answer that is being generated, whose keys grow by each token.
  void FindReplaced() {
    for (const Group& group : Groups(pass_.short_curves())) {
      const auto is_known = [&](const LeakRow& row) {
        return row.status == LeakStatus::kGrowing && row.place.site == group.place.site;
      };
      if (group.kind != SurvivorKind::kPlain || !IsConcatenation(group.place)) continue;
      if (std::any_of(rows_.begin(), rows_.end(), is_known)) continue;
      const SurvivalCurve::Values values = ValuesOf(group);
      for (size_t loop = 0; loop < sources_.loops; ++loop) {
        if (!sources_.are_steps[loop]) continue;
        const Window window = WindowOf(loop, 0);
        const auto part = [&](const std::vector<int64_t>& all) {
          return std::vector<int64_t>(all.begin() + static_cast<std::ptrdiff_t>(window.first),
                                      all.begin() + static_cast<std::ptrdiff_t>(window.end));
        };
        LeakRow row;
        if (!GrowsByReplacement(part(values.bytes), part(values.blocks)) ||
            !Judge(values.bytes, loop, &row, /*is_replaced=*/true))
          continue;
        row.is_replaced = true;
        row.place = group.place;
        for (const auto& [stack, curve] : group.stacks) row.stacks.push_back(stack);
        row.stack = LargestOf(group, window.end - 1);
        if (row.status == LeakStatus::kGrowing && !IsMeantToGrow(group, row.stack)) rows_.push_back(std::move(row));
      }
    }
  }

  uint64_t LargestOf(const Group& group, size_t anchor) const {
    uint64_t largest = group.stacks.front().first;
    int64_t most = -1;
    for (const auto& [stack, curve] : group.stacks) {
      SurvivalCurve::Values values{std::vector<int64_t>(pass_.anchor_count()),
                                   std::vector<int64_t>(pass_.anchor_count())};
      curve->AddTo(&values);
      if (values.bytes[anchor] > most) {
        most = values.bytes[anchor];
        largest = stack;
      }
    }
    return largest;
  }

  bool IsMeantToGrow(const Group& group, uint64_t stack) const {
    if (group.kind == SurvivorKind::kModel) return true;
    const StackClassification classification = sources_.classifier->Of(stack);
    return IsSetUp(classification.stage) || classification.stage == Stage::kOptimizer ||
           classification.category == Category::kWorkspace;
  }

  // Made by a forward pass, or by the very lines that made a graph.
  bool IsOfForwardPass(const LeakRow& row, const std::vector<std::vector<UserFrame>>& graphs) const {
    const Stage stage = sources_.classifier->Of(row.stack).stage;
    if (stage == Stage::kForward || stage == Stage::kLoss) return true;
    if (row.place.frames.empty()) return false;
    const UserFrame& line = row.place.frames.front();
    const auto is_line = [&](const UserFrame& frame) { return frame.line == line.line && frame.file == line.file; };
    return std::any_of(graphs.begin(), graphs.end(),
                       [&](const auto& frames) { return std::any_of(frames.begin(), frames.end(), is_line); });
  }

  // Per loop: all that autograd keeps, and the little that the same forward passes made beside it. Tensors that
  // outlive their graph (a list of detached activations) were saved, too: so most of what is saved stays, or a line is
  // found that keeps it.
  void MergeGraphs() {
    for (size_t loop = 0; loop < sources_.loops; ++loop) {
      LeakRow merged;
      std::vector<LeakRow> parts;
      std::vector<std::vector<UserFrame>> frames;
      uint64_t largest = 0;
      for (const LeakRow& row : graphs_) {
        if (row.loop != loop) continue;
        frames.push_back(row.place.frames);
        const bool is_largest = row.grown_bytes > largest;
        largest = std::max(largest, row.grown_bytes);
        parts.push_back(row);
        merged.Absorb(row, is_largest);
      }
      if (parts.empty()) continue;
      const std::vector<size_t> beside = Beside(merged, frames);
      for (const size_t i : beside) frames.push_back(rows_[i].place.frames);
      NameCandidate(Kept::kGraph, frames, &merged);
      const double saved = pass_.SavedPerIteration(loop, slot_);
      if (merged.candidate.line == 0 && merged.bytes_per_iteration < kLeastSavedShare * saved) {
        for (LeakRow& part : parts) rows_.push_back(std::move(part));
        continue;
      }
      for (auto i = beside.rbegin(); i != beside.rend(); ++i) {
        merged.Absorb(rows_[*i], false);
        rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(*i));
      }
      merged.kind = LeakKind::kGraph;
      rows_.push_back(std::move(merged));
    }
  }

  std::vector<size_t> Beside(const LeakRow& graph, const std::vector<std::vector<UserFrame>>& frames) const {
    std::vector<size_t> beside;
    const double little = kBesideGraph * static_cast<double>(graph.grown_bytes);
    for (size_t i = 0; i < rows_.size(); ++i) {
      const LeakRow& row = rows_[i];
      if (row.loop == graph.loop && row.status == LeakStatus::kGrowing && row.kind == LeakKind::kMemory &&
          static_cast<double>(row.grown_bytes) <= little && IsOfForwardPass(row, frames))
        beside.push_back(i);
    }
    return beside;
  }

  void NameCandidate(Kept kept, const std::vector<std::vector<UserFrame>>& frames, LeakRow* row) const {
    if (*sources_.source == nullptr) return;
    const std::vector<Keeper> keepers = FindKeepers(kept, frames, *sources_.source);
    if (keepers.empty()) return;
    row->code = keepers.front().code;
    row->candidate = keepers.front().frame;
  }

  // Of plain memory only another line than the one that allocates.
  void NameCandidates() {
    for (LeakRow& row : rows_) {
      if (row.status != LeakStatus::kGrowing || row.kind != LeakKind::kMemory || row.is_replaced) continue;
      NameCandidate(Kept::kTensor, {row.place.frames}, &row);
      if (row.candidate.line == row.place.line && row.candidate.file == row.place.file) row.candidate = {};
      if (row.candidate.line == 0) row.code.clear();
    }
  }

  // What is reserved follows the peaks: larger batches need more of it, and nothing is scattered then.
  void JudgeAllocator(size_t loop) {
    const Window window = WindowOf(loop);
    std::vector<int64_t> reserved, highest;
    for (size_t anchor = 0; anchor < pass_.anchor_count(); ++anchor) {
      reserved.push_back(static_cast<int64_t>(pass_.TotalsAt(anchor, slot_).reserved));
      highest.push_back(static_cast<int64_t>(pass_.HighestBefore(anchor, slot_)));
    }
    LeakRow row;
    if (window.first == window.end || pass_.PreparesGraphs(loop)) return;
    if (!Judge(reserved, loop, &row) || row.status != LeakStatus::kGrowing) return;
    const int64_t grown = *std::max_element(highest.begin() + static_cast<ptrdiff_t>(window.first),
                                            highest.begin() + static_cast<ptrdiff_t>(window.end)) -
                          highest[window.first];
    if (static_cast<double>(grown) >= kOwnGrowth * static_cast<double>(row.grown_bytes)) return;
    row.kind = LeakKind::kAllocator;
    rows_.push_back(std::move(row));
  }

  const LeakRowSources& sources_;
  const SurvivalPass& pass_;
  uint32_t slot_;
  std::vector<LeakRow> rows_, graphs_;  // the next two: bytes of plain and of saved memory at each anchor
  std::map<std::string, std::vector<int64_t>> altogether_;
  std::vector<int64_t> all_;
  absl::flat_hash_map<uint64_t, uint64_t> alive_at_last_, alive_at_end_;  // bytes by stack; last: allocation
};

}  // namespace

std::vector<LeakRow> LeakRows(const LeakRowSources& sources, int device) {
  return RowMaker(sources, SlotOfDevice(device)).Make();
}

}  // namespace gpumem
