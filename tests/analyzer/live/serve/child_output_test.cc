// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "base/process.h"

namespace gpumem {
namespace {

absl::StatusOr<ChildOutput::Result> RunShell(const std::string& script, size_t most_bytes = 1 << 20) {
  return ChildOutput().Run({"/bin/sh", "-c", script}, most_bytes);
}

TEST(ChildOutputTest, KeepsBothOutputsAndTheCode) {
  const auto result = RunShell("echo out; echo err >&2; read line || echo no input; exit 4");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 4);
  EXPECT_EQ(result->output, "out\nno input\n");
  EXPECT_EQ(result->errors, "err\n");
}

TEST(ChildOutputTest, TakesManyBytesFromBoth) {
  const auto result =
      RunShell("for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero >&2; head -c 100000 /dev/zero; done");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output.size(), 800'000u);
  EXPECT_EQ(result->errors.size(), size_t{64} << 10) << "the last of it";
}

TEST(ChildOutputTest, EndsWhatPrintsTooMuch) {
  const auto result = RunShell("while :; do echo more and more; done", 100'000);
  EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
}

TEST(ChildOutputTest, SaysThatASignalEndedIt) {
  const auto result = RunShell("kill -KILL $$");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 128 + SIGKILL);
}

TEST(ChildOutputTest, SaysWhatCannotBeStarted) { EXPECT_FALSE(ChildOutput().Run({"/no/such/program"}).ok()); }

TEST(ChildOutputTest, EndsWhenCancelled) {
  ChildOutput child;
  absl::StatusOr<ChildOutput::Result> result;
  std::thread runs([&] { result = child.Run({"/bin/sh", "-c", "exec sleep 600"}); });
  child.Cancel();  // before or after it was started
  runs.join();
  EXPECT_TRUE(!result.ok() || result->exit_code == 128 + SIGKILL) << result->exit_code;
  EXPECT_TRUE(absl::IsCancelled(child.Run({"/bin/true"}).status()));
}

}  // namespace
}  // namespace gpumem
