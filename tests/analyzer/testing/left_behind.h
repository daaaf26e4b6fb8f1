// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RemoveAtEnd: a file or folder of a test that is removed when its process ends, not that of a child that it forked.
// Any thread.

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_LEFT_BEHIND_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_LEFT_BEHIND_H_

#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gpumem::testing {

class LeftBehind {
 public:
  ~LeftBehind() {
    if (getpid() != owner_) return;
    std::error_code ignored;
    for (const std::string& path : paths_) std::filesystem::remove_all(path, ignored);
  }

  void Add(std::string path) {
    const std::lock_guard lock(mutex_);
    paths_.push_back(std::move(path));
  }

 private:
  const pid_t owner_ = getpid();
  std::mutex mutex_;
  std::vector<std::string> paths_;
};

inline void RemoveAtEnd(std::string path) {
  static LeftBehind left_behind;
  left_behind.Add(std::move(path));
}

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_LEFT_BEHIND_H_
