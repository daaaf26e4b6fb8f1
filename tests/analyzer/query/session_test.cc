// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SQL says what the other answers say: totals, peaks, steps, categories, modules.

#include "query/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "asked.h"
#include "ledger/load/attribute.h"
#include "ledger/load/input.h"
#include "testing/trace_builder.h"
#include "training.h"

namespace gpumem {
namespace {

using testing::Asked;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::WriteTraining;

std::unique_ptr<LoadedTrace> Load(const std::string& path) {
  LoadRequest request;
  request.place = path;
  auto loaded = LoadTrace(request);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

std::string Text(uint64_t number) { return std::to_string(number); }

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GPUMEM_NEEDS_DUCKDB();
    path_ = WriteTraining(-1);
    loaded_ = Load(path_);
    AttributionRequest request;
    request.steps = request.modules = true;
    const DeviceAnalysis* const device = LargestDevice(loaded_->analysis);
    request.moments = {{MomentQuery::Kind::kEvent, device->at_peak_allocated.event_index, "peak"},
                       {MomentQuery::Kind::kTime, loaded_->analysis.program_end_ns, "end"}};
    attribution_ = *AttributeLoaded(request, "", loaded_.get());
    asked_ = std::make_unique<Asked>(std::vector<std::string>{path_});
  }

  // Bytes of the categories that blocks have; those of no block are derived elsewhere.
  void ExpectCategories(const Moment& moment, const std::string& at) {
    for (size_t i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      if (category == Category::kAllocatorOverhead || category == Category::kContext) continue;
      EXPECT_EQ(asked_->One(absl::StrCat("SELECT coalesce(sum(size), 0) FROM live_at('", at, "') WHERE category = '",
                                         CategoryName(category), "'")),
                Text(moment.categories[i]))
          << at << " " << CategoryName(category);
    }
  }

