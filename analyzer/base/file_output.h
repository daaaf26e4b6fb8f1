// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Writing whole texts to descriptors, and saying which file failed and why.

#ifndef GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_
#define GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Writes all of `bytes`, going on after interruptions. False: errno says why.
bool WriteAll(int descriptor, absl::string_view bytes);

// "cannot WHAT PATH: REASON", the reason from errno.
//
//   if (!WriteAll(descriptor, text)) return FileError("write", path);
absl::Status FileError(absl::string_view what, absl::string_view path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_
