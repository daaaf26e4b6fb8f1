// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/live_set.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace gpumemshim::writer {
namespace {

Event Of(EventKind kind, uint64_t address, uint64_t size = 0, uint64_t handle = 0) {
  Event e{};
  e.kind = kind;
  e.layer = Layer::kDriver;
  e.address = address;
  e.size = size;
  e.handle = handle;
  return e;
}

Event Torch(EventKind kind, uint64_t address, uint64_t size = 512) {
  Event e = Of(kind, address, size);
  e.layer = Layer::kTorch;
  return e;
}

// "kind:address/handle" of everything that is kept, in order.
std::string Kept(LiveSet* live) {
  EXPECT_TRUE(live->Sort());
  std::string text;
  for (uint32_t i = 0; i < live->count(); i++) {
    const Event& e = (*live)[i].event;
    text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(e.kind)) + ":" +
            std::to_string(e.address == 0 ? e.handle : e.address) + ((*live)[i].torch_segment ? "t" : "");
  }
  return text;
}

class LiveSetTest : public testing::Test {
 protected:
  void Apply(const Event& event, uint32_t thread = 1) { live_->Apply(event, {thread, 0, 0}); }
  const std::unique_ptr<LiveSet> live_ = std::make_unique<LiveSet>();
};

TEST_F(LiveSetTest, AllocationsGoWithTheirFrees) {
  Apply(Of(EventKind::kAlloc, 10));
  Apply(Of(EventKind::kAlloc, 20));
  Apply(Of(EventKind::kHostRegister, 10));
  Apply(Of(EventKind::kFree, 10));
  EXPECT_EQ(Kept(live_.get()), "1:20 14:10");
  Apply(Of(EventKind::kHostUnregister, 10));
  Apply(Of(EventKind::kFree, 99));
  EXPECT_EQ(Kept(live_.get()), "1:20");
}

TEST_F(LiveSetTest, SegmentsOfPyTorchAreMarkedForGood) {
  Apply(Of(EventKind::kAlloc, 100, 2 << 20));
  Apply(Of(EventKind::kAlloc, 200, 2 << 20));
  Apply(Torch(EventKind::kAlloc, 100));
  Apply(Torch(EventKind::kAlloc, 164));
  Apply(Torch(EventKind::kFree, 100));
  EXPECT_EQ(Kept(live_.get()), "1:100t 1:200 1:164");
}

TEST_F(LiveSetTest, AFreeThatFailedIsTakenBack) {
  Apply(Of(EventKind::kAlloc, 10));
  Apply(Of(EventKind::kAlloc, 20));
  Apply(Of(EventKind::kFree, 10));
  Apply(Of(EventKind::kFreeFailed, 10), 2);  // another thread's
  EXPECT_EQ(Kept(live_.get()), "1:20");
  Apply(Of(EventKind::kFreeFailed, 10));
  EXPECT_EQ(Kept(live_.get()), "1:10 1:20");
}

TEST_F(LiveSetTest, PhysicalMemoryLivesAsLongAsAReferenceOrAMapping) {
  Apply(Of(EventKind::kAddressReserve, 1000, 400));
  Apply(Of(EventKind::kPhysicalCreate, 0, 100, 7));
  Apply(Of(EventKind::kMap, 1000, 100, 7));
  Apply(Of(EventKind::kMap, 1100, 100, 7));
  Apply(Of(EventKind::kPhysicalRetain, 0, 0, 7));
  Apply(Of(EventKind::kPhysicalRelease, 0, 0, 7));
  EXPECT_EQ(Kept(live_.get()), "5:1000 7:7 10:1000 10:1100");
  Apply(Of(EventKind::kPhysicalRelease, 0, 0, 7));
  EXPECT_EQ(Kept(live_.get()), "5:1000 7:7 10:1000 10:1100 8:7");
  Apply(Of(EventKind::kPhysicalCreate, 0, 100, 7));  // the number is given out again
  Apply(Of(EventKind::kUnmap, 1000, 200));
  EXPECT_EQ(Kept(live_.get()), "5:1000 7:7");
  Apply(Of(EventKind::kPhysicalRelease, 0, 0, 7));
  Apply(Of(EventKind::kAddressFree, 1000, 400));
  EXPECT_EQ(Kept(live_.get()), "");
}

