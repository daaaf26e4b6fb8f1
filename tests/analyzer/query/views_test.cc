// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "asked.h"
#include "base/format.h"
#include "query/schema.h"
#include "training.h"

namespace gpumem {
namespace {

using testing::Asked;

TEST(HumanTest, IsFormatBytes) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::TraceBuilder().End().WriteTemporary()});
  const std::vector<uint64_t> sizes = {0,       1,         1023,          1024,           1025,         1536,
                                       10240,   102396,    102400,        102401,         1048570,      1048571,
                                       1048576, 104857600, 1073741823,    1073741824,     80ull << 30,  123456789012,
                                       1000000, 104852357, 1099511627776, 33285996544ull, 5497558138881};
  for (const uint64_t size : sizes)
    EXPECT_EQ(asked.One(absl::StrCat("SELECT human(", size, ")")), FormatBytes(size)) << size;
  EXPECT_EQ(asked.One("SELECT human(-1536)"), "-1.50 KiB");
  EXPECT_EQ(asked.One("SELECT human(NULL) IS NULL"), "true");
  EXPECT_EQ(asked.One("SELECT human(sum(i)) FROM range(2048) t(i)"), FormatBytes(2047 * 1024));
}

TEST(MomentTest, TakesTimesAsTheCommandLineDoes) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::TraceBuilder().End().WriteTemporary()});
  for (const char* const text : {"90", "1.5s", "200ms", "250us", "1e9ns", "2m", "2min", "1h", "0.25"})
    EXPECT_EQ(asked.One(absl::StrCat("SELECT parse_time_ns('", text, "')")), std::to_string(*ParseTime(text))) << text;
  EXPECT_EQ(asked.One("SELECT parse_time_ns(1500)"), "1500");
  for (const char* const text : {"epoch 1", "s", "1x", ""})
    EXPECT_EQ(asked.One(absl::StrCat("SELECT parse_time_ns('", text, "') IS NULL")), "true") << text;
}

TEST(MomentTest, NamesInstants) {
  GPUMEM_NEEDS_DUCKDB();
  testing::TraceBuilder builder;
  EventRow mark;
  mark.kind = trace::MARK;
  mark.text = builder.String("half way");
  builder.AtTime(1'000'000'000).TorchAlloc(0x1000, 512).AtTime(2'000'000'000).TorchAlloc(0x2000, 1024);
  mark.time_ns = 2'500'000'000;
  builder.Event(mark).AtTime(3'000'000'000).TorchFree(0x1000, 512);
  Asked asked({builder.End().WriteTemporary()});
  const auto alive = [&](const std::string& moment) {
    return asked.One(absl::StrCat("SELECT coalesce(sum(size), 0) FROM live_at(", moment, ")"));
  };
  EXPECT_EQ(alive("'500ms'"), "512");
  EXPECT_EQ(alive("'1s'"), "1536");
  EXPECT_EQ(alive("1000000000"), "1536");
  EXPECT_EQ(alive("1.0"), "1536");
  EXPECT_EQ(alive("'half way'"), "1536");
  EXPECT_EQ(alive("'end'"), "1024");
  EXPECT_EQ(alive("'1h'"), "1024");
  EXPECT_EQ(alive("'no such mark'"), "0");
  EXPECT_EQ(asked.Csv("SELECT kind, text, time_ns FROM marks"), "kind,text,time_ns\nmark,half way,1500000000\n");
}

TEST(DeviceTracesTest, AreAsPyTorchSaysThem) {
  GPUMEM_NEEDS_DUCKDB();
  testing::TraceBuilder builder;
  builder.CudaAlloc(0x100000, 2 << 20).TorchAlloc(0x100000, 512).TorchFree(0x100000, 512).CudaFree(0x100000);
  Asked asked({builder.End().WriteTemporary()});
  EXPECT_EQ(asked.Csv("SELECT action, addr, size FROM device_traces ORDER BY event"),
            "action,addr,size\nsegment_alloc,1048576,2097152\nalloc,1048576,512\nfree_completed,1048576,512\n"
            "segment_free,1048576,2097152\n");
}

TEST(NsightTest, AllocatesAndFreesWithBytes) {
  GPUMEM_NEEDS_DUCKDB();
  testing::TraceBuilder builder;
  builder.CudaAlloc(0x100000, 2 << 20).TorchAlloc(0x100000, 512).CudaAlloc(0x900000, 4096).CudaFree(0x900000);
  Asked asked({builder.End().WriteTemporary()});
  EXPECT_EQ(
      asked.Csv(
          "SELECT bytes, memKind, memoryOperationType, deviceId FROM CUDA_GPU_MEMORY_USAGE_EVENTS ORDER BY start"),
      "bytes,memKind,memoryOperationType,deviceId\n2097152,2,0,0\n4096,2,0,0\n4096,2,1,0\n");
}

TEST(SchemaTest, EveryColumnIsThereAndSaysWhatItIs) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::WriteTraining(0)});
  for (const TableSchema* const table : AllTables()) {
    for (const TableColumn& column : table->columns) {
      EXPECT_NE(std::string(column.about), "") << table->name << "." << column.name;
      EXPECT_TRUE(asked
                      .StatusOf(absl::StrCat("SELECT \"", column.name, "\", trace, rank, _rank, _host, _role FROM ",
                                             table->name))
                      .ok())
          << table->name << "." << column.name;
    }
  }
  for (const ViewInfo& view : Views()) EXPECT_TRUE(asked.StatusOf(absl::StrCat("SELECT * FROM ", view.name)).ok());
}

}  // namespace
}  // namespace gpumem
