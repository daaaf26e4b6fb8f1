// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// UserStages: the stages that the program itself named (docs/marks.md), by small numbers: which were open when a thread
// allocated. Those of its own thread, else those of the process (replay/mark_log.h). Not thread-safe; what it is given
// must outlive it.
//
//   UserStages stages(&analysis.marks, &stack_table);
//   stages.names()[stages.Of(block.time_ns, block.thread)]   // "train > forward"; "" where none was open

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_USER_STAGES_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_USER_STAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "replay/mark_log.h"
#include "trace/stack_table.h"

namespace gpumem {

class UserStages {
 public:
  // Beyond so many all others are one: "(other stages)".
  static constexpr uint32_t kMax = 1000;

  UserStages(const MarkLog* marks, const StackTable* stacks) : marks_(marks), stacks_(stacks) {}

  uint32_t Of(uint64_t time_ns, uint32_t thread);
  const std::vector<std::string>& names() const { return names_; }

 private:
  const MarkLog* marks_;
  const StackTable* stacks_;
  std::vector<std::string> names_{""};
  absl::flat_hash_map<uint64_t, uint32_t> numbers_;  // by MarkLog::StageAt
  uint32_t others_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_USER_STAGES_H_
