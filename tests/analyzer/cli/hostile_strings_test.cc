// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// A trace whose every name steers terminals, turns the writing direction, and closes scripts: no command passes it on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/utf8.h"
#include "program.h"
#include "testing/sizes.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using testing::Call;
using testing::Code;
using ::testing::HasSubstr;
using testing::kMiB;
using testing::kSegment;
using ::testing::Not;
using testing::Outcome;
using testing::RunGpumem;
using testing::TrainingTrace;

constexpr char kHostile[] =
    "\x1b]0;owned\x07\x1b[2J\u009b31m\u202egnp\u200b\r\x7f</script><img src=x onerror=alert(1)>'\"`$(id)|*[a](b)\n<!--";
constexpr char kFile[] = "x\x1b[2J\u202e\n.gmtrace";

std::string HostileTrace() {
  TrainingTrace training;
  testing::TraceBuilder& trace = training.builder();
  trace::Header& header = trace.header();
  for (std::string* text : {header.mutable_hostname(), header.mutable_program(), header.mutable_executable(),
                            header.mutable_working_directory(), header.mutable_writer_version()})
    *text = kHostile;
  header.add_command_line("python");
  header.add_command_line(kHostile);
  trace.Device(0, kHostile, 64 * kMiB).Version(kHostile, kHostile);
  trace.OnThread(trace.Thread(7, kHostile));
  const uint32_t root = training.Root(kHostile);
  const uint32_t layer = training.Module(root, kHostile, kHostile);
  const uint32_t optimizer = training.Optimizer(kHostile);
  const uint64_t stack =
      training.Stack({Code(kHostile, kHostile, 3), Call(layer), Call(root), Code("main", kHostile, 9)});
  trace.CudaAlloc(kSegment, 32 * kMiB, stack);
  for (uint64_t step = 0; step < 4; ++step) {
    for (uint64_t i = 0; i < 8; ++i) trace.TorchAlloc(kSegment + (16 * step + i) * 65536, 65536, stack);
    training.StepBegins(optimizer).StepEnds(optimizer);
    for (uint64_t i = 0; i < 7; ++i) trace.TorchFree(kSegment + (16 * step + i) * 65536, 65536);
  }
  return trace.End().Bytes();
}

// The first character of `text` that should not have come through, with what is around it; else "".
std::string Misleading(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const DecodedChar c = DecodeUtf8(absl::string_view(text).substr(at));
    if (!c.valid || (IsMisleading(c.value) && c.value != '\n')) {
      return EscapeControls(text.substr(at < 40 ? 0 : at - 40, 80));
    }
    at += c.length;
  }
  return "";
}

class HostileStringsTest : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  void SetUp() override {
    folder_ = testing::MakeFolder();
    testing::WriteFile(folder_ + "/" + kFile, HostileTrace());
  }
  std::string folder_;
};

TEST_P(HostileStringsTest, AreShownAndNotObeyed) {
  std::vector<std::string> arguments = GetParam();
  arguments.push_back(kFile);
  const Outcome text = RunGpumem(arguments, folder_);
  // A trace without a rank is not a rank's: ranks answers in part.
  const bool may_fail = arguments[0] == "oom" || arguments[0] == "ranks";
  EXPECT_TRUE(text.exit_code == 0 || may_fail) << text.exit_code << text.err;
  EXPECT_EQ(Misleading(text.out), "");
  EXPECT_EQ(Misleading(text.err), "");
}

TEST_P(HostileStringsTest, AreTheirOwnTextInJson) {
  if (GetParam()[0] == "export" && (GetParam()[1] == "trace" || GetParam()[1] == "collapsed"))
    GTEST_SKIP() << GetParam()[1] << " has no JSON";
  std::vector<std::string> arguments = GetParam();
  arguments.push_back("--json");
  arguments.push_back(kFile);
  const Outcome machine = RunGpumem(arguments, folder_);
  EXPECT_EQ(Misleading(machine.out), "");
  std::istringstream lines(machine.out);
  const nlohmann::json answer = nlohmann::json::parse(machine.out, nullptr, /*allow_exceptions=*/false);
  if (GetParam()[0] == "export") return;  // a document for each line
  ASSERT_TRUE(answer.is_object()) << machine.out.substr(0, 200);
  EXPECT_THAT(machine.out, HasSubstr("onerror=alert"));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, HostileStringsTest,
    ::testing::Values(std::vector<std::string>{"report"}, std::vector<std::string>{"peak"},
                      std::vector<std::string>{"leaks"}, std::vector<std::string>{"timeline"},
                      std::vector<std::string>{"fragmentation"}, std::vector<std::string>{"oom"},
                      std::vector<std::string>{"explain", "--full"}, std::vector<std::string>{"info"},
                      std::vector<std::string>{"export", "packets"}, std::vector<std::string>{"export", "events"},
                      std::vector<std::string>{"tree"}, std::vector<std::string>{"table"},
                      std::vector<std::string>{"sizes"}, std::vector<std::string>{"table", "--by", "stack"},
                      std::vector<std::string>{"export", "collapsed"}, std::vector<std::string>{"flame", "-o", "out"},
                      std::vector<std::string>{"html", "-o", "out"}, std::vector<std::string>{"steps"},
                      std::vector<std::string>{"stages"}, std::vector<std::string>{"modules"},
                      std::vector<std::string>{"model"}, std::vector<std::string>{"at", "10us"},
                      std::vector<std::string>{"export", "trace", "--names", "-o", "out"},
                      std::vector<std::string>{"export", "trace"}, std::vector<std::string>{"ranks"},
                      std::vector<std::string>{"live", "--once"}),
    [](const auto& instance) {
      std::string name;
      for (const std::string& word : instance.param) {
        if (word != "-o") name += word.substr(word.find_first_not_of('-'));
      }
      return name;
    });

TEST(HostilePage, HoldsNoScriptButItsOwn) {
  const std::string folder = testing::MakeFolder();
  testing::WriteFile(folder + "/" + kFile, HostileTrace());
  const Outcome outcome = RunGpumem({"flame", "-o", "-", kFile}, folder);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Misleading(outcome.out), "");
  EXPECT_THAT(outcome.out, Not(HasSubstr("<img")));
  EXPECT_THAT(outcome.out, HasSubstr("onerror=alert"));
}

}  // namespace
}  // namespace gpumem
