// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A query reaches no file, network or setting, in whatever way it asks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "asked.h"
#include "query/database.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using testing::Asked;

std::string SmallTrace() { return testing::TraceBuilder().CudaAlloc(0x1000, 4096).End().WriteTemporary(); }

TEST(LockedTest, NoFileIsReadOrWritten) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({SmallTrace()});
  const std::string file = testing::NewFolder() + ".out";
  for (const std::string& sql :
       std::vector<std::string>{"SELECT * FROM read_csv('/etc/passwd')",
                                "SELECT * FROM '/etc/passwd'",
                                "SELECT * FROM read_text('/etc/hostname')",
                                "SELECT * FROM read_blob('/etc/hostname')",
                                "SELECT * FROM glob('/*')",
                                "SELECT * FROM sniff_csv('/etc/passwd')",
                                "SELECT * FROM read_json('/etc/passwd')",
                                "SELECT * FROM read_parquet('/tmp/x.parquet')",
                                "SELECT * FROM query('SELECT * FROM read_text(''/etc/hostname'')')",
                                "SELECT * FROM query_table('/etc/passwd')",
                                "CREATE TABLE t AS SELECT * FROM read_text('/etc/hostname')",
                                "EXPLAIN ANALYZE SELECT * FROM read_text('/etc/hostname')",
                                "WITH a AS (SELECT * FROM read_text('/etc/hostname')) SELECT * FROM a",
                                "COPY (SELECT 1) TO '" + file + "'",
                                "EXPORT DATABASE '" + file + "'",
                                "ATTACH '" + file + "' AS x",
                                "IMPORT DATABASE '/tmp'",
                                "PREPARE p AS COPY (SELECT 1) TO '" + file + "'",
                                "CREATE VIEW v AS SELECT * FROM read_text('/etc/hostname')",
                                "SELECT * FROM parquet_metadata('/etc/passwd')",
                                "SELECT * FROM duckdb_secrets()"}) {
    EXPECT_FALSE(asked.StatusOf(sql).ok()) << sql;
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(LockedTest, NoNetworkExtensionSettingOrEnvironment) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({SmallTrace()});
  for (const char* const sql :
       {"INSTALL httpfs", "LOAD httpfs", "SELECT * FROM read_csv('https://example.invalid/a.csv')",
        "SELECT * FROM 's3://bucket/a.parquet'", "PRAGMA version", "PRAGMA database_list", "SET threads = 1",
        "SET enable_external_access = true", "RESET enable_external_access", "SET lock_configuration = false",
        "SELECT getenv('HOME')", "CALL pragma_version()", "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
        "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'b')", "DETACH t0", "USE t0"}) {
    EXPECT_FALSE(asked.StatusOf(sql).ok()) << sql;
  }
}

TEST(LockedTest, TheIndexCannotBeChanged) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({SmallTrace()});
  for (const char* const sql : {"INSERT INTO t0.losses VALUES ('x', 1, true)", "DROP TABLE e0.events",
                                "UPDATE t0.processes SET pid = 1", "CREATE TABLE t0.x AS SELECT 1"}) {
    EXPECT_FALSE(asked.StatusOf(sql).ok()) << sql;
  }
  EXPECT_EQ(asked.One("SELECT count(*) FROM events"), "1");
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// A session whose index is known by name.
class IndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GPUMEM_NEEDS_DUCKDB();
    request_.traces = {SmallTrace()};
    request_.index_folder = testing::NewFolder();
    Open();
    for (const auto& entry : std::filesystem::directory_iterator(request_.index_folder)) {
      if (!entry.is_regular_file()) continue;  // for rows that do not fit
      (entry.path().extension() == ".events" ? events_ : index_) = entry.path().string();
    }
    bytes_ = BytesOf(index_) + BytesOf(events_);
  }
  void Open() {
    auto opened = SqlSession::Open(request_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    session_ = *std::move(opened);
  }
  absl::Status StatusOf(const std::string& sql) {
    auto rows = session_->Run(sql);
    if (!rows.ok()) return rows.status();
    while (rows->Next()) {
    }
    return rows->status();
  }
  std::string One(const std::string& sql) {
    auto rows = session_->Run(sql);
    return rows.ok() && rows->Next() ? CellAt(*rows, 0, 0).text : std::string(rows.status().message());
  }
  size_t FilesInFolder() const {
    size_t count = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(request_.index_folder))
      count += each.is_regular_file();
    return count;
  }

  SessionRequest request_;
  std::unique_ptr<SqlSession> session_;
  std::string index_, events_, bytes_;
};

