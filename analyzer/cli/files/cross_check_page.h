// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a cross-check gave, for people and for machines (docs/commands/doctor.md, docs/json.md).
//
// Thread-safety: pure.

#ifndef GPUMEM_ANALYZER_CLI_FILES_CROSS_CHECK_PAGE_H_
#define GPUMEM_ANALYZER_CLI_FILES_CROSS_CHECK_PAGE_H_

#include <string>
#include <vector>

#include "base/json_writer.h"
#include "render/page.h"
#include "replay/crosscheck/join.h"

namespace gpumem {

struct CrossChecked {
  CrossEvidence evidence;
  CrossCheck check;
};

// The table over all processes, then a line on each process whose CUPTI did not record all of it.
void AddCrossCheck(const std::vector<CrossChecked>& processes, Page* page);

// "cross_check": {...}
void WriteJsonCrossCheck(const std::vector<CrossChecked>& processes, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FILES_CROSS_CHECK_PAGE_H_
