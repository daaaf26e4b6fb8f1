// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Limits: what a run may use, from flags or from a YAML file that a project commits:
//
//   max_peak: 70GiB             # PyTorch's allocated bytes, of any GPU
//   max_reserved: 75GiB         # what PyTorch reserved
//   max_total: 78GiB            # all CUDA memory that was recorded, with the context
//   max_leak: 1MiB/step         # what is kept from step to step
//   max_fragmentation: 20%      # of what is reserved at its peak, not in use
//   baseline: main.gmtrace      # a trace or the JSON of gpumemshim plan, relative to this file
//   tolerance: 2%               # above the baseline's peaks
//
//   GPUMEM_ASSIGN_OR_RETURN(Limits limits, ReadLimits("budget.yaml"));
//
// Pure functions but for reading the file. Failure: InvalidArgument that names the file, the line and the next step.

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_LIMITS_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

struct Limits {
  std::optional<uint64_t> max_peak, max_reserved, max_total;
  std::optional<uint64_t> max_leak;         // bytes a step
  std::optional<double> max_fragmentation;  // 0.2 is 20 %
  std::string baseline;                     // "" = none
  double tolerance = 0;                     // 0.02 is 2 %

  bool any() const {
    return max_peak || max_reserved || max_total || max_leak || max_fragmentation || !baseline.empty();
  }
};

// Sets one by its key in the file; InvalidArgument where there is no such key or the value makes no sense.
absl::Status SetLimit(absl::string_view key, const std::string& value, Limits* limits);

absl::StatusOr<Limits> ReadLimits(const std::string& path);
// `folder`: the file's, for its baseline.
absl::StatusOr<Limits> ParseLimits(const std::string& text, const std::string& name, const std::string& folder);

// What `other` sets replaces what is there.
void Override(const Limits& other, bool has_tolerance, Limits* limits);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_LIMITS_H_
