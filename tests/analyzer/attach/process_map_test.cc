// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/process_map.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gpumem {
namespace {

using ::testing::HasSubstr;

class ProcessMapTest : public ::testing::Test {
 protected:
  ProcessMapTest() : folder_(::testing::TempDir() + "process_map_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~ProcessMapTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(ProcessMapTest, FunctionsOfALibraryOfOurs) {
  const absl::StatusOr<ProcessMap> map = ReadProcessMap(getpid());
  ASSERT_TRUE(map.ok()) << map.status();
  const MappedObject* const libc = map->FindOfGlibc("libc");
  ASSERT_NE(libc, nullptr);
  const absl::StatusOr<ObjectFunctions> functions = ReadFunctions(getpid(), *libc);
  ASSERT_TRUE(functions.ok()) << functions.status();
  EXPECT_EQ(functions->AddressOf("getppid"), reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "getppid")));
}

// The kernel shows a file that was removed as "NAME (deleted)", and anything may have that name.
TEST_F(ProcessMapTest, WhatTookTheNameOfAMappedFileIsNotWaitedFor) {
  MappedObject object;
  object.path = folder_ + "/libc.so.6 (deleted)";
  ASSERT_EQ(mkfifo(object.path.c_str(), 0600), 0);
  EXPECT_THAT(ReadFunctions(getpid(), object).status().message(), HasSubstr("it is not a plain file"));
  object.path = "/dev/zero";
  EXPECT_THAT(ReadFunctions(getpid(), object).status().message(), HasSubstr("it is not a plain file"));
  object.path = folder_;
  EXPECT_FALSE(ReadFunctions(getpid(), object).ok());
  object.path = folder_ + "/text";
  std::ofstream(object.path) << "no ELF file, and longer than a header would have to be: " << std::string(200, '.');
  EXPECT_THAT(ReadFunctions(getpid(), object).status().message(), HasSubstr("is not an ELF file"));
}

}  // namespace
}  // namespace gpumem
