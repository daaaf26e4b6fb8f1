// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace gpumem {
namespace {

TEST(ProcessStatusTest, OfThisProcess) {
  EXPECT_EQ(ProcessStatus(getpid(), "Tgid"), std::to_string(getpid()));
  EXPECT_EQ(ProcessStatus(getpid(), "NoSuchField"), "");
  EXPECT_EQ(ParentOf(getpid()), getppid());
  EXPECT_TRUE(IsAtOrBelow(getpid(), getppid()));
}

TEST(ProcessStatusTest, OneThatNobodyAskedAfterHasEnded) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_FALSE(HasEnded(child));
  kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(kill(child, 0), 0);  // it is still there
  EXPECT_TRUE(HasEnded(child));
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(HasEnded(child));
}

using ::testing::HasSubstr;

TEST(NameForLoader, IsThePathWhereTheLoaderCanReadIt) {
  const auto name = NameForLoader("/opt/lib/a.so");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->preload, "/opt/lib/a.so");
  EXPECT_EQ(name->folder, "");
}

TEST(NameForLoader, IsTheFileNameWhereAFolderHasABlank) {
  const auto name = NameForLoader("/my tools/lib/a.so");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->preload, "a.so");
  EXPECT_EQ(name->folder, "/my tools/lib");
}

TEST(NameForLoader, SaysWhatToDoWhereNeitherVariableCanHoldIt) {
  for (const char* path : {"/a:b/a.so", "/a b;c/a.so", "/a $x/a.so", "/a/b c.so", "a b.so"}) {
    const auto name = NameForLoader(path);
    ASSERT_FALSE(name.ok()) << path;
    EXPECT_THAT(std::string(name.status().message()), HasSubstr("GPUMEMSHIM_LIBRARY"));
  }
}

TEST(LibraryPathWith, PutsTheFolderLast) {
  EXPECT_EQ(LibraryPathWith(nullptr, "/my tools"), "/my tools");
  EXPECT_EQ(LibraryPathWith("", "/my tools"), "/my tools");
  EXPECT_EQ(LibraryPathWith("/a:/b", "/my tools"), "/a:/b:/my tools");
}

}  // namespace
}  // namespace gpumem