// INDEX stands for the index, ALLOWED for the name under which it is attached, OUT for a new file.
constexpr const char* kWriting[] = {
    "EXPLAIN ANALYZE COPY (SELECT 'x' AS a) TO 'INDEX'",
    "EXPLAIN ANALYZE COPY (SELECT 'x' AS a) TO 'INDEX.wal'",
    "EXPLAIN ANALYZE COPY (SELECT 'x' AS a) TO 'ALLOWED'",
    "EXPLAIN ANALYZE COPY (SELECT 'x' AS a) TO 'ALLOWED.wal'",
    "EXPLAIN ANALYZE COPY (SELECT 'x' AS a) TO 'INDEX' (FORMAT csv, USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 'x' AS a) TO 'ALLOWED' (FORMAT csv, USE_TMP_FILE false)",
    "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO 'INDEX.wal'",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO 'INDEX.wal'",
    "EXPLAIN /* of */ ANALYZE -- that\n COPY (SELECT 1) TO 'INDEX.wal'",
    "explain analyse copy (select 1) to 'INDEX.wal'",
    "EXPLAIN COPY (SELECT 1) TO 'INDEX.wal'",
    "EXPLAIN EXPLAIN ANALYZE COPY (SELECT 1) TO 'INDEX.wal'",
    "EXPLAIN ANALYZE EXPLAIN ANALYZE COPY (SELECT 1) TO 'INDEX.wal'",
    "EXPLAIN ANALYZE ATTACH 'OUT' AS other",
    "EXPLAIN ANALYZE EXPORT DATABASE 'OUT'",
    "EXPLAIN ANALYZE PRAGMA enable_profiling",
    "EXPLAIN ANALYZE SET threads = 1",
    "EXPLAIN ANALYZE CALL enable_logging()",
    "EXPLAIN ANALYZE CREATE TABLE t0.mine AS SELECT 1",
    "EXPLAIN ANALYZE INSERT INTO t0.losses VALUES ('x', 1, true)",
    "EXPLAIN ANALYZE UPDATE t0.processes SET pid = 1",
    "EXPLAIN ANALYZE LOAD 'INDEX'",
    "EXPLAIN ANALYZE VACUUM",
    "EXPLAIN ANALYZE CHECKPOINT t0",
    "COPY (SELECT 1) TO 'INDEX'",
    "COPY (SELECT 1) TO 'INDEX.wal'",
    "COPY (SELECT 1) TO 'ALLOWED.wal'",
    "COPY FROM DATABASE memory TO t0",
    "(COPY (SELECT 1) TO 'INDEX.wal')",
    "WITH a AS (SELECT 1) COPY a TO 'INDEX.wal'",
    "FROM (COPY (SELECT 1) TO 'INDEX.wal')",
    "PREPARE p AS COPY (SELECT 1) TO 'INDEX.wal'",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "SELECT 1; COPY (SELECT 1) TO 'INDEX.wal'",
    "EXPORT DATABASE 'OUT'",
    "IMPORT DATABASE 'OUT'",
    "ATTACH 'OUT' AS other",
    "ATTACH 'INDEX' AS other",
    "ATTACH 'ALLOWED' AS other",
    "ATTACH OR REPLACE 'ALLOWED' AS t0",
    "DETACH t0",
    "CHECKPOINT t0",
    "FORCE CHECKPOINT t0",
    "VACUUM",
    "ANALYZE",
    "BEGIN TRANSACTION",
    "SET allowed_paths = ['INDEX']",
    "SET temp_directory = 'OUT'",
    "SET profile_output = 'OUT'",
    "RESET allowed_paths",
    "PRAGMA enable_profiling",
    "PRAGMA profile_output = 'OUT'",
    "PRAGMA log_query_path = 'OUT'",
    "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_path = 'OUT')",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = 'INDEX.wal')",
    "CALL enable_logging(storage = 'file', storage_path = 'OUT')",
    "CALL force_checkpoint('t0')",
    "SELECT * FROM force_checkpoint('t0')",
    "SELECT * FROM enable_profiling()",
    "SELECT * FROM system.main.enable_profiling(save_location = 'OUT')",
    "EXPLAIN SELECT * FROM enable_logging()",
    "WITH a AS MATERIALIZED (SELECT * FROM disable_logging()) SELECT * FROM a",
    "SELECT * FROM query('SELECT * FROM enable_' || 'logging()')",
    "CREATE TABLE mine AS SELECT * FROM enable_profiling()",
    "INSERT INTO t0.losses SELECT * FROM enable_profiling()",
    "SELECT 1 WHERE EXISTS (SELECT * FROM disable_peg_parser())",
    "SELECT * FROM truncate_duckdb_logs()",
    "SELECT * FROM checkpoint('t0')",
    "SELECT * FROM query('COPY (SELECT 1) TO ''INDEX.wal''')",
    "SELECT * FROM read_blob('ALLOWED')",
    "SELECT * FROM read_text('INDEX')",
    "CREATE TABLE t0.mine AS SELECT 1",
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'b')",
    "INSTALL httpfs",
    "LOAD 'OUT'",
    "UPDATE EXTENSIONS",
    "DROP TABLE e0.events",
    "ALTER TABLE e0.events ADD COLUMN x INTEGER",
    "DELETE FROM e0.events",
    "USE t0",
};

