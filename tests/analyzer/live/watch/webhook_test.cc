// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/webhook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumem {
namespace {

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
