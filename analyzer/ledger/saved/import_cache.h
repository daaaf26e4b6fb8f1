// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Import cache: what every command does with a file that is not a trace but can be imported (import/import.h): the
// trace made from it is kept in the user's cache, so that only the first command pays. The key is the file's real path,
// size, time and this version's way of importing; the oldest go where there is too much. Where no cache can be written
// the trace is a file without a name that ends with the process.
//
// Files are 0600 and appear whole, so several processes may do this at once. Errors are the importer's.
//
//   GPUMEM_ASSIGN_OR_RETURN(const ReadableTrace trace, MakeReadable("snapshot.pickle", progress));
//   Analyze(trace.path, ...);

#ifndef GPUMEM_ANALYZER_LEDGER_SAVED_IMPORT_CACHE_H_
#define GPUMEM_ANALYZER_LEDGER_SAVED_IMPORT_CACHE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "import/import.h"

namespace gpumem {

struct ReadableTrace {
  std::string path;          // of a trace: the file itself, or what was made from it
  bool is_imported = false;  // now or by an earlier command
};

absl::StatusOr<ReadableTrace> MakeReadable(const std::string& path, const ImportProgress& progress = nullptr);

// How long importing took since this was asked last, by all threads; 0 where nothing had to be imported.
uint64_t TakeImportNs();

// $XDG_CACHE_HOME/gpumemshim/imports, else ~/.cache/gpumemshim/imports; "" = none.
std::string ImportCacheFolder();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_SAVED_IMPORT_CACHE_H_
