// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Other processes: what the kernel says of one, a program that is run for what it prints, and how LD_PRELOAD names a
// library for one.

#ifndef GPUMEM_ANALYZER_BASE_PROCESS_H_
#define GPUMEM_ANALYZER_BASE_PROCESS_H_

#include <sys/types.h>

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// What the kernel says of a process in /proc/PID/status. A process that is not there has no fields and no parent.

// The value of "NAME:\t...", without the blanks in front; "" where there is none.
std::string ProcessStatus(int pid, absl::string_view name);

// It is not there, or only waits for its parent to ask how it ended.
bool HasEnded(int pid);

int ParentOf(int pid);  // 0: not known

// `ancestor` started `pid`, itself or through others; or they are the same.
bool IsAtOrBelow(int pid, int ancestor);

// ChildOutput: a program that is run for what it prints: work that would hold up or endanger the caller, such as
// reading a trace of unknown size. It runs at low priority, with no input, and ends with its owner.
// Thread-safe: Cancel may be called from another thread than Run.
//
//   ChildOutput child;
//   GPUMEM_ASSIGN_OR_RETURN(const ChildOutput::Result result, child.Run({"/proc/self/exe", "html", "--json", path}));
class ChildOutput {
 public:
  struct Result {
    int exit_code = 0;   // 128 + the signal where one killed it
    std::string output;  // standard output
    std::string errors;  // standard error, its last 64 KiB
  };

  ChildOutput() = default;
  ChildOutput(const ChildOutput&) = delete;
  ChildOutput& operator=(const ChildOutput&) = delete;

  // Until the program ends. Errors: it cannot be started, or prints more than `most_bytes` (ResourceExhausted; it is
  // killed). One at a time.
  absl::StatusOr<Result> Run(const std::vector<std::string>& command, size_t most_bytes = size_t{1} << 30);

  // Kills the program that runs, and lets none run any more.
  void Cancel();

 private:
  absl::StatusOr<pid_t> Start(const std::vector<std::string>& command, int output, int errors);

  std::mutex mutex_;
  pid_t pid_ = 0;  // 0 = none runs
  bool is_cancelled_ = false;
};

// How LD_PRELOAD names a library. The loader takes a blank or a colon there for the end of a path, so a library whose
// path has a blank goes by its file's name, and LD_LIBRARY_PATH, which may have blanks, says where that is.
//
//   NameForLoader("/opt/lib/a.so")      {"/opt/lib/a.so", ""}
//   NameForLoader("/my tools/lib/a.so") {"a.so", "/my tools/lib"}
//   NameForLoader("/a:b/a.so")          Unavailable: no variable of the loader can hold it

struct LoaderName {
  std::string preload;
  std::string folder;  // to be in LD_LIBRARY_PATH; "" where it need not be
};

absl::StatusOr<LoaderName> NameForLoader(const std::string& library);

// LD_LIBRARY_PATH with `folder` last, given what it has now (may be null).
std::string LibraryPathWith(const char* before, const std::string& folder);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_PROCESS_H_
