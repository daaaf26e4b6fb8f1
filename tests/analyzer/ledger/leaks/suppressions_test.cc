// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/suppressions.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(Suppressions, MatchPartsOfNames) {
  const auto parsed = Suppressions::Parse("# known\n\n  leak:metrics.py\nleak:Cache.*put\n");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->Matches({"main", "/job/metrics.py"}));
  EXPECT_TRUE(parsed->Matches({"Cache.lru_put"}));
  EXPECT_FALSE(parsed->Matches({"main", "/job/train.py"}));
  EXPECT_FALSE(parsed->Matches({}));
}

TEST(Suppressions, SayWhichLineIsWrong) {
  for (const char* text : {"leak:a\nmetrics.py", "leak:a\nleak:", "leak:a\nrace:b"}) {
    const auto parsed = Suppressions::Parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().message().substr(0, 7), "line 2:");
  }
}

}  // namespace
}  // namespace gpumem
