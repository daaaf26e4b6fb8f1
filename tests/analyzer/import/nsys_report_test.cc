// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Reports of Nsight Systems as SQLite, from a file to the answer.

#include "import/nsys_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <sstream>
#include <string>

#include "imported.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kTables[] =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT, totalMemory INTEGER, cuDevice INTEGER);";
constexpr char kEvents[] =
    "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start INTEGER, globalPid INTEGER, deviceId INTEGER, address INTEGER,"
    " bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER, correlationId INTEGER);";
// Process 7 is 117440512 = 7 << 24.
constexpr char kRows[] =
    "INSERT INTO StringIds VALUES (1, 'cudaMalloc_v3020'), (2, 'train_step'), (3, 'libtrain.so'), (4, 'forward');"
    "INSERT INTO TARGET_INFO_GPU VALUES (5, 'NVIDIA H100 80GB HBM3', 85899345920, 1);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, correlationId, nameId, callchainId);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 9, 117440512 + 71, 31, 1, 8);"
    "CREATE TABLE CUDA_CALLCHAINS(id, symbol, module, stackDepth);"
    "INSERT INTO CUDA_CALLCHAINS VALUES (8, 2, 3, 0);"
    "CREATE TABLE NVTX_EVENTS(start, end, eventType, text, textId, globalTid);"
    "INSERT INTO NVTX_EVENTS VALUES (5, 60, 59, NULL, 4, 117440512 + 71), (7, 9, 75, 'a domain', NULL, 117440512);"
    "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES"
    " (40, 117440512, 1, 4096, 1000, 2, 1, 0),"  // frees what the first one below allocated
    " (10, 117440512, 1, 4096, 1000, 2, 0, 31),"
    " (20, 117440512, 1, 8192, 500, 2, 0, 0),"
    " (25, 117440512, 1, 65536, 300, 1, 0, 0),"  // pinned
    " (26, 117440512, 1, 131072, 77, 0, 0, 0),"  // pageable
    " (30, 134217728, 0, 4096, 50, 2, 0, 0);";   // process 8

std::string Database(const std::string& statements) {
  const NamedFile file("report.sqlite", "");
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(file.path().c_str(), &database), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_close(database);
  std::stringstream bytes;
  bytes << std::ifstream(file.path(), std::ios::binary).rdbuf();
  return bytes.str();
}

absl::StatusOr<Analysis> ImportReport(const std::string& bytes, ImportResult* result = nullptr) {
  const NamedFile file("report 1?.sqlite", bytes);
  return ImportPath(file.path(), result);
}

TEST(NsysReportTest, IsOfTheProcessWithTheMostMemory) {
  ImportResult result;
  const auto analysis = ImportReport(Database(absl::StrCat(kTables, kEvents, kRows)), &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  const DeviceAnalysis& device = analysis->devices[0];
  EXPECT_EQ(device.device, 1);
  EXPECT_EQ(device.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(device.capacity, 85899345920u);
  EXPECT_EQ(device.peak_total.bytes, 1500u);
  EXPECT_EQ(device.end.total, 500u);
  EXPECT_EQ(analysis->host_pinned_peak, 300u);
  EXPECT_EQ(analysis->process.pid, 7u);
  EXPECT_EQ(result.covers, "run");
  EXPECT_TRUE(result.has_stacks);
  EXPECT_THAT(result.notes, Contains(HasSubstr("This is 7, which held most. Left out, with their peaks: 8 50 B.")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("1 event of pageable host memory was left out")));
}

TEST(NsysReportTest, SaysWhichOptionIsMissing) {
  EXPECT_THAT(std::string(ImportReport(Database(kTables)).status().message()), HasSubstr("--cuda-memory-usage=true"));
  EXPECT_THAT(std::string(ImportReport(Database("CREATE TABLE t(x);")).status().message()),
              HasSubstr("no report of Nsight Systems"));
  ImportResult result;
  ASSERT_TRUE(ImportReport(Database(absl::StrCat(kTables, kEvents)), &result).ok());
  EXPECT_EQ(result.covers, "nothing");
}

// Views, triggers and virtual tables are somebody's code.
TEST(NsysReportTest, RunsNothingOfTheFile) {
  const std::string view =
      "CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
      " SELECT i AS start FROM n;";
  EXPECT_THAT(std::string(ImportReport(Database(kTables + view)).status().message()),
              HasSubstr("--cuda-memory-usage=true"));
}

TEST(NsysReportTest, DamageIsSaid) {
  const std::string whole = Database(absl::StrCat(kTables, kEvents, kRows));
  std::string cut = whole.substr(0, whole.size() / 2);
  EXPECT_TRUE(absl::IsDataLoss(ImportReport(cut).status()));
  for (size_t at = 100; at < whole.size(); at += 397) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
    const auto analysis = ImportReport(flipped);
    EXPECT_TRUE(analysis.ok() || absl::IsDataLoss(analysis.status())) << at << " " << analysis.status();
  }
}

}  // namespace
}  // namespace gpumem
