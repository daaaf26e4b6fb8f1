// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// History: the states of a program that a bisect looks at, in order: commits, versions of a package, files. Each is
// made ready as a run, away from what the user has: nothing of theirs is written.
//
//   GPUMEM_ASSIGN_OR_RETURN(std::unique_ptr<History> history, OpenCommits({.good = "v1.0"}, folder));
//   RunRequest run = base;
//   GPUMEM_RETURN_IF_ERROR(history->Prepare(3, &run));   // run.directory is the checkout of commit 3
//
// Thread-safety: none. Failure of Prepare: FailedPrecondition where this state cannot be had (it is skipped, as one
// that does not run), all else ends the bisect.

#ifndef GPUMEM_PLANNER_BISECT_HISTORY_H_
#define GPUMEM_PLANNER_BISECT_HISTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/launch/simulated_run.h"

namespace gpumem::plan {

struct HistoryState {
  std::string name;                   // as people know it: "3f2c1ab", "4.38.0", "configs/b.yaml"
  std::string identity;               // what decides: two with the same one are the same program
  std::string date, author, subject;  // of a commit
};

class History {
 public:
  virtual ~History() = default;

  const std::vector<HistoryState>& states() const { return states_; }
  // Sentences for the answer: what is linked, what was left out.
  const std::vector<std::string>& notes() const { return notes_; }

  // Changes command, environment and directory of `run`.
  virtual absl::Status Prepare(size_t index, RunRequest* run) = 0;

 protected:
  std::vector<HistoryState> states_;  // oldest first
  std::vector<std::string> notes_;
};

struct CommitsRequest {
  std::string good, bad = "HEAD";    // revisions of the repository that the working directory is in
  std::vector<std::string> link;     // patterns of the untracked files to link; none = all
  std::vector<std::string> no_link;  // and of those to leave out
  std::vector<std::string> command;  // to be run
};

// `folder` exists, for the clone.
absl::StatusOr<std::unique_ptr<History>> OpenCommits(const CommitsRequest& request, const std::string& folder);

struct VersionsRequest {
  std::string package, good, bad;
  std::string wheelhouse;            // a folder of wheels in place of the index; "" = the index
  std::vector<std::string> command;  // its interpreter is asked, and is left as it is
};

// `folder` exists, for a folder of packages a version, which stay for the next time.
absl::StatusOr<std::unique_ptr<History>> OpenVersions(const VersionsRequest& request, const std::string& folder);

// Files that the command takes one of in place of `{}`, in this order.
absl::StatusOr<std::unique_ptr<History>> OpenFiles(const std::vector<std::string>& files,
                                                   const std::vector<std::string>& command);

// What a program of the system prints, without the line's end at its end. FailedPrecondition with the last line of its
// complaints where it ends with another code than 0.
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& command);

// The Python that a command runs on: the one it names, or that its script's first line names; "python3" else.
std::string InterpreterOf(const std::vector<std::string>& command);

// The environment's value with `first` in front of it: "PYTHONPATH" of a run.
std::string PathWithFirst(const std::string& name, const std::vector<std::string>& first);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_BISECT_HISTORY_H_
