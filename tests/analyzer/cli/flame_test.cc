// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// What `gpumemshim flame` writes. tests/e2e/flame_test.py looks at the page in a browser.

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "program.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::kSegment;
using ::testing::Not;

std::string TextOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// `stacks` stacks of three frames, of 512, 1024, ... bytes, all alive at the end, on two threads.
std::string TraceOf(int stacks) {
  testing::TraceBuilder trace;
  trace.header().set_program("</script><b>");
  trace.header().set_working_directory("/job");
  const uint32_t threads[] = {trace.Thread(10, "main"), trace.Thread(11, "other")};
  trace.CudaAlloc(kSegment, 1 << 30);
  uint64_t address = kSegment;
  for (int i = 1; i <= stacks; ++i) {
    const uint64_t stack = trace.PythonStack(
        {{"leaf" + std::to_string(i), "/job/m.py", 3}, {"</ScRiPt \x01>", "/job/<i>.py", 2}, {"main", "/job/m.py", 1}});
    trace.OnThread(threads[i % 2]).TorchAlloc(address, 512 * static_cast<uint64_t>(i), stack);
    address += 512 * static_cast<uint64_t>(i);
  }
  return trace.End().Bytes();
}

class FlameTest : public ::testing::Test {
 protected:
  FlameTest() { testing::WriteFile(folder_ + "/run.gmtrace", TraceOf(40)); }

  testing::Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "flame");
    return testing::RunGpumem(arguments, folder_, {});
  }

  json Data(const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"--json", "run.gmtrace"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const testing::Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  }

  const std::string folder_ = testing::MakeFolder();
};

uint64_t SumOf(const json& column) {
  uint64_t sum = 0;
  for (const uint64_t value : column) sum += value;
  return sum;
}

