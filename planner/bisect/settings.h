// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Settings: what is different between two configurations of one program, key by key, and the command of any mix of
// them: two YAML or JSON files, or two command lines.
//
//   GPUMEM_ASSIGN_OR_RETURN(auto settings, OpenConfigFiles("good.yaml", "bad.yaml", command, folder));
//   settings->changes()                   // {{"eval_every", "0", "2"}, {"optimizer.lr", "0.1", "0.05"}}
//   settings->CommandOf({true, false})    // python train.py FOLDER/1/good.yaml, which has eval_every: 2
//
// Thread-safety: none. Failure: InvalidArgument for what cannot be read as such a file.

#ifndef GPUMEM_PLANNER_BISECT_SETTINGS_H_
#define GPUMEM_PLANNER_BISECT_SETTINGS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpumem::plan {

struct SettingsChange {
  std::string name;
  std::optional<std::string> good, bad;  // as they are written; none: the side lacks it
};

class Settings {
 public:
  virtual ~Settings() = default;

  const std::vector<SettingsChange>& changes() const { return changes_; }

  // `made`: one for each change. All false is the good one as it is, all true the bad one.
  virtual absl::StatusOr<std::vector<std::string>> CommandOf(const std::vector<bool>& made) = 0;

 protected:
  std::vector<SettingsChange> changes_;
};

// `command` names one of the two, or has {} where the file goes. Mixed files are written below `folder`.
absl::StatusOr<std::unique_ptr<Settings>> OpenConfigFiles(const std::string& good, const std::string& bad,
                                                          const std::vector<std::string>& command,
                                                          const std::string& folder);

absl::StatusOr<std::unique_ptr<Settings>> OpenCommandLines(const std::vector<std::string>& good,
                                                           const std::vector<std::string>& bad);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_BISECT_SETTINGS_H_
