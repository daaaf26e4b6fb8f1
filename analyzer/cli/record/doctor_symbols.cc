// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "cli/record/doctor_checks.h"
#include "symbols/module_files.h"
#include "symbols/symbol_cache.h"

namespace gpumem {

Finding CheckSymbols() {
  const bool has_debug_files = access("/usr/lib/debug/.build-id", R_OK | X_OK) == 0;
  const std::string debug_files = has_debug_files ? "debug files installed" : "no debug files";
  const SymbolCache cache(SymbolCache::DefaultFolder());
  const std::string cached = cache.folder().empty()
                                 ? "no cache (HOME is not set)"
                                 : absl::StrCat("cache ", FormatBytes(cache.SizeBytes()), " in ", cache.folder());
  if (const std::string problem = DebuginfodProblem(); !problem.empty())
    return {"symbols", Health::kWarning, absl::StrCat(debug_files, ", ", cached), problem};
  const char* const server = DebuginfodIsOn() ? "debuginfod" : "no debuginfod";
  return {"symbols", Health::kOk, absl::StrCat(debug_files, ", ", server, ", ", cached), ""};
}

}  // namespace gpumem
