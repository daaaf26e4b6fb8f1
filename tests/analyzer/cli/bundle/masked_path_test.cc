// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/masked_path.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(MaskedPathTest, KeepsWhatIsTheSameEverywhere) {
  struct Row {
    absl::string_view path, folder, kept;
  };
  for (const Row& row : {
           Row{"/home/me/secret/train.py", "/home/me/secret", "/train.py"},
           Row{"/home/me/v/lib/python3.11/site-packages/torch/cuda.py", "/home/me/v",
               "/lib/python3.11/site-packages/torch/cuda.py"},
           Row{"/opt/me/site-packages/torch/cuda.py", "/opt/me", "/site-packages/torch/cuda.py"},
           Row{"/home/me/conda/lib/python3.12/threading.py", "/home/me/conda", "/lib/python3.12/threading.py"},
           Row{"/home/me/.venv/bin/python", "/home/me/.venv", "/bin/python"},
           Row{"/home/me/src/torch/nn/modules/linear.py", "/home/me/src", "/torch/nn/modules/linear.py"},
           Row{"/usr/lib/libc.so.6", "", "/usr/lib/libc.so.6"},
           Row{"/data/project", "/data/project", ""},
           Row{"/data/project.v2/", "/data/project.v2/", ""},
           Row{"/home/alice.smith", "/home/alice.smith", ""},
           Row{"/home/me/.netrc", "/home/me/.netrc", ""},
       }) {
    EXPECT_EQ(SplitPath(row.path).folder, row.folder) << row.path;
    EXPECT_EQ(SplitPath(row.path).kept, row.kept) << row.path;
  }
}

TEST(MaskedPathTest, KnowsWhoseHomeItIs) {
  EXPECT_EQ(UserOfPath("/home/alice/x"), "alice");
  EXPECT_EQ(UserOfPath("/Users/bob"), "bob");
  EXPECT_EQ(UserOfPath("/data/bob"), "");
}

}  // namespace
}  // namespace gpumem
