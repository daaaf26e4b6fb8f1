// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gtest/gtest.h>

#include "answers/report/sections.h"

namespace gpumem {
namespace {

TEST(ReachedBy, IsTheStackThatAllocatedLast) {
  LiveSet live;
  live.time_ns = 50;
  live.stacks.resize(2);
  live.stacks[0].newest_ns = 40;
  EXPECT_EQ(ReachedBy(live), nullptr);
  live.stacks[1].newest_ns = 50;
  EXPECT_EQ(ReachedBy(live), &live.stacks[1]);
}

}  // namespace
}  // namespace gpumem
