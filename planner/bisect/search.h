// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where a history steps: which of its members to look at when a look costs a run, and the smallest set of changes that
// makes a difference. Pure but for the looks, which the caller takes.
//
//   HistorySearch search(versions.size(), [&](size_t index) { return BytesOf(index); });
//   GPUMEM_RETURN_IF_ERROR(search.FindSteps({}));
//   search.steps().front()   // the largest change: {.before = 3, .after = 4, .change = 2.8e9}
//
// Thread-safety: none. Failure: that of the caller's look; a member that does not run is none (its look is nullopt).

#ifndef GPUMEM_PLANNER_BISECT_SEARCH_H_
#define GPUMEM_PLANNER_BISECT_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpumem::plan {

// Two members next to each other among those that were looked at and run, with different bytes.
struct HistoryStep {
  size_t before = 0, after = 0;  // indexes
  int64_t change = 0;            // bytes
  size_t failed = 0;             // between them: looked at, and do not run
  size_t unlooked = 0;           // between them: not looked at
};

class HistorySearch {
 public:
  // Bytes of a member; nullopt: it does not run.
  using Look = std::function<absl::StatusOr<std::optional<uint64_t>>(size_t index)>;

  struct Limits {
    size_t most_looks = 0;       // 0: as many as DefaultLooks(count) says. A change that counts is followed beyond it.
    double least_share = 0.005;  // of the larger side: a smaller change does not count
  };

  HistorySearch(size_t count, Look look) : count_(count), look_(std::move(look)) {}

  // 12 and two for each doubling above: what is spent on stretches whose ends need the same.
  static size_t DefaultLooks(size_t count);

  // Looks at both ends, then into the stretch with the largest change until no stretch is left whose ends differ by
  // what counts, and into the longest of the others while looks are left.
  absl::Status FindSteps(const Limits& limits);

  // The first member above `bytes`, where a history crosses it once: at most log2(count) + 2 looks, and one more for
  // each member that does not run. crossing() is none where both ends are on one side.
  absl::Status FindFirstAbove(uint64_t bytes);

  // Largest change first.
  std::vector<HistoryStep> steps() const;
  // What FindFirstAbove found.
  const std::optional<HistoryStep>& crossing() const { return crossing_; }
  const std::map<size_t, std::optional<uint64_t>>& looks() const { return looks_; }
  std::optional<size_t> first() const;  // that runs, of those looked at
  std::optional<size_t> last() const;
  uint64_t bytes(size_t index) const { return *looks_.at(index); }  // of one that runs

 private:
  struct Stretch {
    size_t begin, end;             // both run
    std::optional<size_t> middle;  // to look at next
    size_t unlooked = 0, failed = 0;
  };

  absl::Status LookAt(size_t index);
  // The first from `index` towards `towards` that runs.
  absl::StatusOr<std::optional<size_t>> LookForEnd(size_t index, size_t towards);
  std::vector<Stretch> Stretches() const;
  Stretch Between(size_t begin, size_t end) const;
  int64_t ChangeOf(const Stretch& stretch) const;
  HistoryStep StepOf(const Stretch& stretch) const;
  bool Counts(const Stretch& stretch, double least_share) const;

  size_t count_;
  Look look_;
  std::map<size_t, std::optional<uint64_t>> looks_;
  std::optional<HistoryStep> crossing_;
};

// Of `count` changes between two states: a set of them, none of which can be left out, that makes at least this share
// of the difference. Delta debugging (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), with a number in place of "fails".
class SmallestSet {
 public:
  using Set = std::vector<bool>;  // one for each change: whether it is made
  using Look = std::function<absl::StatusOr<std::optional<uint64_t>>(const Set&)>;

  static constexpr double kShare = 0.9;

  SmallestSet(size_t count, Look look) : count_(count), look_(std::move(look)) {}

  // nullopt: one of the ends does not run, or they need the same (change() is 0).
  absl::StatusOr<std::optional<Set>> Find();

  std::optional<uint64_t> BytesOf(const Set& set) const;  // of those that were looked at
  absl::StatusOr<std::optional<uint64_t>> LookAt(const Set& set);
  size_t looks() const { return looks_.size(); }

 private:
  absl::StatusOr<bool> Covers(const std::vector<size_t>& changes);
  absl::StatusOr<bool> Reduce(size_t parts, std::vector<size_t>* changes, bool* was_complement);
  Set SetOf(const std::vector<size_t>& changes) const;

  size_t count_;
  Look look_;
  std::map<Set, std::optional<uint64_t>> looks_;
  uint64_t none_ = 0, all_ = 0;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_BISECT_SEARCH_H_
