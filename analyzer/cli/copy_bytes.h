// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CopyBytes: a part of a trace into a file that is being written. Not thread-safe.
//
//   GPUMEM_RETURN_IF_ERROR(CopyBytes(&window, 0, window.file_bytes(), file.get()));

#ifndef GPUMEM_ANALYZER_CLI_COPY_BYTES_H_
#define GPUMEM_ANALYZER_CLI_COPY_BYTES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/output_file.h"
#include "trace/file_window.h"

namespace gpumem {

// Bytes [from, to) of the window's file.
absl::Status CopyBytes(FileWindow* window, uint64_t from, uint64_t to, OutputFile* file);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_COPY_BYTES_H_