  std::string path_;
  std::unique_ptr<LoadedTrace> loaded_;
  std::unique_ptr<Attribution> attribution_;
  std::unique_ptr<Asked> asked_;
};

TEST_F(SessionTest, PeaksAreTheReports) {
  const DeviceAnalysis& device = loaded_->analysis.devices.front();
  EXPECT_EQ(asked_->One("SELECT max(allocated), max(reserved), max(total), max(allocated_max) FROM events"),
            absl::StrCat(device.peak_allocated.bytes, ",", device.peak_reserved.bytes, ",", device.peak_total.bytes,
                         ",", device.peak_allocated.bytes));
  EXPECT_EQ(asked_->One("SELECT peak_allocated, peak_reserved, peak_total FROM processes"),
            absl::StrCat(device.peak_allocated.bytes, ",", device.peak_reserved.bytes, ",", device.peak_total.bytes));
  EXPECT_EQ(asked_->One("SELECT sum(size) FROM live_at('peak') WHERE layer = 'torch'"),
            Text(device.peak_allocated.bytes));
}

TEST_F(SessionTest, CategoriesAreThoseOfAt) {
  ASSERT_TRUE(attribution_->moments[0].found && attribution_->moments[1].found);
  ExpectCategories(attribution_->moments[0], "peak");
  ExpectCategories(attribution_->moments[1], "end");
  EXPECT_GT(attribution_->moments[0].categories[Index(Category::kActivation)], 0u);
  EXPECT_GT(attribution_->moments[0].categories[Index(Category::kParameter)], 0u);
}

TEST_F(SessionTest, StepsAreThoseOfSteps) {
  ASSERT_EQ(attribution_->steps.size(), 3u);
  EXPECT_EQ(asked_->One("SELECT count(*) FROM steps"), "3");
  for (const AttributedStep& each : attribution_->steps) {
    const Step& step = each.step;
    EXPECT_EQ(asked_->One(absl::StrCat(
                  "SELECT peak_allocated, end_allocated, growth, peak_event FROM steps WHERE step = ", step.number)),
              absl::StrCat(step.peak.values.allocated, ",", step.end.values.allocated, ",", step.GrowthBytes(), ",",
                           step.peak.event_index));
    EXPECT_EQ(
        asked_->One(absl::StrCat("SELECT sum(size) FROM live_at('step ", step.number, "') WHERE layer = 'torch'")),
        Text(step.peak.values.allocated));
    EXPECT_EQ(asked_->One(absl::StrCat("SELECT max(allocated) FROM events WHERE step = ", step.number)),
              Text(step.peak.values.allocated));
  }
}

TEST_F(SessionTest, ModulesAreThoseOfModules) {
  std::map<std::string, uint64_t> allocated;
  for (const ModuleUse& use : attribution_->module_uses)
    allocated[attribution_->modules[use.module].fqn] += use.allocated_bytes;
  EXPECT_EQ(asked_->One("SELECT allocated_bytes FROM modules WHERE module = 'mlp'"), Text(allocated["mlp"]));
  EXPECT_EQ(asked_->One("SELECT sum(size) FROM blocks b JOIN stacks s USING (stack) WHERE s.module = 'mlp'"),
            Text(allocated["mlp"]));
  EXPECT_EQ(asked_->One("SELECT parameter_bytes FROM modules WHERE module = 'mlp'"), Text(4 << 20));
}

TEST_F(SessionTest, EveryEventAndBlockIsThere) {
  const EventCounts& counts = loaded_->analysis.events;
  EXPECT_EQ(asked_->One("SELECT count(*) FROM events WHERE layer IS NOT NULL"),
            Text(counts.torch + counts.runtime + counts.driver));
  EXPECT_EQ(asked_->One("SELECT count(*) FROM blocks WHERE layer = 'torch'"),
            asked_->One("SELECT count(*) FROM events WHERE layer = 'torch' AND kind = 'alloc'"));
  EXPECT_EQ(asked_->One("SELECT count(*), sum(size) FROM segments"), absl::StrCat("1,", 40 << 20));
  EXPECT_EQ(asked_->One("SELECT sum(size) FROM live_at('peak') WHERE layer <> 'torch'"), Text(3 << 20));
}

TEST_F(SessionTest, TheRunningSumOfBlocksIsTheTotalOfEveryEvent) {
  EXPECT_EQ(
      asked_->One("WITH changes AS (SELECT born_event AS event, size AS change FROM blocks WHERE layer = 'torch' "
                  "UNION ALL SELECT died_event, -size FROM blocks WHERE layer = 'torch' AND died_event IS NOT NULL),"
                  "sums AS (SELECT event, sum(change) OVER (ORDER BY event) AS held FROM changes) "
                  "SELECT count(*) FROM sums JOIN events USING (event) WHERE held <> allocated"),
      "0");
}

TEST_F(SessionTest, TeardownFreesNothingThatWasKept) {
  EXPECT_EQ(asked_->One("SELECT sum(size), count(died_event) FROM blocks WHERE kept AND category = 'parameter'"),
            absl::StrCat(4 << 20, ",1"));
  EXPECT_EQ(asked_->One("SELECT count(*) FROM blocks WHERE kept AND line LIKE '%model.py:7%'"), "3");
}

TEST_F(SessionTest, StacksAndFramesHaveNames) {
  EXPECT_EQ(asked_->One("SELECT DISTINCT function FROM frames WHERE depth = 0 AND line = 3"), "MLP.__init__");
  EXPECT_EQ(asked_->One("SELECT count(*) FROM blocks b LEFT JOIN stacks s USING (stack) WHERE b.line <> s.line"), "0");
  EXPECT_EQ(asked_->One("SELECT count(*) FROM blocks WHERE line IS NULL"), "0");
}

size_t FilesIn(const std::string& folder) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files += entry.is_regular_file();
  return files;
}

TEST_F(SessionTest, TheIndexIsBuiltOnceForAStateOfTheTrace) {
  SessionRequest request;
  request.traces = {path_};
  request.index_folder = testing::NewFolder();
  EXPECT_EQ((*SqlSession::Open(request))->indexes_built(), 1u);
  EXPECT_EQ((*SqlSession::Open(request))->indexes_built(), 0u);
  const auto first = std::filesystem::directory_iterator(request.index_folder)->path();
  std::ofstream(first, std::ios::trunc) << "no index";
  EXPECT_EQ((*SqlSession::Open(request))->indexes_built(), 1u);
  EXPECT_EQ(FilesIn(request.index_folder), 2u);
}

