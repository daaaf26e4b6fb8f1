// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Who keeps memory, in words: what the recorder saw (ledger/leaks/owners.h), or that it was not seen and how to see it.
// Nothing is escaped. Pure functions.
//
//   OwnerText(owner)      // "history[*], a global of train.py (list of 60)"
//   KeptByText(row)       // "kept by history[*], a global of train.py (list of 60)"

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_OWNER_WORDS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_OWNER_WORDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "ledger/leaks/leaks.h"

namespace gpumem {

// "global", "class", "function", "variable", "cycle", "native".
absl::string_view OwnerRootName(OwnerRoot root);

// A way from a root; of a cycle and of C++ what is known of it. "" for what was not seen.
std::string OwnerText(const SeenOwner& owner);

// The one that has at least half of what grew, in bytes and in blocks; nullptr where nobody has, or nobody was seen.
const SeenOwner* MainOwner(const LeakRow& row);

// One clause, which ends without a full stop.
std::string KeptByText(const LeakRow& row);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_OWNER_WORDS_H_
