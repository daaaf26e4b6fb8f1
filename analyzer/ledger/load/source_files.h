// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SourceFiles: the lines of the program's source files, which a trace names. The one place that opens such files
// (scripts/check_opens). Of the user's own trace (own_trace.h) the file itself, unless it was changed after the program
// had started. Of any other trace nothing, unless the user named a folder (--sources): then the file below it whose
// path ends as the trace's does. Nothing outside of that folder is opened: links below it are not followed, and a path
// with
// ".." in it names no file.
//
//   SourceFiles files(*loaded);
//   for (const std::string& line : files.Lines("/home/me/job/train.py")) ...
//
// Lines are as the files have them: who shows one masks it first (base/secrets.h). Not thread-safe. Failure: no lines.

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_SOURCE_FILES_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_SOURCE_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpumem {

struct LoadedTrace;

class SourceFiles {
 public:
  explicit SourceFiles(const LoadedTrace& loaded);

  // Reads each file once. `file`: as the trace names it. No lines where there is none that may be read.
  const std::vector<std::string>& Lines(const std::string& file);

 private:
  int Open(const std::string& file) const;
  int OpenOwn(const std::string& file) const;
  int OpenBelow(const std::string& file) const;

  bool is_own_ = false;
  std::string folder_;  // --sources; "" = none
  std::string working_directory_;
  uint64_t started_ns_ = 0;
  std::map<std::string, std::vector<std::string>> files_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_SOURCE_FILES_H_
