// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Analyzer: how `gpumemshim oom`, `gpumemshim forecast --watch` and `gpumemshim ranks --summarize` are started: which
// file, with which arguments, in which environment. GPUMEMSHIM_PROGRAM names it; else it lies where the library was
// installed
// (../bin or ../../bin of its directory, or beside it), else on PATH. Of the environment it sees what a terminal and a
// locale need and nothing else: not our preload, not the host's libraries.
//
// Settings are taken from where `setting` finds them: they may have come with `gpumemshim attach`, not in the
// environment.
//
// Thread-safety: Find before others; reads the environment. Failure: Prepare is false, after one line on stderr.

#ifndef GPUMEM_SHIM_WITNESS_OOM_ANALYZER_H_
#define GPUMEM_SHIM_WITNESS_OOM_ANALYZER_H_

#include <sys/types.h>

#include <cstddef>

namespace gpumemshim::oom {

// The value of a GPUMEMSHIM_ setting; nullptr where it is not set.
using SettingLookup = const char* (*)(const char* name);

class Analyzer {
 public:
  // `setting`: default: the environment alone.
  void Find(SettingLookup setting = nullptr);

  // For the trace at `path`, which must stay valid.
  bool Prepare(const char* path);
  // The same for the forecast. The settings of its callbacks are handed over in the environment: arguments are seen by
  // everybody on the machine.
  bool PrepareForecast(const char* path);

  // The same for a summary of it, in the file `target`; "" = beside it.
  bool PrepareSummary(const char* path, const char* target);
  // No line where it was not found.
  void StaySilent() { complained_ = true; }

  const char* program() const { return program_; }
  const char* const* arguments() const { return arguments_; }
  const char* const* environment() const { return environment_; }

 private:
  static constexpr size_t kMaxVariables = 24;

  bool PrepareCommand(const char* const* wanted, size_t count);
  bool FindBesideLibrary();
  bool FindOnPath();
  bool Try(const char* folder, size_t folder_size, const char* name);
  void CopyEnvironment();
  const char* ValueOf(const char* name) const;
  void Copy(const char* name);

  char program_[4096] = "";
  const char* arguments_[8] = {};
  const char* environment_[kMaxVariables + 1] = {};
  char variables_[8192] = "";
  size_t variables_size_ = 0, variable_count_ = 0;
  SettingLookup setting_ = nullptr;
  bool complained_ = false;
};

// StandardError: whether descriptor 2 is still where people read. A program that closes it and opens a data file or a
// connection gets that number for it: our text must not land there. What it was at the start may be written to; of
// others a terminal, a pipe, and a file that is appended to, as logs are.
//
// Thread-safety: one thread. Failure: not usable.
//
//   error.Remember();
//   if (error.Usable()) write(STDERR_FILENO, ...);
class StandardError {
 public:
  void Remember();
  bool Usable() const;

 private:
  bool known_ = false;
  dev_t device_ = 0;
  ino_t node_ = 0;
};

}  // namespace gpumemshim::oom

#endif  // GPUMEM_SHIM_WITNESS_OOM_ANALYZER_H_
