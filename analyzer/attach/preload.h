// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What has to be right for libgpumemshim.so to work in a program: the library itself, the preload variable, and the
// program.

#ifndef GPUMEM_ANALYZER_ATTACH_PRELOAD_H_
#define GPUMEM_ANALYZER_ATTACH_PRELOAD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpumem {

// GPUMEMSHIM_LIBRARY, else libgpumemshim.so in ../lib, beside this program, or in ../lib/gpumemshim. Absolute.
absl::StatusOr<std::string> FindShimLibrary();

// The value for LD_PRELOAD: `library` first, then what `before` (may be null) names already.
std::string PreloadValue(const std::string& library, const char* before);

// Sets LD_PRELOAD, LD_LIBRARY_PATH and NVTX_INJECTION64_PATH of this process, so that its children are recorded.
absl::Status PreloadRecorder();

// The file that execvp would start, "" where there is none.
std::string FindProgram(const std::string& command);

// Why a preload would not reach `command_line`, one sentence each with what to do instead. Empty where nothing stands
// against it.
std::vector<std::string> PreloadObstacles(const std::vector<std::string>& command_line);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_PRELOAD_H_
