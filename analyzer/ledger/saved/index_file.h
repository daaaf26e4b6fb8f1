// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where the index of a trace is, or what else is kept of it (saved_file.h). Its name says which state of the trace it
// is of:
//
//   $XDG_CACHE_HOME/gpumemshim/index/run.gmtrace.1f2e3d4c5b6a7988.0011223344556677.duckdb
//                                             place            state
//
// state: size, time, inode and first and last bytes of every file of the trace, this program's index format and
// DuckDB's version; whatever changes gives another name, so an index that is found is valid. In a cache of the user's
// own and not beside the trace: an index that came along with somebody's trace is never opened. Thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const IndexFile file, IndexFileOf("run.gmtrace", ""));
//   if (!file.exists()) Build(file.path);

#ifndef GPUMEM_ANALYZER_LEDGER_SAVED_INDEX_FILE_H_
#define GPUMEM_ANALYZER_LEDGER_SAVED_INDEX_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace gpumem {

struct IndexFile {
  std::string folder, path, extension;
  std::string place_prefix;  // of all indexes of this trace: "run.gmtrace.1f2e3d4c5b6a7988."

  bool exists() const;
};

// `folder` "" = GPUMEMSHIM_INDEX_DIR, else the user's cache; TMPDIR or /tmp where there is no home. Unavailable where
// the trace cannot be looked at.
absl::StatusOr<IndexFile> IndexFileOf(const std::string& trace, const std::string& folder,
                                      const std::string& engine_version, const std::string& extension = "duckdb");

// Removes indexes with the same extension of earlier states of the same trace, and files that nobody used for a month;
// what processes that are gone left half-written, too. Where all that is kept takes more than GPUMEMSHIM_INDEX_LIMIT
// (8 GiB unless set), also what was not used for longest.
void RemoveStaleIndexes(const IndexFile& file);

// Of everything that gpumemshim keeps for the user: $XDG_CACHE_HOME/gpumemshim, ~/.cache/gpumemshim; "" where there is
// no home.
std::string CacheFolder();

// Makes the folder, for the user alone.
absl::Status MakeIndexFolder(const std::string& folder);

// Marks an index as used.
void TouchIndex(const std::string& path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_SAVED_INDEX_FILE_H_
