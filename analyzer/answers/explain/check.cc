// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/explain/check.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem {

absl::string_view CheckTopicName(CheckTopic topic) {
  constexpr std::array<absl::string_view, 4> kNames = {"oom", "leak", "fragmentation", "peak"};
  return kNames[static_cast<size_t>(topic)];
}

std::optional<CheckTopic> CheckTopicNamed(absl::string_view name) {
  for (const CheckTopic topic : kCheckTopics)
    if (CheckTopicName(topic) == name) return topic;
  return std::nullopt;
}

absl::string_view CheckOutcomeName(CheckOutcome outcome) {
  constexpr std::array<absl::string_view, 3> kNames = {"found", "clear", "unknown"};
  return kNames[static_cast<size_t>(outcome)];
}

absl::string_view SavingBasisName(SavingBasis basis) {
  constexpr std::array<absl::string_view, 7> kNames = {"none",       "exact",    "replayed", "at_most",
                                                       "arithmetic", "estimate", "unknown"};
  return kNames[static_cast<size_t>(basis)];
}

std::string SavingText(const Saving& saving) {
  const absl::string_view rate = saving.per_iteration ? " a step" : "";
  switch (saving.basis) {
    case SavingBasis::kNone:
      return "";
    case SavingBasis::kExact:
      return absl::StrCat("saves ", FormatBytes(saving.bytes), rate);
    case SavingBasis::kReplayed:
      return saving.bytes == 0 ? "saves nothing (measured by replay)"
                               : absl::StrCat("saves ", FormatBytes(saving.bytes), rate, " (measured by replay)");
    case SavingBasis::kAtMost:
      return absl::StrCat("saves at most ", FormatBytes(saving.bytes), rate);
    case SavingBasis::kArithmetic:
      return absl::StrCat("saves ", FormatBytes(saving.bytes), rate, " (by arithmetic)");
    case SavingBasis::kEstimate:
      return absl::StrCat("saves about ", FormatBytes(saving.bytes), rate, " (estimate)");
    case SavingBasis::kUnknown:
      return "saving not known";
  }
  return "";
}

}  // namespace gpumem
