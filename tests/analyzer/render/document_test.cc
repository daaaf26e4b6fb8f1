// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/document.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "render/draw.h"

namespace gpumem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

struct Line {
  std::string name;
  uint64_t bytes = 0;
  int64_t growth = 0;
  uint64_t epoch = 0;
  std::vector<std::string> callers;
};

std::vector<AnswerColumn<Line>> Columns() {
  std::vector<AnswerColumn<Line>> columns = {
      {"bytes", "size", Unit::kBytes, "what it allocated", [](const Line& line) { return line.bytes; }},
      {"growth_bytes", "growth", Unit::kGrowth, "what it allocated", [](const Line& line) { return line.growth; }},
      {"epoch", "epoch", Unit::kNumber, "null = none",
       [](const Line& line) { return Datum::If(line.epoch != 0, line.epoch); }},
      {"", kNoTitle, Unit::kBar, "", [](const Line& line) { return Datum::Share(line.bytes, 4096); }},
      {"hidden", "", Unit::kCount, "for machines", [](const Line& line) { return line.callers.size(); }},
      {"callers", "stack", Unit::kChain, "innermost first",
       [](const Line& line) {
         return Datum::List({line.callers.begin(), line.callers.end()}, JsonLayout::kOneLine);
       }},
      {"name", "line", Unit::kText, "its place", [](const Line& line) { return line.name; },
       [](const Line& line) { return line.name + "!"; }},
  };
  columns[2].telling = [](const Line& line) { return line.epoch != 0; };
  return columns;
}

class DocumentTest : public ::testing::Test {
 protected:
  std::vector<Line> lines_ = {{"a.py:1", 4096, 1024, 0, {"a.py:1", "main"}}, {"b.py:2", 1024, -2048, 0, {"b.py:2"}}};

  Document Answer(Document::Rows which = {}) const {
    Document answer;
    answer.Field("total", uint64_t{5120}, "of all lines");
    answer.Heading("Lines", "largest first");
    answer.Table("lines", "one object a line", Columns(), lines_, which);
    answer.Line("  and no more", Tone::kAside);
    return answer;
  }
};

TEST_F(DocumentTest, PeopleReadItInTheUnitsOfItsColumns) {
  TextStyle style;
  style.utf8 = false;
  EXPECT_EQ(ToText(Answer(), style),
            "Lines  largest first\n"
            "   size  growth                            stack           line\n"
            "  4 KiB  +1 KiB  ########################  a.py:1 <- main  a.py:1!\n"
            "  1 KiB  -2 KiB  ######                    b.py:2          b.py:2!\n"
            "  and no more\n");
}

TEST_F(DocumentTest, AColumnThatTellsNothingIsLeftOut) {
  EXPECT_THAT(ToText(Answer(), TextStyle{}), Not(HasSubstr("epoch")));
  lines_[1].epoch = 3;
  EXPECT_THAT(ToText(Answer(), TextStyle{}), HasSubstr("epoch"));
}

TEST_F(DocumentTest, MachinesGetExactValuesUnderKeys) {
  const json answer = json::parse(ToJson(Answer()));
  EXPECT_EQ(answer["total"], 5120);
  EXPECT_EQ(answer["lines"][1], (json{{"bytes", 1024},
                                      {"growth_bytes", -2048},
                                      {"epoch", nullptr},
                                      {"hidden", 1},
                                      {"callers", {"b.py:2"}},
                                      {"name", "b.py:2"}}));
}

TEST_F(DocumentTest, BothGetTheRowsThatAreAskedFor) {
  Document::Rows last;
  last.first = 1;
  EXPECT_EQ(json::parse(ToJson(Answer(last)))["lines"].size(), 1u);
  EXPECT_THAT(ToText(Answer(last), TextStyle{}), Not(HasSubstr("a.py:1")));
  last.first = 7;
  EXPECT_EQ(json::parse(ToJson(Answer(last)))["lines"].size(), 0u);
  last = {};
  last.is_shown = false;
  EXPECT_EQ(json::parse(ToJson(Answer(last)))["lines"].size(), 2u);
  EXPECT_THAT(ToText(Answer(last), TextStyle{}), Not(HasSubstr("b.py:2")));
}

TEST_F(DocumentTest, PeopleReadHowManyRowsAreLeft) {
  Document::Rows first;
  first.count = 1;
  EXPECT_THAT(ToText(Answer(first), TextStyle{}), Not(HasSubstr("more:")));
  first.counts_rest = true;
  first.rest = " with 1 KiB";
  EXPECT_THAT(ToText(Answer(first), TextStyle{}), HasSubstr("a.py:1!\n  1 more with 1 KiB: --top 0\n  and no more\n"));
  first.count = 2;
  EXPECT_THAT(ToText(Answer(first), TextStyle{}), Not(HasSubstr("more with")));
}

TEST_F(DocumentTest, AnotherOnesFieldsAreForMachinesAlone) {
  Document answer;
  Document within;
  within.Object("inner", "an object", Answer());
  answer.AppendFields(std::move(within));
  answer.AppendFields(Answer());
  answer.Field("known", std::optional<uint64_t>(7), "");
  answer.Field("unknown", std::optional<uint64_t>(), "");
  EXPECT_EQ(ToText(answer, TextStyle{}), "");
  const std::string line = ToJson(answer, JsonLayout::kOneLine);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const json parsed = json::parse(line);
  EXPECT_EQ(parsed["inner"]["total"], 5120);
  EXPECT_EQ(parsed["lines"].size(), 2u);
  EXPECT_EQ(parsed["known"], 7);
  EXPECT_TRUE(parsed["unknown"].is_null());
}

TEST_F(DocumentTest, HostileNamesAreShownAsWhatTheyAre) {
  lines_[0].name = "\x1b[2Ja\xff.py";
  EXPECT_THAT(ToText(Answer(), TextStyle{}), Not(HasSubstr("\x1b")));
  EXPECT_EQ(json::parse(ToJson(Answer()))["lines"][0]["name"], "\x1b[2Ja\xef\xbf\xbd.py");
}

TEST_F(DocumentTest, ItsKeysAreARowForEachMeaning) {
  EXPECT_EQ(KeyRows(Answer()),
            "| `total` | of all lines |\n"
            "| `lines` | one object a line |\n"
            "| `bytes`, `growth_bytes` | what it allocated |\n"
            "| `epoch` | null = none |\n"
            "| `hidden` | for machines |\n"
            "| `callers` | innermost first |\n"
            "| `name` | its place |\n");
}

TEST_F(DocumentTest, DocumentsWithinItAreObjectsOfAList) {
  Document device;
  device.Field("device", 0, "its number");
  device.Line("GPU 0");
  Document answer;
  answer.Documents("devices", "one object a GPU", {device});
  EXPECT_EQ(json::parse(ToJson(answer)), (json{{"devices", {{{"device", 0}}}}}));
  EXPECT_EQ(ToText(answer, TextStyle{}), "GPU 0\n");
}

TEST_F(DocumentTest, ALongOneIsWrittenPieceByPiece) {
  lines_.assign(20'000, {"a.py:1", 1, 1, 1, {"a.py:1"}});
  size_t pieces = 0, longest = 0;
  const Document answer = Answer();
  WriteJson(answer, [&](absl::string_view text) {
    ++pieces;
    longest = std::max(longest, text.size());
  });
  EXPECT_GT(pieces, 1u);
  EXPECT_LT(longest, size_t{2} << 20);
}

}  // namespace
}  // namespace gpumem
