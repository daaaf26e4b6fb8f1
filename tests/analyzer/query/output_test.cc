// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asked.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Written(const std::string& sql, RowFormat format, const TableLayout& layout = {}) {
  const auto database = Database::Open("", {});
  auto rows = (*database)->Run(sql);
  if (!rows.ok()) return std::string(rows.status().message());
  std::string text;
  const auto count =
      WriteRows(format, layout, &*rows, [&](absl::string_view part) { text.append(part.data(), part.size()); });
  return count.ok() ? text : std::string(count.status().message());
}

// The text of one value, without CSV's quotes around it.
std::string Value(const std::string& expression) {
  std::string text = Written("SELECT " + expression + " AS v", RowFormat::kCsv).substr(2);
  text.pop_back();
  return text;
}

TEST(CellTextTest, EveryTypeIsExact) {
  GPUMEM_NEEDS_DUCKDB();
  EXPECT_EQ(Value("true"), "true");
  EXPECT_EQ(Value("(-128)::TINYINT"), "-128");
  EXPECT_EQ(Value("65535::USMALLINT"), "65535");
  EXPECT_EQ(Value("18446744073709551615::UBIGINT"), "18446744073709551615");
  EXPECT_EQ(Value("(-9223372036854775807 - 1)::BIGINT"), "-9223372036854775808");
  EXPECT_EQ(Value("170141183460469231731687303715884105727::HUGEINT"), "170141183460469231731687303715884105727");
  EXPECT_EQ(Value("(-170141183460469231731687303715884105728)::HUGEINT"), "-170141183460469231731687303715884105728");
  EXPECT_EQ(Value("0.1::DOUBLE + 0.2::DOUBLE"), "0.30000000000000004");
  EXPECT_EQ(Value("1.5::FLOAT"), "1.5");
  EXPECT_EQ(Value("19::DOUBLE"), "19.0");
  EXPECT_EQ(Value("1e300::DOUBLE"), "1e+300");
  EXPECT_EQ(Value("(-0.05)::DECIMAL(4, 2)"), "-0.05");
  EXPECT_EQ(Value("12345678901234567890.123::DECIMAL(38, 3)"), "12345678901234567890.123");
  EXPECT_EQ(Value("'a longer text than twelve bytes'"), "a longer text than twelve bytes");
  EXPECT_EQ(Value("'b'::ENUM('a', 'b')"), "b");
  EXPECT_EQ(Value("DATE '2024-02-29'"), "2024-02-29");
  EXPECT_EQ(Value("DATE '1969-12-31'"), "1969-12-31");
  EXPECT_EQ(Value("TIMESTAMP '1969-12-31 23:59:59.5'"), "1969-12-31 23:59:59.500000");
  EXPECT_EQ(Value("TIME '12:03:04'"), "12:03:04");
  EXPECT_EQ(Value("INTERVAL '1 month 2 days 3 seconds'"), "1 months 2 days 00:00:03");
  EXPECT_EQ(Value("[1, NULL, 3]"), "\"[1, NULL, 3]\"");
  EXPECT_EQ(Value("{'a': 1, 'b': 'x'}"), "\"{a: 1, b: x}\"");
  EXPECT_EQ(Value("'\\xAB'::BLOB"), "\\xAB");
}

TEST(CsvTest, QuotesWhatNeedsIt) {
  GPUMEM_NEEDS_DUCKDB();
  EXPECT_EQ(
      Written("SELECT 'a,b' AS \"x,y\", 'say \"hi\"' AS q, NULL AS n, '' AS e, 'two\nlines' AS l", RowFormat::kCsv),
      "\"x,y\",q,n,e,l\n\"a,b\",\"say \"\"hi\"\"\",,\"\",\"two\nlines\"\n");
}

TEST(JsonTest, IsAnArrayOfObjects) {
  GPUMEM_NEEDS_DUCKDB();
  EXPECT_EQ(Written("SELECT 1 AS a, 'x\"y' AS a, NULL AS n, true AS b, 'nan'::DOUBLE AS f", RowFormat::kJson),
            "[\n  {\"a\": 1, \"a_1\": \"x\\\"y\", \"n\": null, \"b\": true, \"f\": \"nan\"}\n]");
  EXPECT_EQ(Written("SELECT 1 AS a WHERE false", RowFormat::kJson), "[]");
}

TEST(TableTest, AlignsNumbersRightAndTextsLeft) {
  GPUMEM_NEEDS_DUCKDB();
  EXPECT_EQ(Written("SELECT * FROM (VALUES ('a', 5), ('bcd', 1234)) t(name, size)", RowFormat::kTable),
            "name  size\n----  ----\na        5\nbcd   1234\n(2 rows)\n");
}

TEST(TableTest, IsNeverCutWithoutATerminal) {
  GPUMEM_NEEDS_DUCKDB();
  const std::string text =
      Written("SELECT repeat('x', if(i = 7, 5000, 10)) AS a, i FROM range(20000) t(i)", RowFormat::kTable);
  EXPECT_THAT(text, HasSubstr(std::string(5000, 'x')));
  EXPECT_THAT(text, HasSubstr("19999"));
  EXPECT_THAT(text, HasSubstr("(20,000 rows)"));
}

TEST(TableTest, FitsATerminalAndSaysWhatIsLeftOut) {
  GPUMEM_NEEDS_DUCKDB();
  const std::string text = Written("SELECT repeat('x', 500) AS a, i FROM range(20) t(i)", RowFormat::kTable, {60, 10});
  EXPECT_THAT(text, Not(HasSubstr(std::string(60, 'x'))));
  EXPECT_THAT(text, HasSubstr("(the first 10 rows; "));
}

TEST(TableTest, EscapesWhatSteersATerminal) {
  GPUMEM_NEEDS_DUCKDB();
  EXPECT_THAT(Written("SELECT 'a' || chr(27) || '[31m' AS v", RowFormat::kTable), Not(HasSubstr("\x1b")));
}

TEST(WriteRowsTest, AnErrorOnTheWayIsAnError) {
  GPUMEM_NEEDS_DUCKDB();
  EXPECT_THAT(
      Written("SELECT CASE WHEN i > 5000 THEN error('stop here') ELSE i END FROM range(10000) t(i)", RowFormat::kCsv),
      HasSubstr("stop here"));
}

}  // namespace
}  // namespace gpumem
