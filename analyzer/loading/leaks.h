// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What grows from iteration to iteration in a loaded trace: leaks/ asked with the trace's names, the user's
// suppressions, and the source files, as far as they are the ones that ran.
//
//   GPUMEM_ASSIGN_OR_RETURN(const auto findings, LoadLeaks("known.supp", loaded.get()));
//
// Not thread-safe.

#ifndef GPUMEM_ANALYZER_LOADING_LEAKS_H_
#define GPUMEM_ANALYZER_LOADING_LEAKS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "leaks/leaks.h"
#include "loading/load_trace.h"

namespace gpumem {

// Sets loaded->input.leaks to the result, which must stay where it is. `suppressions_file`: "" = none. InvalidArgument
// where that file cannot be read or understood, any other code where the trace cannot be read again.
absl::StatusOr<std::unique_ptr<LeakFindings>> LoadLeaks(const std::string& suppressions_file, LoadedTrace* loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LOADING_LEAKS_H_
