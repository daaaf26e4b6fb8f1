// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A ring of its own for each test, in a folder of its own, and short ways to fill and read it. The folder lies on a
// disk: how far a ring grows follows the file system and who else has rings in it (shim/ring/room.h), and /dev/shm of a
// test machine may be small, and has the rings of the tests beside.

#ifndef GPUMEM_TESTS_SHIM_RING_RING_FIXTURE_H_
#define GPUMEM_TESTS_SHIM_RING_RING_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "shim/ring/reader.h"
#include "shim/ring/ring.h"

namespace gpumemshim::ring {

class RingTest : public testing::Test {
 protected:
  RingTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }

  ~RingTest() override {
    Stop(1000);
    Unlink();
    EXPECT_EQ(rmdir(folder_.c_str()), 0) << folder_;
  }

  Config OwnConfig() const {
    Config config;
    config.directory = folder_.c_str();
    return config;
  }

  void StartRing(uint64_t size_bytes = kDefaultSizeBytes, uint32_t first_chunks = Config().first_chunks) {
    Config config = OwnConfig();
    config.size_bytes = size_bytes;
    config.first_chunks = first_chunks;
    ASSERT_TRUE(Start(config));
    ASSERT_TRUE(reader_.Attach());
  }

  static Event MakeEvent(EventKind kind, uint64_t address, uint64_t size = 0) {
    Event event{};
    event.kind = kind;
    event.layer = Layer::kRuntime;
    event.address = address;
    event.size = size;
    return event;
  }

  // One pass; appends the events and gives the chunks back.
  void Drain(std::vector<Event>* out, bool everything = false) {
    reader_.BeginPass(everything);
    RawCode code;
    while (reader_.NextCode(&code)) {
    }
    StackView stack;
    while (reader_.NextStack(&stack)) {
    }
    EventView view;
    while (reader_.NextEvent(&view)) out->push_back(*view.event);
    reader_.MarkPending(++sequence_);
    reader_.Commit();
  }

  std::vector<Event> StopAndDrain() {
    std::vector<Event> events;
    Stop(1000);
    Drain(&events, true);
    return events;
  }

  std::string folder_ = testing::TempDir() + "gpumemshim-ring.XXXXXX";
  Reader reader_;
  uint64_t sequence_ = 0;
};

}  // namespace gpumemshim::ring

#endif  // GPUMEM_TESTS_SHIM_RING_RING_FIXTURE_H_