TEST_F(IndexTest, NoStatementWritesAFile) {
  const std::string out = testing::NewFolder() + ".out";
  const std::string allowed = One("SELECT path FROM duckdb_databases() WHERE database_name = 't0'");
  ASSERT_TRUE(absl::EndsWith(allowed, ".duckdb")) << allowed;
  for (const std::string form : kWriting) {
    const std::string sql = absl::StrReplaceAll(form, {{"INDEX", index_}, {"ALLOWED", allowed}, {"OUT", out}});
    EXPECT_FALSE(StatusOf(sql).ok()) << sql;
    EXPECT_FALSE(std::filesystem::exists(out)) << sql;
    EXPECT_FALSE(std::filesystem::exists(allowed)) << sql;
    ASSERT_EQ(FilesInFolder(), 2u) << sql;
  }
  EXPECT_EQ(BytesOf(index_) + BytesOf(events_), bytes_);
  EXPECT_EQ(One("SELECT count(*) FROM events"), "1");
}

TEST_F(IndexTest, NoPathIsAllowedThatIsThere) {
  auto rows = session_->Run("SELECT unnest(current_setting('allowed_paths'))");
  ASSERT_TRUE(rows.ok()) << rows.status();
  while (rows->Next()) {
    for (uint64_t i = 0; i < rows->size(); ++i) {
      const std::filesystem::path path(CellAt(*rows, 0, i).text);
      EXPECT_FALSE(std::filesystem::exists(path.parent_path())) << path;
    }
  }
  EXPECT_EQ(One("SELECT current_setting('enable_external_access')::VARCHAR"), "false");
  EXPECT_EQ(One("SELECT current_setting('lock_configuration')::VARCHAR"), "true");
}

