// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/statements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SplitStatementsTest, EndsAtSemicolons) {
  const SplitSql split = SplitStatements("SELECT 1; SELECT 2 ;\nSELECT 3");
  EXPECT_THAT(split.statements, ElementsAre("SELECT 1", "SELECT 2"));
  EXPECT_EQ(split.rest, "SELECT 3");
  EXPECT_FALSE(split.is_open);
}

TEST(SplitStatementsTest, SemicolonsInTextsNamesAndCommentsDoNotEndThem) {
  const SplitSql split =
      SplitStatements("SELECT ';', 'it''s;', \"a;\"\"b\", $$;$$, $x$;$$;$x$, e'\\';' -- ;\n/* ; /* ; */ ; */ FROM t;");
  ASSERT_EQ(split.statements.size(), 1u);
  EXPECT_THAT(split.statements[0], HasSubstr("FROM t"));
  EXPECT_EQ(split.rest, "");
}

TEST(SplitStatementsTest, CommentsAroundAStatementAreLeftOut) {
  const SplitSql split = SplitStatements("-- first\n/* and */ SELECT 1 -- one\n; -- done");
  EXPECT_THAT(split.statements, ElementsAre("SELECT 1"));
  EXPECT_EQ(split.rest, "");
}

TEST(SplitStatementsTest, SaysWhatDoesNotEnd) {
  for (const char* const sql : {"SELECT 'a", "SELECT \"a", "SELECT 1 /* a", "SELECT $$ a", "SELECT 'a''"}) {
    EXPECT_TRUE(SplitStatements(sql).is_open) << sql;
  }
  for (const char* const sql : {"SELECT $1", "SELECT a$b FROM t", "SELECT 1 -- a", "SELECT 2 - -1", "SELECT 4/2", ""}) {
    EXPECT_FALSE(SplitStatements(sql).is_open) << sql;
  }
}

TEST(SplitStatementsTest, OfNothingThereIsNothing) {
  EXPECT_THAT(SplitStatements(" ;; -- x\n ;").statements, IsEmpty());
  EXPECT_EQ(SplitStatements("-- x").rest, "");
}

TEST(FirstWordTest, SeesThroughComments) {
  EXPECT_EQ(FirstWord("-- why\n  /* x */select 1"), "SELECT");
  EXPECT_EQ(FirstWord("(SELECT 1)"), "(");
  EXPECT_EQ(FirstWord(""), "");
}

TEST(CheckAllowedTest, WhatReadsIsAllowed) {
  for (const char* const sql :
       {"SELECT 1", "with a as (select 1) from a", "FROM events", "DESCRIBE blocks", "SUMMARIZE steps", "(SELECT 1)",
        "-- q\nSELECT 1", "EXPLAIN SELECT 1", "CREATE TEMP TABLE t AS SELECT 1", "VALUES (1)"}) {
    EXPECT_TRUE(CheckAllowed(sql).ok()) << sql;
  }
}

TEST(CheckAllowedTest, WhatReachesOutIsRefusedByName) {
  for (const char* const sql :
       {"PRAGMA version", "SET threads = 1", "RESET threads", "ATTACH 'x'", "DETACH t0", "INSTALL httpfs", "LOAD json",
        "COPY t TO 'x'", "EXPORT DATABASE 'x'", "IMPORT DATABASE 'x'", "CALL enable_logging()", "USE t0", "CHECKPOINT",
        "VACUUM", "/* SELECT */ PRAGMA version", "FORCE CHECKPOINT", "BEGIN", "copy t from 'x'"}) {
    const absl::Status status = CheckAllowed(sql);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << sql;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--unsafe")) << sql;
  }
}

TEST(SplitExplainTest, TakesApartWhatIsExplained) {
  EXPECT_FALSE(SplitExplain("SELECT 1").has_value());
  const auto parts = [](const char* sql) {
    const std::optional<Explained> explained = SplitExplain(sql);
    return explained ? explained->prefix + "|" + explained->statement : "none";
  };
  EXPECT_EQ(parts("EXPLAIN SELECT 1"), "EXPLAIN |SELECT 1");
  EXPECT_EQ(parts("explain /* a */ analyze -- b\n SELECT 1"), "EXPLAIN ANALYZE |SELECT 1");
  EXPECT_EQ(parts("EXPLAIN (ANALYZE, FORMAT json) COPY a TO 'b'"), "EXPLAIN (ANALYZE, FORMAT json) |COPY a TO 'b'");
  EXPECT_EQ(parts("EXPLAIN (SELECT 1)"), "EXPLAIN |(SELECT 1)");
  EXPECT_EQ(parts("EXPLAIN (FORMAT 'x') SELECT 1"), "EXPLAIN |(FORMAT 'x') SELECT 1") << "DuckDB refuses that alone";
  EXPECT_EQ(parts("EXPLAIN"), "EXPLAIN |");
}

TEST(MayReadEventsTest, KnowsWhatNeedsNone) {
  for (const char* const sql : {"SELECT sum(size) FROM blocks WHERE born_event > 3 ORDER BY 1 DESC",
                                "FROM live_at('peak')", "SELECT * FROM moment_at('step 12'), LIVE_AT('end')",
                                "SELECT peak_event FROM processes", "SELECT u & 3 FROM x"})
    EXPECT_FALSE(MayReadEvents(sql)) << sql;
  for (const char* const sql :
       {"SELECT * FROM Events", "SELECT * FROM \"events\"", "FROM marks", "FROM python.torch_trace", "FROM samples",
        "FROM live_at('1.5s')", "FROM live_at('epoch 1')", "FROM live_at('step x')", "FROM live_at( 'peak')",
        "SELECT * FROM query('FROM ev' || 'ents')", "SHOW TABLES", "DESC", "FROM duckdb_tables()",
        "SELECT * FROM information_schema.tables", "FROM U&\"\\0065vents\""})
    EXPECT_TRUE(MayReadEvents(sql)) << sql;
}

TEST(FunctionsInPlanTest, FindsThoseThatAreCalled) {
  EXPECT_EQ(FunctionsInPlan(R"([{"extra_info": {"Function": "RANGE"}}, {"Function": "ENABLE_LOGGING"}])"),
            (std::vector<std::string>{"RANGE", "ENABLE_LOGGING"}));
  EXPECT_TRUE(FunctionsInPlan(R"({"Projections": "'\"Function\": \"ENABLE_LOGGING\"'"})").empty());
  EXPECT_TRUE(FunctionsInPlan("").empty());
  EXPECT_TRUE(IsReadingFunction("DUCKDB_TABLES"));
  EXPECT_FALSE(IsReadingFunction("ENABLE_PROFILING"));
}

}  // namespace
}  // namespace gpumem
