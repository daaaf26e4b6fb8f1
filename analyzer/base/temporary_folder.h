// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A folder for what is made on the way, where TMPDIR says. Who asks for it removes it. Thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string folder, NewTemporaryFolder("plan"));   // /tmp/gpumemshim-plan-x3Tq0a
//
// Failure: Unavailable, with the reason and what to do.

#ifndef GPUMEM_ANALYZER_BASE_TEMPORARY_FOLDER_H_
#define GPUMEM_ANALYZER_BASE_TEMPORARY_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Empty, and readable for its owner alone.
absl::StatusOr<std::string> NewTemporaryFolder(absl::string_view purpose);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_TEMPORARY_FOLDER_H_
