// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/reporter.h"

#include <gtest/gtest.h>

namespace gpumemshim::oom {
namespace {

constexpr uint64_t kNow = 1'000'000'000'000, kLater = kNow + 1'000'000'000;

Event Make(EventKind kind, Layer layer, uint64_t size, int32_t result = 0) {
  Event event{};
  event.kind = kind;
  event.layer = layer;
  event.size = size;
  event.result = result;
  event.time_ns = kNow;
  return event;
}

Event Refused(uint64_t size) { return Make(EventKind::kAllocFailed, Layer::kRuntime, size, 2); }
Event Given(uint64_t size) { return Make(EventKind::kAlloc, Layer::kRuntime, size); }

TEST(TriggerTest, PyTorchsReportCountsAtOnce) {
  Trigger trigger;
  EXPECT_FALSE(trigger.Wanted(kNow, true));
  trigger.Saw(Make(EventKind::kAllocFailed, Layer::kTorch, 100, 2), 1);
  EXPECT_TRUE(trigger.Wanted(kNow, false));
  trigger.Clear();
  EXPECT_FALSE(trigger.Wanted(kNow, true));
}

TEST(TriggerTest, AFailedCallCountsWhenNobodyTriesAgain) {
  Trigger trigger;
  trigger.Saw(Refused(100), 1);
  EXPECT_FALSE(trigger.Wanted(kNow, false));
  EXPECT_TRUE(trigger.Wanted(kLater, false));
}

TEST(TriggerTest, AFailedCallCountsAtTheEnd) {
  Trigger trigger;
  trigger.Saw(Refused(100), 1);
  EXPECT_TRUE(trigger.Wanted(kNow, true));
}

TEST(TriggerTest, WhatWasServedOnTheSameThreadDoesNot) {
  Trigger trigger;
  trigger.Saw(Refused(100), 1);
  trigger.Saw(Given(100), 1);
  EXPECT_FALSE(trigger.Wanted(kLater, true));
  trigger.Saw(Refused(100), 1);
  trigger.Saw(Make(EventKind::kAlloc, Layer::kTorch, 90), 1);
  EXPECT_FALSE(trigger.Wanted(kLater, true));
}

TEST(TriggerTest, WhatIsServedElsewhereIsAnotherRequest) {
  Trigger trigger;
  trigger.Saw(Refused(100), 1);
  trigger.Saw(Given(100), 2);
  trigger.Saw(Given(50), 1);
  EXPECT_TRUE(trigger.Wanted(kLater, false));
}

TEST(TriggerTest, ASmallerSecondRequestMakesTheFirstFinal) {
  Trigger trigger;
  trigger.Saw(Refused(100), 1);
  trigger.Saw(Refused(50), 1);
  EXPECT_TRUE(trigger.Wanted(kNow, false));
}

TEST(TriggerTest, OtherErrorsAndAddressSpaceAreNotAboutMemory) {
  Trigger trigger;
  trigger.Saw(Make(EventKind::kAllocFailed, Layer::kRuntime, 100, 900), 1);
  Event reserve = Refused(100);
  reserve.memory = Memory::kVirtual;
  trigger.Saw(reserve, 1);
  EXPECT_FALSE(trigger.Wanted(kLater, true));
}

TEST(TriggerTest, MoreThreadsThanItRemembersCountAsFinal) {
  Trigger trigger;
  for (uint32_t tid = 1; tid <= 100; ++tid) trigger.Saw(Refused(100), tid);
  EXPECT_TRUE(trigger.Wanted(kNow, false));
}

}  // namespace
}  // namespace gpumemshim::oom
