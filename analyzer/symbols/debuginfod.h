// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Files from a debuginfod server, by libdebuginfod, which is opened at run time: without it, and without
// DEBUGINFOD_URLS in the environment, nothing is asked. It keeps what it fetched in a cache of its own. Not
// thread-safe.
//
//   const std::string path = FetchDebugFile(build_id, DebugFileKind::kDebugInfo);   // "" = not to be had

#ifndef GPUMEM_ANALYZER_SYMBOLS_DEBUGINFOD_H_
#define GPUMEM_ANALYZER_SYMBOLS_DEBUGINFOD_H_

#include <string>

namespace gpumem {

enum class DebugFileKind { kExecutable, kDebugInfo };

// Path of a file on this machine. `build_id` in raw bytes.
std::string FetchDebugFile(const std::string& build_id, DebugFileKind kind);

// Whether a server would be asked; and if not although one is named, why.
bool DebuginfodIsOn();
std::string DebuginfodProblem();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_DEBUGINFOD_H_