TEST_F(IndexTest, WhatReadsCanBeExplained) {
  for (const char* const sql :
       {"EXPLAIN SELECT * FROM events", "EXPLAIN ANALYZE SELECT count(*) FROM events", "EXPLAIN (FORMAT json) SELECT 1",
        "EXPLAIN ANALYZE (SELECT 1)", "explain analyze with a as (select 1) select * from a", "EXPLAIN FROM events"})
    EXPECT_TRUE(StatusOf(sql).ok()) << sql << ": " << StatusOf(sql);
}

TEST_F(IndexTest, AWriteAheadLogBesideAnIndexIsNotObeyed) {
  session_.reset();
  // An index that says something else, and what DuckDB would make it say so by.
  const std::string copy = request_.index_folder + "/copy.duckdb";
  std::filesystem::copy_file(index_, copy);
  {
    const auto writing = Database::Open(copy, {});
    ASSERT_TRUE(writing.ok()) << writing.status();
    for (const char* const sql : {"SET wal_autocheckpoint = '1TB'", "PRAGMA disable_checkpoint_on_shutdown",
                                  "UPDATE processes SET program = 'POISONED'"})
      ASSERT_TRUE((*writing)->Execute(sql).ok()) << sql;
  }
  ASSERT_TRUE(std::filesystem::exists(copy + ".wal"));
  std::filesystem::rename(copy + ".wal", index_ + ".wal");
  std::filesystem::remove(copy);
  Open();
  EXPECT_NE(One("SELECT program FROM processes"), "POISONED");
  EXPECT_EQ(session_->indexes_built(), 1u);
  EXPECT_EQ(FilesInFolder(), 2u);
}

TEST_F(IndexTest, ParquetGoesToItsFileAndNoStatementElse) {
  request_.output = testing::NewFolder() + ".parquet";
  Open();
  EXPECT_FALSE(StatusOf(absl::StrCat("EXPLAIN ANALYZE COPY (SELECT 1) TO '", request_.output, "'")).ok());
  for (const std::string& sql :
       {absl::StrCat("SELECT 1) TO '", index_, "' --"), std::string("INSERT INTO t0.losses VALUES ('x', 1, true)"),
        std::string("EXPLAIN SELECT 1"), std::string("COPY (SELECT 1) TO 'x'")}) {
    EXPECT_FALSE(session_->CopyToParquet(sql).ok()) << sql;
  }
  EXPECT_FALSE(std::filesystem::exists(request_.output));
  EXPECT_TRUE(session_->CopyToParquet("SELECT * FROM events -- all").ok());
  EXPECT_TRUE(std::filesystem::exists(request_.output));
  EXPECT_EQ(BytesOf(index_) + BytesOf(events_), bytes_);
}

TEST(LockedTest, TablesInMemoryAreFine) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({SmallTrace()});
  EXPECT_TRUE(asked.StatusOf("CREATE TEMP TABLE mine AS SELECT size FROM events").ok());
  EXPECT_EQ(asked.One("SELECT sum(size) FROM mine"), "4096");
  for (const char* const sql :
       {"CREATE VIEW half AS SELECT size / 2 AS size FROM mine", "INSERT INTO mine VALUES (1)",
        "UPDATE mine SET size = 2 WHERE size = 1", "ALTER TABLE mine ADD COLUMN x INTEGER",
        "DELETE FROM mine WHERE size = 2", "DESCRIBE events", "SHOW TABLES", "SUMMARIZE mine", "FROM mine",
        "VALUES (1)", "TABLE mine", "(SELECT 1)", "FROM range(3)", "SELECT unnest([1, 2])", "FROM duckdb_settings()",
        "SELECT '\"Function\": \"ENABLE_LOGGING\"'", "SELECT * FROM query('SELECT 1')", "DROP VIEW half",
        "DROP TABLE mine"})
    EXPECT_TRUE(asked.StatusOf(sql).ok()) << sql << ": " << asked.StatusOf(sql);
}

TEST(LockedTest, UnsafeOpensFiles) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({SmallTrace()}, true);
  EXPECT_EQ(asked.One("SELECT count(*) FROM read_text('/proc/self/comm')"), "1");
}

}  // namespace
}  // namespace gpumem
