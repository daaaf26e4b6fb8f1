// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumem {
namespace {

using ::testing::ElementsAre;

TEST(SecretsTest, WhatFollowsASecretsNameIsLeftOut) {
  EXPECT_THAT(WithoutSecrets({"t.py", "--token", "a", "--HF-Token=b", "api_key=c", "--password", "d", "--lr", "1"}),
              ElementsAre("t.py", "--token", "***", "--HF-Token=***", "api_key=***", "--password", "***", "--lr", "1"));
}

TEST(SecretsTest, WhatOnlySoundsAlikeStays) {
  const std::vector<std::string> words = {"token",          "x",         "--tokenizer", "y",
                                          "--max-tokens=5", "--seq-len", "128",         "--token"};
  EXPECT_EQ(WithoutSecrets(words), words);
  EXPECT_THAT(WithoutSecrets({}), ElementsAre());
}

}  // namespace
}  // namespace gpumem
