// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace gpumem {
namespace {

std::string Quoted(absl::string_view text) {
  std::string out;
  AppendJsonString(text, &out);
  return out;
}

TEST(JsonWriter, LaysMembersOutInLinesOrInOne) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("a", 1);
  json.Key("b");
  json.BeginArray();
  json.BeginObject(JsonLayout::kOneLine);
  json.Field("x", true);
  json.Key("y");
  json.BeginArray();  // inside one line: stays on it
  json.Value(uint64_t{1});
  json.Value(int64_t{-2});
  json.EndArray();
  json.EndObject();
  json.EndArray();
  json.Key("c");
  json.BeginObject();
  json.EndObject();
  json.EndObject();
  EXPECT_TRUE(json.done());
  EXPECT_EQ(out, "{\n  \"a\": 1,\n  \"b\": [\n    {\"x\": true, \"y\": [1, -2]}\n  ],\n  \"c\": {}\n}");
}

TEST(JsonWriter, WritesNumbersExactly) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray(JsonLayout::kOneLine);
  json.Value(UINT64_MAX);
  json.Value(INT64_MIN);
  json.Value(0.1);
  json.Value(1e300);
  json.Value(NAN);
  json.Value(INFINITY);
  json.Null();
  json.EndArray();
  EXPECT_EQ(out, "[18446744073709551615, -9223372036854775808, 0.1, 1e+300, null, null, null]");
}

TEST(JsonWriter, EscapesWhatCouldHurt) {
  EXPECT_EQ(Quoted("a\"b\\c\n\t\r"), R"("a\"b\\c\n\t\r")");
  EXPECT_EQ(Quoted(absl::string_view("\0\x1b[31m\x7f", 7)), R"("\u0000\u001b[31m\u007f")");
  EXPECT_EQ(Quoted("\u0085\u2028"), R"("\u0085\u2028")");
  EXPECT_EQ(Quoted("模型"), "\"模型\"");
}

TEST(JsonWriter, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(Quoted("a\xff"
                   "b"),
            "\"a\uFFFD"
            "b\"");
  EXPECT_EQ(Quoted("\xc0\xaf"), "\"\uFFFD\uFFFD\"");            // overlong
  EXPECT_EQ(Quoted("\xed\xa0\x80"), "\"\uFFFD\uFFFD\uFFFD\"");  // surrogate
  EXPECT_EQ(Quoted("\xe4\xbd"), "\"\uFFFD\uFFFD\"");            // cut short
}

TEST(JsonWriter, AnyBytesGiveValidJson) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text.push_back(static_cast<char>(random() % 256));
    const nlohmann::json parsed = nlohmann::json::parse(Quoted(text), nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(parsed.is_string()) << Quoted(text);
  }
}

TEST(JsonWriterDeathTest, CatchesCallsInAWrongOrder) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  EXPECT_DEATH(json.Value(1), "a value without a key");
  EXPECT_DEATH(json.EndArray(), "an end without its begin");
  json.Key("a");
  EXPECT_DEATH(json.Key("b"), "a key outside an object");
}

}  // namespace
}  // namespace gpumem