TEST_F(LiveSetTest, AResetTakesADevicesMemory) {
  Event pinned = Of(EventKind::kAlloc, 10), other = Of(EventKind::kAlloc, 20);
  pinned.memory = Memory::kHostPinned;
  other.device = 1;
  Apply(pinned);
  Apply(other);
  Apply(Of(EventKind::kAlloc, 30));
  Apply(Torch(EventKind::kAlloc, 30));
  Apply(Of(EventKind::kPhysicalCreate, 0, 100, 7));
  Apply(Of(EventKind::kMap, 1000, 100, 7));
  Apply(Of(EventKind::kDeviceReset, 0));
  EXPECT_EQ(Kept(live_.get()), "1:10 1:20");
  Apply(Of(EventKind::kFree, 10));
  Apply(Of(EventKind::kAlloc, 40));
  EXPECT_EQ(Kept(live_.get()), "1:20 1:40");
}

TEST_F(LiveSetTest, AsAMapWouldDoIt) {
  std::mt19937_64 random(1);
  std::map<uint64_t, uint64_t> model;  // address -> order
  for (uint64_t i = 0; i < 200'000; i++) {
    const uint64_t address = 1 + random() % 5000;
    if (random() % 2 == 0) {
      Apply(Torch(EventKind::kAlloc, address, i));
      model[address] = i;
    } else {
      Apply(Torch(EventKind::kFree, address));
      model.erase(address);
    }
  }
  ASSERT_TRUE(live_->Sort());
  ASSERT_EQ(live_->count(), model.size());
  for (uint32_t i = 0; i < live_->count(); i++) {
    const Event& e = (*live_)[i].event;
    EXPECT_EQ(model.at(e.address), e.size);
    if (i > 0) {
      EXPECT_LT((*live_)[i - 1].event.size, e.size);
    }
  }
}

Event Existing(uint64_t kind, uint64_t address, uint64_t size = 512) {
  return Of(EventKind::kExisting, address, size, kind);
}

TEST_F(LiveSetTest, WhatExistedWhenRecordingBeganIsKept) {
  LiveSet live;
  const EventIds ids{};
  live.Apply(Of(EventKind::kRecordingStart, 0, 0, kStartWithExisting), ids);
  live.Apply(Torch(EventKind::kFree, 1000), ids);   // before its row comes
  live.Apply(Torch(EventKind::kAlloc, 2000), ids);  // new
  live.Apply(Existing(kExistingSegment, 4096, 4096), ids);
  live.Apply(Existing(kExistingBlock, 1000), ids);
  live.Apply(Existing(kExistingBlock, 2000), ids);
  live.Apply(Existing(kExistingBlock, 3000), ids);
  live.Apply(Of(EventKind::kExistingEnd, 0, 0, 4), ids);
  EXPECT_EQ(Kept(&live), "1:2000 1:4096t 1:3000");
}

TEST_F(LiveSetTest, BehindAPauseItTakesThePlaceOfWhatPyTorchHad) {
  LiveSet live;
  const EventIds ids{};
  live.Apply(Of(EventKind::kAlloc, 100, 50), ids);
  live.Apply(Of(EventKind::kAlloc, 1000, 50), ids);
  live.Apply(Torch(EventKind::kAlloc, 1000), ids);
  live.Apply(Torch(EventKind::kAlloc, 1020), ids);
  live.Apply(Of(EventKind::kRecordingStart, 0, 0, kStartWithExisting), ids);
  live.Apply(Existing(kExistingBlock, 1020), ids);
  live.Apply(Of(EventKind::kExistingEnd, 0, 0, 1), ids);
  EXPECT_EQ(Kept(&live), "1:100 1:1020");
}

}  // namespace
}  // namespace gpumemshim::writer
