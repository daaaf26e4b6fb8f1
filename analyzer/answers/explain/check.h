// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One question of a checklist, put to a trace: what was looked at, what was found, and how many bytes the suggestion
// would save. A saving says what it rests on; where nothing tells, it is "not known" and never a guess. Values without
// ownership; pure functions.
//
//   Check check = FoundCheck("fragmentation.pins", "Which blocks keep mostly empty segments?");
//   check.evidence = "1.20 GiB in 3 segments, kept by train.py:42 main";
//   check.action = "free them before the next step";
//   check.saving = {SavingBasis::kAtMost, 1288490188};

#ifndef GPUMEM_ANALYZER_ANSWERS_EXPLAIN_CHECK_H_
#define GPUMEM_ANALYZER_ANSWERS_EXPLAIN_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace gpumem {

enum class CheckTopic : uint8_t { kOom, kLeak, kFragmentation, kPeak };
inline constexpr CheckTopic kCheckTopics[] = {CheckTopic::kOom, CheckTopic::kLeak, CheckTopic::kFragmentation,
                                              CheckTopic::kPeak};

enum class CheckOutcome : uint8_t {
  kFound,    // something to change, or to know
  kClear,    // looked at, and nothing is there
  kUnknown,  // this trace cannot tell
};

// What a saving rests on, the surest first.
enum class SavingBasis : uint8_t {
  kNone,        // nothing is saved by it
  kExact,       // these very bytes, as recorded
  kReplayed,    // measured: the recorded requests, run through PyTorch's own allocator
  kAtMost,      // these bytes go, and the peak falls by as much unless another moment is nearly as high
  kArithmetic,  // follows from the numbers of elements and their types
  kEstimate,    // by a rule
  kUnknown,
};

struct Saving {
  SavingBasis basis = SavingBasis::kNone;
  uint64_t bytes = 0;
  bool per_iteration = false;  // a rate: bytes each step
};

struct Check {
  CheckTopic topic = CheckTopic::kPeak;
  std::string id;        // "peak.optimizer_state"
  std::string question;  // what was checked
  CheckOutcome outcome = CheckOutcome::kClear;
  std::string evidence;  // what was found, with its numbers; for kUnknown why it is not known
  std::string action;    // "" where nothing is to be done
  Saving saving;
  bool is_minor = false;  // too little for a headline
};

absl::string_view CheckTopicName(CheckTopic topic);  // "fragmentation"
std::optional<CheckTopic> CheckTopicNamed(absl::string_view name);
absl::string_view CheckOutcomeName(CheckOutcome outcome);  // "found", "clear", "unknown"
absl::string_view SavingBasisName(SavingBasis basis);      // "at_most"

// "saves at most 1.20 GiB", "saves 8.00 MiB a step", "saving not known"; "" for kNone.
std::string SavingText(const Saving& saving);

inline Check MakeCheck(CheckTopic topic, std::string id, std::string question) {
  Check check;
  check.topic = topic;
  check.id = std::move(id);
  check.question = std::move(question);
  return check;
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_EXPLAIN_CHECK_H_
