// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Who keeps memory, in words: what the recorder saw (replay/owners.h), or that it was not seen and how to see it.
// Nothing is escaped. Pure functions.
//
//   OwnerText(owner)      // "history[*], a global of train.py (list of 60)"
//   KeptByText(row)       // "kept by history[*], a global of train.py (list of 60)"

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_OWNER_WORDS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_OWNER_WORDS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "ledger/leaks/leaks.h"

namespace gpumem {

// A way from a root; of a cycle and of C++ what is known of it. "" for what was not seen.
std::string OwnerText(const SeenOwner& owner);

// The one that has at least half of what grew, in bytes and in blocks. Where none has, several that differ in the
// number of an element alone are one, whose path has [*] there; then those whose ways begin in the elements of one
// container, which is their path. None where nobody has, or nobody was seen.
std::optional<SeenOwner> MainOwner(const LeakRow& row);

// Whether a graph of autograd was seen to keep it: what was saved once may as well be kept by itself, its graph gone.
bool IsKeptByGraph(const LeakRow& row);

// Whether it is the error whose `except` block runs, or ran when another one came.
bool IsOfHandledError(const SeenOwner& owner);

// Of kept exceptions the one variable, or list of them, whose tracebacks keep most: bytes and blocks are sums, the path
// ends with the traceback. Not of the error that ended the program.
std::optional<SeenOwner> KeptErrorsOf(const SeenOwners& seen);

// The look at owners that followed a failed request first; nullptr where there was none.
const OwnersMoment* OwnersAfter(const OomEvent& oom, const Analysis& analysis);

// One clause, which ends without a full stop; "" for what no owner is looked for, and where nothing grows and none was
// seen.
std::string KeptByText(const LeakRow& row);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_OWNER_WORDS_H_
