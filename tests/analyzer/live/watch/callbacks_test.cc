// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/callbacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace gpumem {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

CallbackSettings Command(const std::string& command, double timeout_s = 30) {
  CallbackSettings settings;
  settings.command = command;
  settings.timeout_s = timeout_s;
  return settings;
}

// Time stands still at `now_ns`; waits in earnest.
std::vector<CallbackReport> Await(Callbacks* callbacks, uint64_t now_ns) {
  std::vector<CallbackReport> all;
  for (int i = 0; i < 20'000 && (callbacks->are_running() || all.empty()); ++i) {
    for (CallbackReport& report : callbacks->Poll(now_ns)) all.push_back(std::move(report));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (CallbackReport& report : callbacks->Poll(now_ns)) all.push_back(std::move(report));
  return all;
}

std::string TextOf(const std::string& command) {
  Callbacks callbacks(Command(command));
  callbacks.Fire({1, "{\"risk\": \"high\"}\n", {"GPUMEMSHIM_RISK=high"}}, 0);
  const std::vector<CallbackReport> reports = Await(&callbacks, 0);
  return reports.size() == 1 ? (reports[0].is_fine ? "fine: " : "failed: ") + reports[0].text : "?";
}

TEST(Callbacks, SayHowACommandEnded) {
  EXPECT_EQ(TextOf("test \"$GPUMEMSHIM_RISK\" = high && grep -q high"), "fine: exited with code 0");
  EXPECT_EQ(TextOf("exit 7"), "failed: exited with code 7");
  EXPECT_EQ(TextOf("kill -ABRT $$"), "failed: crashed: Aborted (signal 6)");
}

TEST(Callbacks, KillOneAtItsDeadlineWithAllThatItStarted) {
  Callbacks callbacks(Command("sleep 3600 & wait", 5));
  callbacks.Fire({}, 10 * kSecond);
  EXPECT_TRUE(callbacks.Poll(15 * kSecond - 1).empty());
  const std::vector<CallbackReport> reports = callbacks.Poll(15 * kSecond);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].text, "ran longer than 5.000 s, killed");
  EXPECT_FALSE(callbacks.are_running());
}

TEST(Callbacks, RunOneAtATime) {
  Callbacks callbacks(Command("sleep 3600"));
  callbacks.Fire({}, 0);
  callbacks.Fire({}, 1);
  const std::vector<CallbackReport> reports = callbacks.Poll(2);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].text, "not called: the one before still runs");
}

TEST(Callbacks, SignalOnlyAProgramThatHandlesIt) {
  CallbackSettings settings;
  settings.signal = SIGUSR2;
  Callbacks callbacks(settings);
  callbacks.Fire({getpid(), "", {}}, 0);
  ASSERT_EQ(callbacks.Poll(0).at(0).text, "SIGUSR2 not sent: the program has no handler for it");
  static volatile sig_atomic_t came = 0;
  signal(SIGUSR2, [](int) { came = 1; });
  callbacks.Fire({getpid(), "", {}}, 0);
  EXPECT_EQ(callbacks.Poll(0).at(0).text, "SIGUSR2 sent");
  EXPECT_EQ(came, 1);
  signal(SIGUSR2, SIG_DFL);
  callbacks.Fire({0, "", {}}, 0);
  EXPECT_EQ(callbacks.Poll(0).at(0).text, "SIGUSR2 not sent: the program does not run here");
}

TEST(Callbacks, KnowSignalsByNameAndNumber) {
  EXPECT_EQ(*SignalOf("usr1"), SIGUSR1);
  EXPECT_EQ(*SignalOf("SIGHUP"), SIGHUP);
  EXPECT_EQ(*SignalOf("12"), 12);
  for (const char* wrong : {"KILL", "9", "19", "0", "-1", "65", "", "SEGV2"})
    EXPECT_FALSE(SignalOf(wrong).ok()) << wrong;
}

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Webhook, HasAHost) {
  EXPECT_EQ(WebhookHost("https://Hooks.Example.org/T1/B2?x=y"), "hooks.example.org");
  EXPECT_EQ(WebhookHost("http://10.0.0.1:8080"), "10.0.0.1");
  EXPECT_EQ(WebhookHost("http://[::1]:80/x"), "[::1]");
}

TEST(Webhook, IsNotOneThatCouldBeReadInTwoWays) {
  for (const char* url : {"ftp://a/", "file:///etc/passwd", "http://", "http://a@b/", "http://a\\@b/", "http://a b/",
                          "http://a:b/", "http://a:0/", "http://a:1:2/", "http://[::1", "http://[::1]x/", "http://a\n/",
                          "http://a%2eb/", "a.example.org"})
    EXPECT_EQ(WebhookHost(url), "") << url;
}

TEST(Webhook, GoesToThisMachineAndToWhatIsAllowed) {
  EXPECT_TRUE(CheckWebhook("http://localhost:9/", {}).ok());
  EXPECT_TRUE(CheckWebhook("https://hooks.example.org/x", {"other", "Hooks.example.org"}).ok());
  const absl::Status refused = CheckWebhook("https://hooks.example.org.evil.net/x", {"hooks.example.org"});
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--allow-host hooks.example.org.evil.net"));
}

TEST(Webhook, IsNoArgumentOfTheCommand) {
  for (const std::string& argument : WebhookCommand()) EXPECT_THAT(argument, Not(HasSubstr("http")));
  const std::string input = WebhookInput("https://a/b\"c", "{\"x\": \"\\n\"}\n", 2.5);
  EXPECT_THAT(input, HasSubstr("url = \"https://a/b\\\"c\"\n"));
  EXPECT_THAT(input, HasSubstr("data-raw = \"{\\\"x\\\": \\\"\\\\n\\\"}\\n\"\n"));
  EXPECT_THAT(input, HasSubstr("max-redirs = 0\nmax-time = 2.5\n"));
}

}  // namespace
}  // namespace gpumem
