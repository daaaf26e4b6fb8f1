// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A child process that stands for this one: it shares the terminal and the process group, signals that others send to
// us reach it, and its end becomes ours. Signals that reach the whole group by themselves (Ctrl-C, killpg, timeout) are
// not sent twice. One child at a time.
//
//   const absl::StatusOr<int> status = RunChild({"python", "train.py"});
//   EndLike(*status);

#ifndef GPUMEM_ANALYZER_ATTACH_CHILD_H_
#define GPUMEM_ANALYZER_ATTACH_CHILD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpumem {

// Starts `command_line` (found on PATH) with this environment and waits for its end: the status of waitpid(2). NotFound
// or PermissionDenied where it could not be started.
absl::StatusOr<int> RunChild(const std::vector<std::string>& command_line);

// The exit code that stands for `status`. A child that died of a signal: dies of the same one, without a core file of
// ours; only where that is not possible 128 + signal.
int EndLike(int status);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_CHILD_H_
