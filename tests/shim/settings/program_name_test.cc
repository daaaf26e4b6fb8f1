// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/program_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpumemshim::control {
namespace {

std::string NameOf(const char* executable, const std::vector<const char*>& arguments) {
  char out[80];
  ProgramName(executable, arguments.data(), arguments.size(), out, sizeof out);
  return out;
}

TEST(ProgramName, PythonScript) {
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "scripts/train.py", "--lr", "1"}), "train");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-u", "-Wignore", "-X", "dev", "-OO", "train.py"}), "train");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-W", "ignore", "/usr/bin/torchrun", "x.py"}), "torchrun");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "--", "train.py"}), "train");
}

TEST(ProgramName, PythonModule) {
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-m", "torch.distributed.run"}), "torch.distributed.run");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-Im", "pkg.main", "-c"}), "pkg.main");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-mpkg"}), "pkg");
}

TEST(ProgramName, PythonCommandAndPrompt) {
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-c", "import torch"}), "python-c");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-uc", "import torch"}), "python-c");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python"}), "python");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-"}), "python");
}

TEST(ProgramName, ChildrenOfMultiprocessing) {
  const auto started = [](const std::vector<const char*>& arguments) {
    return StartedByMultiprocessing(arguments.data(), arguments.size());
  };
  EXPECT_TRUE(started({"/opt/venv/bin/python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(1)"}));
  EXPECT_TRUE(started({"python3", "-E", "-c", "from multiprocessing.forkserver import main; main(3, 4)"}));
  EXPECT_FALSE(started({"python", "-c", "import multiprocessing"}));
  EXPECT_FALSE(started({"python", "-c"}));
  EXPECT_FALSE(started({"python", "train.py", "-c", "from multiprocessing.spawn import spawn_main"}));
  EXPECT_FALSE(started({"cat", "-c", "from multiprocessing.spawn import spawn_main"}));
  EXPECT_FALSE(started({}));
}

TEST(ProgramName, OtherExecutables) {
  EXPECT_EQ(NameOf("/opt/bench/alloc.bin", {"./alloc.bin", "3"}), "alloc.bin");
  EXPECT_EQ(NameOf("", {"./server"}), "server");
  EXPECT_EQ(NameOf("", {}), "program");
}

TEST(ProgramName, PortableAndBounded) {
  EXPECT_EQ(NameOf("/usr/bin/python3", {"python", "a b;c/d e'f.py"}), "d_e_f");
  EXPECT_EQ(NameOf(("/" + std::string(200, 'x')).c_str(), {"x"}).size(), 64u);
}

}  // namespace
}  // namespace gpumemshim::control
