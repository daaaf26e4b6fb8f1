// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SpareResults: results of operators that the GPU need not hold.
//
// Joined: a loop joins what it computes to what it has, by torch.cat, so that all of it lies on the GPU, and twice
// while a new one is made. Known by the lives of one stack's blocks:
//
//   [=====]            8 MiB
//      [======]       16 MiB     each larger than the one before, made while that is there, which goes before the next
//           [======]  24 MiB
//
// Little used: a product of matrices, and its copy in another type, of which a slice alone is used, as where a language
// model computes the logits of all positions and takes the last one. Which slice is not recorded; seen is what is
// allocated from there to its end: first what an operator that keeps shapes, or argmax, made of a small part, and
// nothing large. Judged at the peak, as far as kNear events around it show.
//
// Not thread-safe. Its memory grows with the results of torch.cat.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_SPARE_RESULTS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_SPARE_RESULTS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Alive after event `born` and before event `end`.
struct LifeSpan {
  uint64_t born = 0, end = 0, size = 0, stack = 0;
};

enum class ResultOf : uint8_t {
  kOther,
  kProduct,  // of matrices
  kCopy,     // in another type
  kJoin,
  kAlike,    // of the shape of what it is made of
  kIndices,  // one for each row: argmax
};

// "aten::linear" is a product.
ResultOf ResultOfOperator(absl::string_view name);

class SpareResults {
 public:
  // `widths`: of the model's matrices, the elements of a row that they make.
  SpareResults(uint64_t peak, uint64_t peak_event, absl::flat_hash_set<uint64_t> widths)
      : peak_(peak), peak_event_(peak_event), widths_(std::move(widths)) {}

  // In the order of `end`. `is_plain`: neither a backward pass nor the model needs it. `requested`: 0 = not known.
  void Take(const LifeSpan& block, uint64_t requested, ResultOf of, bool is_plain);

  std::vector<LifeSpan> Joined() const;
  // Those of the whole run, of the stacks whose results at the peak are little used.
  std::vector<LifeSpan> LittleUsed();

 private:
  static constexpr uint64_t kNear = 4096;

  struct Result {
    LifeSpan span;
    uint64_t requested = 0;
    ResultOf of = ResultOf::kOther;
    bool is_large = false;  // a product or a copy that may be little used
  };
  bool IsLittleUsed(const Result& result) const;
  bool IsSliceOf(const Result& made, const Result& result) const;

  const uint64_t peak_, peak_event_;
  const absl::flat_hash_set<uint64_t> widths_;
  std::map<uint64_t, std::vector<LifeSpan>> joins_;  // by stack
  std::vector<Result> near_;                         // born about the peak; from LittleUsed on in that order
  std::vector<LifeSpan> large_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_SPARE_RESULTS_H_
