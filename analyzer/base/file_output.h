// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Writing whole texts to descriptors, and saying which file failed and why.

#ifndef GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_
#define GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Writes all of `bytes`, going on after interruptions. False: errno says why.
bool WriteAll(int descriptor, absl::string_view bytes);

// "cannot WHAT PATH: REASON", the reason from errno.
//
//   if (!WriteAll(descriptor, text)) return FileError("write", path);
absl::Status FileError(absl::string_view what, absl::string_view path);

// Puts a file with these bytes at `path`, in place of one that is there: whole or not at all, since it is written under
// another name in the same folder and then renamed. The mode is that of any new file (umask). Nothing is left behind
// where it fails.
absl::Status ReplaceFile(const std::string& path, absl::string_view bytes);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_