TEST_F(SessionTest, EventsAreReadWhenAStatementAsksForThem) {
  SessionRequest request;
  request.traces = {path_};
  request.index_folder = testing::NewFolder();
  const auto count = [&](const std::string& sql) {
    request.sql = sql;
    const auto session = SqlSession::Open(request);
    auto rows = (*session)->Run(sql);
    return rows.ok() && rows->Next() ? CellAt(*rows, 0, 0).text : std::string(rows.status().message());
  };
  for (const char* const from : {"blocks", "live_at('peak')", "segments JOIN steps ON true", "stacks", "modules"}) {
    const std::string sql = absl::StrCat("SELECT count(*) FROM ", from);
    EXPECT_EQ(count(sql), asked_->One(sql)) << from;
    EXPECT_EQ(FilesIn(request.index_folder), 1u) << from;
  }
  const auto session = SqlSession::Open(request);
  EXPECT_FALSE((*session)->Run("SELECT count(*) FROM events").ok()) << "the session was told of another statement";
  EXPECT_FALSE((*session)->Run("SELECT count(*) FROM live_at('0.5s')").ok());
  EXPECT_EQ(count("SELECT count(*) FROM marks"), asked_->One("SELECT count(*) FROM marks"));
  EXPECT_EQ(FilesIn(request.index_folder), 2u);
  EXPECT_EQ(count("SELECT count(*) FROM live_at('0.5s')"), asked_->One("SELECT count(*) FROM live_at('0.5s')"));
}

TEST(SeveralTracesTest, RowsHaveTheirRank) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({WriteTraining(0, 2), WriteTraining(1, 4)});
  EXPECT_EQ(asked.Csv("SELECT rank, trace, count(*) FROM steps GROUP BY ALL ORDER BY ALL"),
            "rank,trace,count_star()\n0,0,2\n1,1,4\n");
  EXPECT_EQ(asked.Csv("SELECT rank, sum(size) FROM live_at('peak') WHERE category = 'parameter' GROUP BY 1 ORDER BY 1"),
            "rank,sum(size)\n0,4194304\n1,4194304\n");
}

TEST(SeveralTracesTest, OneThatCannotBeReadIsLeftOutAndSaid) {
  GPUMEM_NEEDS_DUCKDB();
  const std::string bad = testing::NewFolder() + ".gmtrace";
  std::ofstream(bad) << "this is not a trace";
  Asked asked({WriteTraining(0), bad});
  EXPECT_TRUE(asked.session().is_partial());
  EXPECT_THAT(asked.session().notes(), Contains(HasSubstr("is left out")));
  EXPECT_EQ(asked.One("SELECT count(*) FROM processes"), "1");
}

TEST(DamagedTraceTest, IsAnsweredUpToTheDamageAndSaysSo) {
  GPUMEM_NEEDS_DUCKDB();
  testing::TraceBuilder builder(10);
  for (uint64_t i = 0; i < 100; ++i) builder.CudaAlloc(0x1000 * (i + 1), 4096);
  std::string bytes = builder.End().Bytes();
  const size_t middle = bytes.size() / 2;
  for (size_t i = middle; i < middle + 40; ++i) bytes[i] = '\xff';
  const std::string path = testing::NewFolder() + ".gmtrace";
  std::ofstream(path, std::ios::binary) << bytes;
  Asked asked({path});
  EXPECT_TRUE(asked.session().is_partial());
  EXPECT_THAT(asked.session().notes(), Contains(HasSubstr("damaged")));
  EXPECT_NE(asked.One("SELECT damage FROM processes"), "");
  EXPECT_NE(asked.One("SELECT count(*) FROM events"), "0");
  EXPECT_NE(asked.One("SELECT count(*) FROM losses WHERE count > 0"), "0");
}