TEST_F(FlameTest, LiesBesideTheTraceUnlessToldOtherwise) {
  const testing::Outcome outcome = Run({"run.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("run.flame.html: "));
  const std::string page = TextOfFile(folder_ + "/run.flame.html");
  EXPECT_EQ(page.rfind("<!doctype html>", 0), 0u);
  EXPECT_EQ(Run({"run.gmtrace", "-o", "-"}).out, page);
  EXPECT_EQ(Run({"run.gmtrace", "-o", "named.html"}).exit_code, 0);
  EXPECT_EQ(TextOfFile(folder_ + "/named.html"), page);
}

TEST_F(FlameTest, NeverWritesOverTheTrace) {
  const std::string before = TextOfFile(folder_ + "/run.gmtrace");
  const testing::Outcome outcome = Run({"run.gmtrace", "-o", "./run.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("is the trace itself"));
  EXPECT_EQ(TextOfFile(folder_ + "/run.gmtrace"), before);
}

TEST_F(FlameTest, WritesIntoWhatIsNoPlainFile) {
  EXPECT_EQ(Run({"run.gmtrace", "-o", "page.html"}).exit_code, 0);
  ASSERT_EQ(symlink("page.html", (folder_ + "/link.html").c_str()), 0);
  EXPECT_EQ(Run({"run.gmtrace", "-o", "link.html", "--max-nodes", "1"}).exit_code, 0);
  struct stat status {};
  ASSERT_EQ(lstat((folder_ + "/link.html").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_THAT(TextOfFile(folder_ + "/page.html"), HasSubstr("\"merged_stacks\": 40"));
  if (mknod((folder_ + "/null").c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) GTEST_SKIP() << "no device of our own";
  Run({"run.gmtrace", "-o", "null"});
  ASSERT_EQ(lstat((folder_ + "/null").c_str(), &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST_F(FlameTest, SaysWhereItCannotWrite) {
  const testing::Outcome outcome = Run({"run.gmtrace", "-o", "no/such/folder/page.html"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("no/such/folder/page.html"));
}

TEST_F(FlameTest, NamesCannotLeaveTheData) {
  const std::string page = Run({"run.gmtrace", "-o", "-"}).out;
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  const std::string data = page.substr(at, page.find("</script>", at) - at);
  EXPECT_THAT(data, Not(HasSubstr("<")));
  const json parsed = json::parse(data);
  EXPECT_EQ(parsed["about"]["program"], "</script><b>");
  EXPECT_THAT(parsed["strings"], ::testing::Contains("</ScRiPt \\x01>"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  for (const char* placeholder : {"@DATA@", "@STYLE@", "@SCRIPT@", "_HASH@"})
    EXPECT_THAT(page, Not(HasSubstr(placeholder)));
}

TEST_F(FlameTest, KeepsEveryByteWhateverIsMerged) {
  for (const char* most : {"1", "2", "10", "1000"}) {
    const json data = Data({"--max-nodes", most});
    const size_t nodes = data["nodes"]["up"].size();
    EXPECT_LE(nodes, 2 * std::stoull(most)) << most;
    for (const json& view : data["views"]) {
      const bool temporary = view["mode"] == "temporary";
      // Of the average what is held matters, not what was allocated.
      const int average = 136448;
      const int allocated = view["mode"] == "average" ? average : 512 * (40 * 41 / 2);
      EXPECT_EQ(view["bytes"], temporary ? 0 : allocated) << view["mode"] << most;
      EXPECT_EQ(SumOf(view["rows"]["bytes"]), view["bytes"]);
      EXPECT_EQ(SumOf(view["rows"]["count"]), view["count"]);
      EXPECT_LE(SumOf(view["rows"]["node"]), nodes);
    }
    const json& peak = data["views"][0];
    EXPECT_EQ(peak["merged_stacks"] > 0, std::string(most) != "1000");
  }
}

TEST_F(FlameTest, KeepsTheLargestStacks) {
  const json data = Data({"--max-nodes", "5"});
  std::set<std::string> kept;
  for (const size_t place : data["frames"]["function"]) kept.insert(data["strings"][place]);
  EXPECT_THAT(
      kept, ::testing::UnorderedElementsAre("main", "</ScRiPt \\x01>", "leaf40", "leaf39", "(smaller stacks, merged)"));
}

TEST_F(FlameTest, SaysWhatWasAskedToBeLeftOut) {
  const json data = Data({"--min-size", "10K", "--function", "leaf4"});
  ASSERT_EQ(data["about"]["warnings"].size(), 1u);
  EXPECT_THAT(data["about"]["warnings"][0]["text"], HasSubstr("--min-size 10K --function leaf4"));
  EXPECT_EQ(data["views"][0]["bytes"], 512 * 40);
}

TEST_F(FlameTest, TellsThePageHowToBegin) {
  const json start = Data({"--leaks", "--invert", "--flame", "--split", "thread", "--depth", "3"})["start"];
  EXPECT_EQ(
      start,
      (json{{"mode", "leaks"}, {"invert", true}, {"flame", true}, {"split", "thread"}, {"depth", 3}, {"device", 0}}));
  // The data are the same: the page inverts, splits and cuts by itself.
  json usual = Data({}), inverted = Data({"--invert", "--depth", "1", "--split", "device"});
  usual.erase("start");
  inverted.erase("start");
  EXPECT_EQ(usual, inverted);
}

TEST_F(FlameTest, EveryKeyIsDocumented) {
  const std::string documented = TextOfFile(GPUMEM_DOCS_FOLDER "/json.md");
  const json data = Data({"--max-nodes", "3"});
  const auto check = [&](const json& value, const auto& self) -> void {
    if (value.is_array()) {
      for (const json& element : value) self(element, self);
    }
    if (!value.is_object()) return;
    for (const auto& [key, member] : value.items()) {
      EXPECT_THAT(documented, HasSubstr("`" + key + "`"));
      self(member, self);
    }
  };
  for (const char* member : {"about", "start", "views", "nodes", "frames"}) check(data[member], check);
  for (const auto& [key, member] : data.items()) EXPECT_THAT(documented, HasSubstr("`" + key + "`"));
}

}  // namespace
}  // namespace gpumem
