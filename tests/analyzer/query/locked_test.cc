// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A query reaches no file, network or setting, in whatever way it asks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "asked.h"
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
  for (const char* const sql : {"INSERT INTO t0.losses VALUES ('x', 1, true)", "DROP TABLE t0.events",
                                "UPDATE t0.processes SET pid = 1", "CREATE TABLE t0.x AS SELECT 1"}) {
    EXPECT_FALSE(asked.StatusOf(sql).ok()) << sql;
  }
  EXPECT_EQ(asked.One("SELECT count(*) FROM events"), "1");
}

TEST(LockedTest, TablesInMemoryAreFine) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({SmallTrace()});
  EXPECT_TRUE(asked.StatusOf("CREATE TEMP TABLE mine AS SELECT size FROM events").ok());
  EXPECT_EQ(asked.One("SELECT sum(size) FROM mine"), "4096");
}

TEST(LockedTest, UnsafeOpensFiles) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({SmallTrace()}, true);
  EXPECT_EQ(asked.One("SELECT count(*) FROM read_text('/proc/self/comm')"), "1");
}

}  // namespace
}  // namespace gpumem
