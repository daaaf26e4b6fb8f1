// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/json_reader.h"

#include <gmock/gmock.h>

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// What is said of a member "a" that is read as a T.
template <typename T>
std::string ProblemOf(const char* text) {
  const nlohmann::json value = nlohmann::json::parse(text);
  JsonReader reader(value);
  T read{};
  reader.Read("a", &read);
  return reader.problem();
}

TEST(JsonReaderTest, ReadsWhatIsThere) {
  const nlohmann::json value = nlohmann::json::parse(
      R"({"whole": -3, "large": 18446744073709551615, "text": "t", "yes": true, "seconds": 1.5, "list": ["x", "y"],
          "rows": [[1, 2], [3, 4]], "pair": ["--batch", 8], "map": {"k": 7}})");
  JsonReader reader(value);
  int whole = 0, absent = 5;
  uint64_t large = 0;
  std::string text;
  bool yes = false;
  double seconds = 0;
  std::vector<std::string> list;
  std::vector<std::array<uint64_t, 2>> rows;
  std::pair<std::string, int64_t> pair;
  std::map<std::string, uint64_t> map;
  reader.Read("whole", &whole);
  reader.Read("large", &large);
  reader.Read("text", &text);
  reader.Read("yes", &yes);
  reader.Read("seconds", &seconds);
  reader.Read("list", &list);
  reader.Read("rows", &rows);
  reader.Read("pair", &pair);
  reader.Read("map", &map);
  reader.ReadIfThere("absent", &absent);
  EXPECT_EQ(reader.problem(), "");
  EXPECT_EQ(whole, -3);
  EXPECT_EQ(large, UINT64_MAX);
  EXPECT_EQ(text, "t");
  EXPECT_TRUE(yes);
  EXPECT_EQ(seconds, 1.5);
  EXPECT_THAT(list, ElementsAre("x", "y"));
  EXPECT_THAT(rows, ElementsAre(ElementsAre(1u, 2u), ElementsAre(3u, 4u)));
  EXPECT_THAT(pair, Pair("--batch", 8));
  EXPECT_THAT(map, ElementsAre(Pair("k", 7u)));
  EXPECT_EQ(absent, 5);
}

TEST(JsonReaderTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(ProblemOf<int>("[]"), "a is missing");
  EXPECT_EQ(ProblemOf<int>("{}"), "a is missing");
  for (const char* const number : {R"({"a": "5"})", R"({"a": null})", R"({"a": 1.5})", R"({"a": 1e300})",
                                   R"({"a": [1]})", R"({"a": true})", R"({"a": 2147483648})", R"({"a": -2147483649})"})
    EXPECT_EQ(ProblemOf<int>(number), "a is not a whole number of its range") << number;
  EXPECT_EQ(ProblemOf<uint64_t>(R"({"a": -1})"), "a is not a whole number of its range");
  EXPECT_EQ(ProblemOf<bool>(R"({"a": 1})"), "a is neither true nor false");
  EXPECT_EQ(ProblemOf<double>(R"({"a": "x"})"), "a is not a number");
  EXPECT_EQ(ProblemOf<std::string>(R"({"a": {}})"), "a is not text");
  EXPECT_EQ((ProblemOf<std::vector<std::string>>(R"({"a": ["x", 1]})")), "a[1] is not text");
  EXPECT_EQ((ProblemOf<std::map<std::string, uint64_t>>(R"({"a": {"k": 0.5}})")),
            "a.k is not a whole number of its range");
}

TEST(JsonReaderTest, AListOfNumbersWithSomethingElseIsEmpty) {
  for (const char* const rows : {R"({"a": [[1, 2], ["x", 2]]})", R"({"a": [[1, 2], [1]]})", R"({"a": [[1, 2], []]})",
                                 R"({"a": [[1, 2], [-1, 2]]})", R"({"a": [[1, 2], 3]})", R"({"a": {"b": 1}})"}) {
    const nlohmann::json value = nlohmann::json::parse(rows);
    JsonReader reader(value);
    std::vector<std::array<uint64_t, 2>> read;
    reader.Read("a", &read);
    EXPECT_FALSE(reader.ok()) << rows;
    EXPECT_THAT(read, IsEmpty()) << rows;
  }
}

TEST(JsonReaderTest, TheFirstProblemStaysAndNothingIsReadAfterIt) {
  const nlohmann::json value = nlohmann::json::parse(R"({"stages": [{"n": 1}, {"n": "x"}, {"n": 3}], "after": 7})");
  JsonReader reader(value);
  std::vector<int> numbers;
  int after = 0;
  reader.Each("stages", [&](JsonReader* stage) { stage->Read("n", &numbers.emplace_back()); });
  reader.Read("after", &after);
  EXPECT_EQ(reader.problem(), "stages[1].n is not a whole number of its range");
  EXPECT_THAT(numbers, ElementsAre(1, 0));
  EXPECT_EQ(after, 0);
}

TEST(JsonReaderTest, MembersOfAnObjectHaveTheirPlace) {
  const nlohmann::json value =
      nlohmann::json::parse(R"({"stats": {"0": {"peak": 5}, "1": {"peak": -5}}, "one": {"b": [1, "x"]}})");
  JsonReader stats(value), one(value);
  uint64_t peak = 0, number = 0;
  stats.EachMember("stats", [&](const std::string&, JsonReader* device) { device->Read("peak", &peak); });
  EXPECT_EQ(stats.problem(), "stats.1.peak is not a whole number of its range");
  one.Object("one", [&](JsonReader* member) {
    std::string text;
    member->Read("b", &text);
  });
  EXPECT_EQ(one.problem(), "one.b is not text");
  const nlohmann::json list = nlohmann::json::parse(R"([1, 2, 3])");
  JsonReader tuple(list);
  tuple.ReadTuple(&peak, &number);
  EXPECT_EQ(tuple.problem(), "it is not a list of 2");
}

TEST(ParseJsonTest, RefusesWhatIsNoneOrTooDeep) {
  EXPECT_TRUE(ParseJson(R"({"a": "[[["})").ok());
  EXPECT_FALSE(ParseJson("").ok());
  EXPECT_FALSE(ParseJson("{").ok());
  EXPECT_TRUE(ParseJson(std::string(60, '[') + std::string(60, ']')).ok());
  EXPECT_FALSE(ParseJson(std::string(70, '[') + std::string(70, ']')).ok());
  EXPECT_FALSE(ParseJson(std::string(1 << 20, '[')).ok());
  EXPECT_TRUE(ParseJson(R"(["\"[", )" + std::string(60, '[') + std::string(61, ']')).ok());
}

}  // namespace
}  // namespace gpumem
