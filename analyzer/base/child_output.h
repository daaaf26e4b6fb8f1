// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ChildOutput: a program that is run for what it prints: work that would hold up or endanger the caller, such as
// reading a trace of unknown size. It runs at low priority, with no input, and ends with its owner.
// Thread-safe: Cancel may be called from another thread than Run.
//
//   ChildOutput child;
//   GPUMEM_ASSIGN_OR_RETURN(const ChildOutput::Result result, child.Run({"/proc/self/exe", "html", "--json", path}));

#ifndef GPUMEM_ANALYZER_BASE_CHILD_OUTPUT_H_
#define GPUMEM_ANALYZER_BASE_CHILD_OUTPUT_H_

#include <sys/types.h>

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpumem {

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

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_CHILD_OUTPUT_H_