TEST(LossesTest, HaveThoseOfCupti) {
  GPUMEM_NEEDS_DUCKDB();
  testing::TraceBuilder builder;
  trace::Packet packet;
  packet.mutable_cupti()->set_dropped_records(3);
  packet.mutable_cupti()->set_lost_records(5);
  const std::string path = builder.CudaAlloc(0x1000, 4096).Append(packet).End().WriteTemporary();
  Asked asked({path});
  constexpr char kLost[] = "SELECT count FROM losses WHERE NOT loses_events AND what = ";
  EXPECT_EQ(asked.One(absl::StrCat(kLost, "'cupti_dropped_records'")), "3");
  EXPECT_EQ(asked.One(absl::StrCat(kLost, "'cupti_lost_records'")), "5");
}

// unmap and release name no device; the replay knows whose memory it is.
TEST(DriverEventsTest, TotalsHoldWhereTheDriverNamesARange) {
  GPUMEM_NEEDS_DUCKDB();
  constexpr uint64_t kRange = 0x7f0000000000;
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", uint64_t{1} << 30);
  const auto driver = [&](trace::EventKind kind, uint64_t address, uint64_t size, uint64_t handle, int device) {
    EventRow row;
    row.kind = kind;
    row.layer = trace::DRIVER;
    row.memory = trace::VIRTUAL;
    row.device = device;
    row.address = address;
    row.size = size;
    row.handle = handle;
    row.thread = 1;
    if (kind == trace::PHYSICAL_CREATE || kind == trace::PHYSICAL_RELEASE) row.memory = trace::PHYSICAL;
    trace.Event(row);
  };
  driver(trace::ADDRESS_RESERVE, kRange, 64 << 20, 0, -1);
  driver(trace::PHYSICAL_CREATE, 0, 20 << 20, 7, 0);
  driver(trace::MAP, kRange, 20 << 20, 7, -1);
  trace.TorchAlloc(kRange, 4 << 20).TorchFree(kRange, 4 << 20);
  driver(trace::UNMAP, kRange, 20 << 20, 0, -1);
  driver(trace::PHYSICAL_RELEASE, 0, 0, 7, -1);
  trace.End();
  Asked asked({trace.WriteTemporary()});
  EXPECT_EQ(asked.One("SELECT reserved FROM events WHERE kind = 'map'"), "20971520");
  EXPECT_EQ(asked.One("SELECT device FROM events WHERE kind = 'unmap'"), "0");
  EXPECT_EQ(asked.One("SELECT reserved FROM events WHERE kind = 'physical_release'"), "0");
}

TEST(UnfinishedTraceTest, SaysThatItHasNoEnd) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({WriteTraining(-1, 2, false)});
  EXPECT_THAT(asked.session().notes(), Contains(HasSubstr("has no end")));
  EXPECT_EQ(asked.One("SELECT complete FROM processes"), "false");
  EXPECT_EQ(asked.One("SELECT count(*) FROM steps"), "2");
}

TEST(EmptyTraceTest, HasTablesWithoutRows) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::TraceBuilder().End().WriteTemporary()});
  for (const char* const table : {"events", "blocks", "segments", "stacks", "frames", "steps", "modules", "marks"})
    EXPECT_EQ(asked.One(absl::StrCat("SELECT count(*) FROM ", table)), "0") << table;
  EXPECT_EQ(asked.One("SELECT count(*) FROM live_at('peak')"), "0");
  EXPECT_EQ(asked.One("SELECT count(*) FROM processes"), "1");
}

TEST(HostileNamesTest, AreTextAndNothingElse) {
  GPUMEM_NEEDS_DUCKDB();
  testing::TraceBuilder builder;
  const uint64_t stack = builder.PythonStack({{"f'); DROP TABLE x; --", "a'b\".py", 1}, {"\x1b[2J", "\x1b[31m", 2}});
  const uint64_t other = builder.PythonStack({{std::string("nul\0here", 8), "c.py", 3}});
  builder.TorchAlloc(0x1000, 512, stack).TorchAlloc(0x2000, 512, other);
  Asked asked({builder.End().WriteTemporary()});
  EXPECT_EQ(asked.One("SELECT count(*) FROM blocks"), "2");
  EXPECT_EQ(asked.One("SELECT count(*) FROM frames WHERE function LIKE '%DROP TABLE%'"), "1");
}

}  // namespace
}  // namespace gpumem
