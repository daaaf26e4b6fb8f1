// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Words of a sweep's page in English and Chinese, and titles of the names that rows hold. Pure functions.
//
//   Word(SweepWord::kFits, SweepLanguage::kChinese)                   // "放得下"
//   MemoryTypeTitle("optimizer_state", SweepLanguage::kEnglish)       // "optimizer state"

#ifndef GPUMEM_PLANNER_SWEEP_WORDS_H_
#define GPUMEM_PLANNER_SWEEP_WORDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "planner/sweep/row.h"
#include "planner/sweep/scaling.h"

namespace gpumem::plan {

enum class SweepWord : uint8_t {
  kSimulated,
  kOnGpu,
  kConfiguration,
  kConfigurations,
  kSteps,
  kAllocated,
  kReserved,
  kProcess,
  kResult,
  kTime,
  kLargestThatFits,
  kWithMargin,
  kNextLarger,
  kIsLeft,
  kIsMissing,
  kLeastMemory,
  kNothingFits,
  kNothingAnswered,
  kScaling,
  kPartsOf,
  kDoesNotFit,
  kMemoryTypes,
  kComponents,
  kOperations,
  kStages,
  kAtPeak,
  kAllocatedInAll,
  kPeak,
  kGrowth,
  kTimes,
  kLosses,
  kEvents,
  kFiles,
  kNotes,
  kLeft,
  kNothingRan,
  kAndMore,
};

absl::string_view Word(SweepWord word, SweepLanguage language);

// "fits", "out of memory", ...
absl::string_view StateTitle(RowState state, SweepLanguage language);

// Of categories ("optimizer_state"), components ("mlp"), operations and stages ("model_load"). A name that is not known
// stays as it is, with blanks for underscores.
std::string MemoryTypeTitle(const std::string& name, SweepLanguage language);
std::string ComponentTitle(const std::string& name, SweepLanguage language);
std::string StageTitleOf(const std::string& name, SweepLanguage language);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_WORDS_H_
