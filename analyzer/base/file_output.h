// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Writing whole texts to descriptors, reading what other processes wrote so, opening files that somebody else named,
// and saying which file failed and why.

#ifndef GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_
#define GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Writes all of `bytes`, going on after interruptions. False: errno says why.
bool WriteAll(int descriptor, absl::string_view bytes);

// Reads `size` bytes of a pipe or file into `data`, going on after interruptions. False: it ended before, or errno says
// why.
bool ReadExactly(int descriptor, void* data, size_t size);

// Opens for reading a file whose name the user did not give: what a process has mapped, what a trace names, what is
// beside a trace. -1 with errno; with EINVAL for what is not a plain file, since a pipe under such a name would never
// open and a device may act on it.
int OpenRegularFile(const std::string& path);

// All of such a file. NotFound where it cannot be opened, ResourceExhausted where it is larger than `most_bytes`.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most_bytes);

// "cannot WHAT PATH: REASON", the reason from errno.
//
//   if (!WriteAll(descriptor, text)) return FileError("write", path);
absl::Status FileError(absl::string_view what, absl::string_view path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_
