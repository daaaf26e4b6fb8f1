// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SpillFolder: where DuckDB puts what of a query does not fit into its memory. A new folder for its user alone (0700),
// beside the indexes, or, where these cannot be written, below TMPDIR; never below the working directory. Removed with
// this object and where SIGINT, SIGTERM or SIGHUP ends the program; what a killed one left is removed by the next one.
// A lock tells them apart, not a process's number, as containers may share the folder. Not thread-safe.
//
//   SpillFolder spill(index_folder);
//   Database::Open("", {{"temp_directory", spill.path()}, {"max_temp_directory_size", spill.limit()}});
//
// Failure: path() is "", and queries have their memory alone.

#ifndef GPUMEM_ANALYZER_QUERY_SPILL_FOLDER_H_
#define GPUMEM_ANALYZER_QUERY_SPILL_FOLDER_H_

#include <memory>
#include <string>

#include "base/file_output.h"

namespace gpumem {

class SpillFolder {
 public:
  explicit SpillFolder(const std::string& index_folder);
  SpillFolder(const SpillFolder&) = delete;
  SpillFolder& operator=(const SpillFolder&) = delete;
  ~SpillFolder();

  const std::string& path() const { return path_; }
  // Half of what was free on its disk, as DuckDB reads it: "123456KiB".
  std::string limit() const;

 private:
  bool MakeIn(const std::string& folder);

  std::string path_;
  int lock_ = -1;
  std::unique_ptr<HalfWritten> remover_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_SPILL_FOLDER_H_
