// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/preload.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "attach/elf_file.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Executable(const std::string& bytes) {
  std::string folder = ::testing::TempDir() + "preload-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/program";
  std::ofstream(path, std::ios::binary) << bytes;
  chmod(path.c_str(), 0755);
  return path;
}

TEST(PreloadValue, PutsOursFirstAndOnce) {
  EXPECT_EQ(PreloadValue("/l/a.so", nullptr), "/l/a.so");
  EXPECT_EQ(PreloadValue("/l/a.so", "b.so c.so"), "/l/a.so:b.so:c.so");
  EXPECT_EQ(PreloadValue("/l/a.so", "b.so:/l/a.so"), "/l/a.so:b.so");
}

TEST(FindProgram, LooksOnPath) {
  EXPECT_THAT(FindProgram("sh"), HasSubstr("/sh"));
  EXPECT_EQ(FindProgram("no-such-program-anywhere"), "");
  EXPECT_EQ(FindProgram("/etc/passwd"), "");
}

TEST(PreloadObstacles, OfOrdinaryProgramsAreNone) {
  EXPECT_THAT(PreloadObstacles({"sh"}), IsEmpty());
  EXPECT_THAT(PreloadObstacles({Executable("#!/bin/sh\ntrue\n")}), IsEmpty());
  EXPECT_THAT(PreloadObstacles({Executable("no magic at all")}), IsEmpty());
}

TEST(PreloadObstacles, FollowScriptsToAStaticProgram) {
  std::string elf(64, '\0');
  elf.replace(0, 7,
              std::string("\x7f"
                          "ELF\x02\x01\x01",
                          7));
#if defined(__aarch64__)
  elf[18] = '\xb7';
#else
  elf[18] = 62;
#endif
  elf[54] = 56;  // e_phentsize, and no segment at all: no interpreter
  const std::string binary = Executable(elf);
  EXPECT_THAT(PreloadObstacles({binary}), ElementsAre(HasSubstr("linked statically")));
  EXPECT_THAT(PreloadObstacles({Executable("#! " + binary + " -x\n")}), ElementsAre(HasSubstr("linked statically")));
  elf[18] = 3;
  EXPECT_THAT(PreloadObstacles({Executable(elf)}), ElementsAre(HasSubstr("another kind of machine")));
}

TEST(ReadElfFile, KnowsThisProgram) {
  const absl::StatusOr<ElfFile> elf = ReadElfFile("/proc/self/exe");
  ASSERT_TRUE(elf.ok());
  EXPECT_TRUE(elf->is_elf64);
  EXPECT_TRUE(elf->has_interpreter);
  EXPECT_THAT(elf->needed, Contains("libc.so.6"));
}

TEST(ReadElfFile, SurvivesAnyBytes) {
  std::string bytes(400, '\xff');
  bytes.replace(0, 7,
                std::string("\x7f"
                            "ELF\x02\x01\x01",
                            7));
  const std::string whole = Executable(bytes);
  EXPECT_TRUE(ReadElfFile(whole).ok());
  for (const size_t length : {0, 3, 20, 63, 64, 100})
    EXPECT_TRUE(ReadElfFile(Executable(bytes.substr(0, length))).ok());
  EXPECT_FALSE(ReadElfFile("/no/such/file").ok());
}

TEST(ReadElfFile, SurvivesDamageAnywhere) {
  std::ifstream library("/lib64/ld-linux-x86-64.so.2", std::ios::binary);
  if (!library) library.open("/lib/ld-linux-aarch64.so.1", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(library)), std::istreambuf_iterator<char>());
  ASSERT_GT(bytes.size(), 10000u);
  const std::string path = Executable(bytes);
  ASSERT_FALSE(ReadElfFile(path)->exported.empty());
  std::mt19937 random(20);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = bytes.substr(0, round % 3 == 0 ? random() % bytes.size() : bytes.size());
    // Headers of the file, of its segments and of its sections: what says where something is.
    for (int i = 0; i < 8 && damaged.size() > 1024; ++i) {
      const size_t at = random() % 1024;
      damaged[i % 2 == 0 ? at : damaged.size() - 1 - at] = static_cast<char>(random());
    }
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_TRUE(ReadElfFile(path).ok());
  }
}

}  // namespace
}  // namespace gpumem
