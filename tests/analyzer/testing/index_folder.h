// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Folders for indexes and what else is kept of traces.

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_INDEX_FOLDER_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_INDEX_FOLDER_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "testing/left_behind.h"

namespace gpumem::testing {

// A folder that is not there yet and that nobody else uses. A number of the process alone is not enough: it comes
// again, and what an earlier process left behind with it may be open to all.
inline std::string NewFolder() {
  std::string folder = ::testing::TempDir() + "gpumemshim_index.XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  RemoveAtEnd(folder);
  return folder + "/index";
}

// What is kept of traces lies in a folder of its own as long as it lives.
class IndexFolder {
 public:
  IndexFolder() { setenv("GPUMEMSHIM_INDEX_DIR", path_.c_str(), 1); }
  ~IndexFolder() {
    unsetenv("GPUMEMSHIM_INDEX_DIR");
    std::filesystem::remove_all(path_);
  }
  IndexFolder(const IndexFolder&) = delete;
  IndexFolder& operator=(const IndexFolder&) = delete;

 private:
  const std::string path_ = NewFolder();
};

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_INDEX_FOLDER_H_
