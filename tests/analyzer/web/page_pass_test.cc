// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/page_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ledger/load/attribute.h"
#include "ledger/load/input.h"
#include "testing/index_folder.h"
#include "testing/training_trace.h"
#include "web/page_data.h"

namespace gpumem {
namespace {

using testing::Call;
using testing::Code;
using testing::TrainingTrace;

constexpr uint64_t kMiB = 1 << 20, kAt = 0x7f0000000000;

struct Passed {
  std::unique_ptr<LoadedTrace> loaded;
  std::unique_ptr<PagePass> pass;
};

Passed Of(const std::string& path, const PageLimits& limits = PageLimits()) {
  LoadRequest request;
  request.place = path;
  auto loaded = LoadTrace(request);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  Passed passed{*std::move(loaded), nullptr};
  passed.pass = std::make_unique<PagePass>(passed.loaded.get(), limits);
  EXPECT_TRUE(ShowLives(passed.loaded.get(), passed.pass.get()).ok());
  return passed;
}

// Blocks of random sizes and lives on two GPUs, and some memory outside of PyTorch.
std::string Random(uint32_t seed, int events) {
  std::mt19937 random(seed);
  TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  builder.Device(0, "GPU", 1 << 30).Device(1, "GPU", 1 << 30);
  std::vector<uint64_t> stacks;
  for (int i = 0; i < 40; ++i)
    stacks.push_back(trace.Stack({Code("f" + std::to_string(i), "/job/train.py", static_cast<uint32_t>(i + 1))}));
  for (uint64_t device = 0; device < 2; ++device)
    builder.CudaAlloc(kAt + (device << 40), 900 * kMiB, stacks[0], static_cast<int>(device));
  std::map<uint64_t, std::pair<uint64_t, int>> live;  // address -> size, device
  for (int i = 0; i < events; ++i) {
    const int device = static_cast<int>(random() % 2);
    if (random() % 3 == 0 && !live.empty()) {
      const auto which = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
      builder.TorchFree(which->first, which->second.first, which->second.second);
      live.erase(which);
    } else {
      const uint64_t address = kAt + (static_cast<uint64_t>(device) << 40) + static_cast<uint64_t>(i) * 4096;
      const uint64_t size = 512 * (1 + random() % 8);
      builder.TorchAlloc(address, size, stacks[random() % stacks.size()], device);
      live[address] = {size, device};
    }
    if (random() % 50 == 0)
      builder.CudaAlloc(kAt + (uint64_t{9} << 40) + static_cast<uint64_t>(i) * kMiB, kMiB, stacks[1], device);
  }
  builder.End();
  return builder.WriteTemporary();
}

// What the layers of a property say that a row is made of.
std::vector<uint64_t> Sums(PageDevice* device, PageLayer by, size_t most) {
  std::vector<uint64_t> sums(device->rows.rows().size());
  for (const Layer& layer : device->layers[static_cast<size_t>(by)].Take(most)) {
    int64_t bytes = 0;
    size_t next = 0;
    for (size_t row = 0; row < sums.size(); ++row) {
      for (; next < layer.changes.size() && layer.changes[next].row == row; ++next) bytes += layer.changes[next].bytes;
      EXPECT_GE(bytes, 0);
      sums[row] += static_cast<uint64_t>(bytes);
    }
  }
  return sums;
}

TEST(PagePass, LayersOfEachPropertyAddUpToWhatWasHeldInEachRow) {
  for (const int events : {1, 30, 4'000}) {
    Passed passed = Of(Random(static_cast<uint32_t>(events), events), {256, 40'000, 100, 0, 0, {}});
    for (PageDevice& device : passed.pass->devices()) {
      std::vector<uint64_t> held;
      for (const TimeRow& row : device.rows.rows()) held.push_back(row.values.allocated + row.values.other);
      for (const PageLayer by : {PageLayer::kCategory, PageLayer::kModule, PageLayer::kLine, PageLayer::kStream}) {
        std::vector<uint64_t> sums = Sums(&device, by, 7);
        // The segment before its first block: nobody can know yet that it is one.
        sums[0] = held[0];
        EXPECT_EQ(sums, held) << events;
      }
    }
  }
}

TEST(PagePass, ThePeakIsARowAndItsBlocksAreAllThere) {
  Passed passed = Of(Random(5, 4'000), {64, 5'000, 100, 0, 0, {}});
  ASSERT_EQ(passed.loaded->analysis.devices.size(), 2u);
  for (const DeviceAnalysis& device : passed.loaded->analysis.devices) {
    const LiveSet& peak = device.at_peak_allocated;
    uint64_t count = 0, bytes = 0;
    for (const PageLife& row : passed.pass->blocks().lives()) {
      if (row.device != device.device || row.memory != 0 || row.layer != static_cast<uint8_t>(trace::TORCH)) continue;
      if (row.life.born > peak.event_index || row.life.end <= peak.event_index) continue;
      ++count;
      bytes += row.life.size;
    }
    EXPECT_EQ(count, peak.block_count);
    EXPECT_EQ(bytes, peak.bytes);
    const TimeRows& rows = passed.pass->devices()[static_cast<size_t>(device.device)].rows;
    ASSERT_LT(rows.At(peak.event_index), rows.rows().size());
    EXPECT_EQ(rows.rows()[rows.At(peak.event_index)].event, peak.event_index);
    EXPECT_EQ(rows.rows()[rows.At(peak.event_index)].values.allocated, peak.bytes);
  }
}

// A block that the program kept to the end of its own code, and that the teardown frees.
std::string WithTeardown() {
  TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  builder.Device(0, "GPU", 1 << 30);
  const uint64_t stack = trace.Stack({Code("main", "/job/train.py", 9)});
  builder.CudaAlloc(kAt, 40 * kMiB, stack).TorchAlloc(kAt, kMiB, stack);
  EventRow end;
  end.kind = trace::MARK;
  end.handle = kProgramEndMark;
  builder.Event(end).TorchFree(kAt, kMiB).End();
  return builder.WriteTemporary();
}

TEST(PagePass, AnAttributionInTheSameReplayEndsWithTheProgramsOwnCode) {
  LoadRequest place;
  place.place = WithTeardown();
  const std::unique_ptr<LoadedTrace> loaded = *LoadTrace(place);
  AttributionRequest request;
  request.moments = {{MomentQuery::Kind::kTime, loaded->analysis.program_end_ns, "end"}};
  const std::unique_ptr<Attribution> alone = *AttributeLoaded(request, "", loaded.get());
  const auto attributor = *LoadedAttributor::Make(request, "", loaded.get());
  PagePass page(loaded.get(), PageLimits());
  const LoadedLives lives(loaded.get(), &page);
  ASSERT_TRUE(RunAnalyses(*loaded, {attributor->analysis(), lives.analysis()}).ok());
  const std::unique_ptr<Attribution> beside = attributor->Take(loaded.get());
  EXPECT_EQ(beside->moments[0].categories, alone->moments[0].categories);
  EXPECT_EQ(beside->moments[0].categories[Index(Category::kTemporary)], 0u) << "it was kept";
}

// Of a large trace lives are kept: what is read of them is what two replays show.
TEST(PagePass, IsTheSameFromLivesThatAreKept) {
  const testing::IndexFolder folder;
  for (const std::string& path : {Random(4, 3'000), WithTeardown()}) {
    const auto data = [&path](bool is_kept) {
      setenv("GPUMEMSHIM_INDEX_ABOVE", is_kept ? "0" : "never", 1);
      const Passed passed = Of(path);
      EXPECT_EQ(passed.loaded->answers != nullptr, is_kept);
      return PageData({{passed.loaded.get(), passed.pass.get(), {}}}, "", "gpumemshim test");
    };
    const std::string replayed = data(false), built = data(true), kept = data(true);
    unsetenv("GPUMEMSHIM_INDEX_ABOVE");
    EXPECT_EQ(built, replayed);
    EXPECT_EQ(kept, replayed);
  }
}

// In the stretches that a page says, every block that began or ended is there, and each change is a row that the layers
// add up to.
TEST(PagePass, SingleEventsAreAllThereInTheStretchesThatItSays) {
  const std::string path = Random(6, 12'000);
  Passed all = Of(path, {8'192, 40'000, 20'000, 16'384, 0, {}});
  ASSERT_EQ(all.pass->SingleEvents(), (std::vector<EventRange>{{0, all.pass->events()}}));
  const PageLimits limits{64, 6'500, 20'000, 0, 8'192, {1'000, 1'100}};
  Passed some = Of(path, limits);
  const std::vector<EventRange> stretches = some.pass->SingleEvents();
  ASSERT_FALSE(stretches.empty());
  EventWindows windows(1 << 20);
  for (const EventRange& stretch : stretches) windows.Add(stretch.from, stretch.until);
  EXPECT_TRUE(windows.Has(1'000) && windows.Has(1'099));
  for (const DeviceAnalysis& device : some.loaded->analysis.devices)
    EXPECT_TRUE(windows.Has(device.at_peak_allocated.event_index));
  EXPECT_GT(some.pass->blocks().left_out(), 0u);
  const auto events = [&windows](const PageLives& lives) {
    std::vector<std::pair<uint64_t, uint64_t>> seen;
    for (const PageLife& each : lives.lives()) {
      if (windows.Has(each.life.born)) seen.emplace_back(each.life.born, each.life.address);
      if (each.life.end_ns != 0 && windows.Has(each.life.end)) seen.emplace_back(each.life.end, each.life.address);
    }
    std::sort(seen.begin(), seen.end());
    return seen;
  };
  EXPECT_EQ(events(some.pass->blocks()), events(all.pass->blocks()));
  EXPECT_EQ(events(some.pass->segments()), events(all.pass->segments()));
  for (size_t i = 0; i < 2; ++i) {
    const auto rows = [&windows](Passed* passed, size_t device) {
      std::vector<std::pair<uint64_t, uint64_t>> seen;
      for (const TimeRow& row : passed->pass->devices()[device].rows.rows()) {
        if (windows.Has(row.event)) seen.emplace_back(row.event, row.values.allocated + row.values.other);
      }
      return seen;
    };
    EXPECT_EQ(rows(&some, i), rows(&all, i));
    PageDevice& device = some.pass->devices()[i];
    std::vector<uint64_t> held, sums = Sums(&device, PageLayer::kCategory, 7);
    for (const TimeRow& row : device.rows.rows()) held.push_back(row.values.allocated + row.values.other);
    sums[0] = held[0];
    EXPECT_EQ(sums, held);
  }
}

// A long run whose peak is at its beginning, with a mark and a failed request far behind it.
TEST(PagePass, SingleEventsStandBehindMarksAndAroundFailures) {
  TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  builder.Device(0, "GPU", 1 << 30);
  const uint64_t stack = trace.Stack({Code("main", "/job/train.py", 9)});
  builder.CudaAlloc(kAt, 900 * kMiB, stack).TorchAlloc(kAt, 500 * kMiB, stack).TorchFree(kAt, 500 * kMiB);
  uint64_t mark = 0, failure = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    builder.TorchAlloc(kAt, 512, stack).TorchFree(kAt, 512);
    EventRow row;
    if (i == 5'000) {
      row.kind = trace::MARK;
      mark = builder.event_count();
      builder.Event(row);
    } else if (i == 15'000) {
      row.kind = trace::ALLOC_FAILED;
      row.layer = trace::TORCH;
      row.size = 2048 * kMiB;
      failure = builder.event_count();
      builder.Event(row);
    }
  }
  builder.End();
  const Passed passed = Of(builder.WriteTemporary(), {64, 40'000, 100, 0, 8'192, {}});
  const std::vector<EventRange> stretches = passed.pass->SingleEvents();
  const auto has = [&stretches](uint64_t from, uint64_t to) {
    return std::any_of(stretches.begin(), stretches.end(),
                       [&](const EventRange& each) { return each.from <= from && to < each.until; });
  };
  EXPECT_TRUE(has(0, 1'000)) << "the peak";
  EXPECT_TRUE(has(mark + 1, mark + 100));
  EXPECT_TRUE(has(failure - 500, failure + 100));
  EXPECT_FALSE(has(mark - 500, mark - 500));
  EXPECT_FALSE(has(30'000, 30'000) && has(20'000, 20'000)) << "elsewhere there are none";
}

TEST(PagePass, WithoutRoomForTheirBlocksNoSingleEventsAreSaid) {
  EXPECT_TRUE(Of(Random(6, 4'000), {64, 50, 100, 0, 0, {1'000, 2'000}}).pass->SingleEvents().empty());
}

TEST(PagePass, FewBlocksByNameLeaveTheSumsWhole) {
  const std::string path = Random(9, 3'000);
  Passed all = Of(path), few = Of(path, {256, 10, 100, 0, 0, {}});
  EXPECT_EQ(few.pass->blocks().lives().size(), 10u);
  EXPECT_EQ(few.pass->blocks().left_out() + 10, all.pass->blocks().lives().size());
  EXPECT_EQ(Sums(&few.pass->devices()[0], PageLayer::kLine, 5).size(), few.pass->devices()[0].rows.rows().size());
}

// What others recorded may be of one moment, before which nothing happened.
TEST(PagePass, OneMomentIsARow) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/one_moment_", getpid()),
                    path = folder + "/moment.json";
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  std::filesystem::create_directories(folder);
  std::ofstream(path)
      << R"({"segments": [{"device": 0, "address": 1048576, "total_size": 3072, "stream": 0, "blocks": [)"
      << R"({"address": 1048576, "size": 1024, "requested_size": 1000, "state": "active_allocated"},)"
      << R"({"address": 1049600, "size": 2048, "requested_size": 0, "state": "inactive"}]}],)"
      << R"("device_traces": [[]]})";
  Passed passed = Of(path);
  ASSERT_EQ(passed.pass->devices().size(), 1u);
  PageDevice& device = passed.pass->devices()[0];
  ASSERT_EQ(device.rows.rows().size(), 1u);
  EXPECT_EQ(device.rows.rows()[0].values.allocated, 1024u);
  EXPECT_EQ(device.rows.rows()[0].values.reserved, 3072u);
  EXPECT_EQ(Sums(&device, PageLayer::kLine, 5), std::vector<uint64_t>{1024});
  unsetenv("XDG_CACHE_HOME");
  std::filesystem::remove_all(folder);
}

TEST(PageData, ATraceWithoutGpuMemoryHasNoDevices) {
  testing::TraceBuilder builder;
  const Passed passed = Of(builder.End().WriteTemporary());
  const std::string data =
      PageData({{passed.loaded.get(), passed.pass.get(), {{"report", "{}\n"}}}}, "", "gpumemshim test");
  EXPECT_THAT(data, ::testing::HasSubstr("\"devices\": []"));
  EXPECT_THAT(data, ::testing::HasSubstr("\"generator\": \"gpumemshim test\""));
}

}  // namespace
}  // namespace gpumem
