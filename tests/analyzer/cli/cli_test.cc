// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// The command line as users and scripts meet it: usage errors, exit codes, damaged files, run and doctor.

#include <gmock/gmock.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "cli/parsed_command.h"
#include "cli/trace_options.h"
#include "small_trace.h"

namespace gpumem {
namespace {

using nlohmann::json;
using testing::CliTest;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Outcome;
using testing::SmallTrace;

TEST_F(CliTest, HelpAndVersion) {
  EXPECT_EQ(Run({"--help"}).exit_code, 0);
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("fragmentation"));
  EXPECT_THAT(Run({"--version"}).out, HasSubstr("gpumemshim 0."));
  for (const char* command : {"run", "report", "timeline", "peak", "at", "steps", "stages", "modules", "model", "leaks",
                              "tree", "table", "sizes", "fragmentation", "info", "doctor"}) {
    const Outcome outcome = Run({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr(std::string("Usage: gpumemshim ") + command));
    EXPECT_THAT(outcome.out, HasSubstr("-h, --help"));
    EXPECT_EQ(Run({"help", command}).out, outcome.out);
  }
}

TEST_F(CliTest, HelpIsOneScreen) {
  const std::vector<std::string> lines = absl::StrSplit(Run({"--help"}).out, '\n');
  EXPECT_LE(lines.size(), 41) << "40, and what is after the last";
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80) << line;
}

TEST_F(CliTest, DiffOfSeveralRunsIsATable) {
  Put("a.gmtrace", SmallTrace(true));
  const auto runs = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"diff", "--json"});
    const Outcome outcome = Run(arguments);
    return outcome.exit_code != 0 ? 0 : json::parse(outcome.out).value("runs", json()).size();
  };
  EXPECT_EQ(runs({"a.gmtrace", "a.gmtrace"}), 0) << "the difference of two";
  EXPECT_EQ(runs({"--table", "a.gmtrace", "a.gmtrace"}), 2);
  EXPECT_EQ(runs({"a.gmtrace", "a.gmtrace", "a.gmtrace"}), 3);
  Put("b.gmtrace", SmallTrace(true));
  EXPECT_EQ(runs({"."}), 2) << "a folder of several";
  EXPECT_EQ(runs({"--table"}), 2);
  EXPECT_THAT(Run({"diff", "a.gmtrace", "b.gmtrace", "--sort", "total"}).out, HasSubstr("all CUDA"));
  EXPECT_EQ(Run({"diff", "a.gmtrace", "--from", "peak", "--to", "end"}).exit_code, 0);
  EXPECT_EQ(Run({"diff", "--table", "a.gmtrace", "--from", "peak"}).exit_code, 2);
  EXPECT_EQ(Run({"diff", "a.gmtrace"}).exit_code, 2);
}

TEST_F(CliTest, ExportOfStacksHasTheChoicesOfViews) {
  Put("a.gmtrace", SmallTrace(true));
  EXPECT_EQ(Run({"export", "collapsed"}).out, "job/train.py:40 <module>;job/train.py:12 step 1536\n") << "the peak";
  EXPECT_EQ(Run({"export", "collapsed", "--leaks", "--measure", "allocated"}).out,
            "job/train.py:40 <module>;job/train.py:12 step 1024\n");
  EXPECT_EQ(Run({"export", "collapsed", "--count", "--depth", "1"}).out, "job/train.py:40 <module> 2\n");
  EXPECT_EQ(Run({"export", "collapsed", "--invert", "--max-size", "600"}).out,
            "job/train.py:12 step;job/train.py:40 <module> 512\n");
  const json flame = json::parse(Run({"export", "speedscope", "--count"}).out);
  EXPECT_EQ(flame["profiles"][0]["unit"], "none");
  EXPECT_EQ(flame["profiles"][0]["weights"], json({2}));
  EXPECT_THAT(Run({"export", "pprof"}).out, HasSubstr("inuse_space"));
  const std::string churn = Run({"export", "pprof", "--total"}).out;
  EXPECT_THAT(churn, HasSubstr("alloc_space"));
  EXPECT_THAT(churn, Not(HasSubstr("inuse_")));
}

TEST_F(CliTest, WrongUseIsCode2WithAHint) {
  EXPECT_EQ(Run({}).exit_code, 2);
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& hint) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments.front();
    EXPECT_THAT(outcome.err, HasSubstr(hint));
    EXPECT_THAT(outcome.err, HasSubstr("gpumemshim: "));
  };
  expect({"compare", "a.gmtrace"}, "gpumemshim compare is now gpumemshim diff A B C");
  expect({"detach", "1"}, "gpumemshim detach is now gpumemshim attach --stop PID");
  expect({"attach", "--stop"}, "gpumemshim attach PID, or --name TEXT");
  expect({"attach", "--stop", "--duration", "1s", "1"}, "--stop");
  expect({"dump"}, "gpumemshim dump is now gpumemshim export packets");
  expect({"recover"}, "gpumemshim recover is now gpumemshim export trace");
  expect({"symbolize"}, "gpumemshim symbolize is now gpumemshim export trace --names");
  expect({"export", "trace", "--json"}, "for trace --names");
  expect({"export", "trace", "--device", "1"}, "of whole traces");
  expect({"export", "trace", "--names", "--delete"}, "not for --names");
  expect({"export", "csv", "--in-place"}, "--in-place is for trace");
  expect({"stacks"}, "gpumemshim stacks is now gpumemshim export collapsed");
  expect({"export", "chrome", "--leaks"}, "--leaks is for stacks");
  expect({"export", "collapsed", "--max-file-size", "1M"}, "for formats of events");
  expect({"reprot"}, "Did you mean gpumemshim report?");
  expect({"frag"}, "Did you mean gpumemshim fragmentation?");
  expect({"run.gmtrace"}, "gpumemshim report run.gmtrace");
  expect({"--json"}, "before the command");
  expect({"peak", "--measur", "total"}, "did you mean --measure?");
  expect({"peak", "--measure", "everything"}, "--measure");
  expect({"peak", "a", "b"}, "unexpected argument b");
  expect({"report", "--device", "-3"}, "--device");
  expect({"report", "--from", "2", "--to", "1s"}, "--from is later than --to");
  expect({"tree", "--leaks", "--total"}, "--leaks");
  expect({"tree", "--temporary-threshold", "3", "--peak"}, "--peak");
  expect({"tree", "--function", "("}, "( is not a regular expression");
  expect({"tree", "--ignore", "["}, "in --ignore");
  expect({"tree", "--measure", "held"}, "--measure held has no peak of its own");
  expect({"table", "--min-size", "big"}, "big is not a size");
  expect({"table", "--max-age", "-1"}, "invalid time \"-1\"");
  expect({"table", "--by", "colour"}, "--by");
  expect({"run"}, "gpumemshim run -- python train.py");
  expect({"run", "--bogus", "true"}, "unknown flag --bogus");
}

TEST_F(CliTest, WhatCannotBeReadIsCode3WithANextStep) {
  EXPECT_EQ(Run({"report"}).exit_code, 3);
  EXPECT_THAT(Run({"report"}).err, HasSubstr("gpumemshim run -- python train.py"));
  EXPECT_EQ(Run({"report", "missing.gmtrace"}).exit_code, 3);
  Put("empty.gmtrace", "");
  Put("foreign.gmtrace", std::string(4096, 'x'));
  for (const char* command :
       {"report", "timeline", "peak", "leaks", "tree", "table", "sizes", "fragmentation", "info"}) {
    EXPECT_EQ(Run({command, "empty.gmtrace"}).exit_code, 3) << command;
    EXPECT_EQ(Run({command, "foreign.gmtrace"}).exit_code, 3) << command;
    EXPECT_THAT(Run({command, "foreign.gmtrace"}).out, IsEmpty()) << command;
  }
}

TEST_F(CliTest, WordsAfterTwoDashesAreNoFlags) {
  Put("-odd.gmtrace", SmallTrace(true));
  EXPECT_EQ(Run({"report", "--json", "--", "-odd.gmtrace"}).exit_code, 0);
  EXPECT_EQ(Run({"report", "-odd.gmtrace"}).exit_code, 2);
  for (const char* word : {"--help", "--rules=/etc/passwd", "-h", "--"}) {
    const Outcome outcome = Run({"report", "--", word});
    EXPECT_EQ(outcome.exit_code, 3) << word;
    EXPECT_THAT(outcome.err, HasSubstr(std::string("cannot open ") + word)) << word;
  }
  EXPECT_EQ(Run({"report", "--", "a", "b"}).exit_code, 2);
}

TEST_F(CliTest, DamagedIsCode4AndAnsweredInPart) {
  std::string bytes = SmallTrace(true);
  Put("cut.gmtrace", bytes.substr(0, bytes.size() - 5));
  const Outcome outcome = Run({"report", "cut.gmtrace", "--json"});
  EXPECT_EQ(outcome.exit_code, 4);
  const json answer = json::parse(outcome.out);
  EXPECT_FALSE(answer["damage"].is_null());
  EXPECT_EQ(answer["devices"][0]["peak"]["allocated_bytes"], 1536);
  EXPECT_THAT(Run({"report", "cut.gmtrace"}).out, HasSubstr("DAMAGED"));
  EXPECT_EQ(Run({"export", "packets", "cut.gmtrace"}).exit_code, 4);
  const Outcome tree = Run({"tree", "cut.gmtrace", "--total", "--json"});
  EXPECT_EQ(tree.exit_code, 4);
  EXPECT_EQ(json::parse(tree.out)["nodes"][0]["bytes"], 1536);
}

TEST_F(CliTest, ViewsTakeFiltersTogether) {
  Put("a.gmtrace", SmallTrace(true));
  const auto bytes = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"tree", "--json"});
    return json::parse(Run(arguments).out)["view"]["shown_bytes"].get<uint64_t>();
  };
  EXPECT_EQ(bytes({}), 1536u);
  EXPECT_EQ(bytes({"--leaks"}), 1024u);
  EXPECT_EQ(bytes({"--temporary"}), 512u);
  EXPECT_EQ(bytes({"--temporary-threshold", "0"}), 0u);
  EXPECT_EQ(bytes({"--total", "--min-size", "1K"}), 1024u);
  EXPECT_EQ(bytes({"--total", "--max-size", "512B"}), 512u);
  EXPECT_EQ(bytes({"--measure", "reserved"}), 2u << 20);
  EXPECT_EQ(bytes({"--leaks", "--min-age", "1h"}), 0u);
  EXPECT_EQ(bytes({"--leaks", "--from", "2us"}), 1024u);
  EXPECT_EQ(bytes({"--function", "^step$", "--file", "train"}), 1536u);
  EXPECT_EQ(bytes({"--function", "nowhere"}), 0u);
  EXPECT_EQ(Run({"export", "collapsed", "--total", "--invert"}).out,
            "job/train.py:12 step;job/train.py:40 <module> 1536\n");
}

TEST_F(CliTest, KilledIsNotDamagedButIncomplete) {
  Put("killed.gmtrace", SmallTrace(false));
  const Outcome outcome = Run({"report", "killed.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("The end is missing: killed, or still running."));
  EXPECT_EQ(json::parse(Run({"report", "--json"}).out)["complete"], false);
}

TEST_F(CliTest, TakesTheNewestTraceOfAFolder) {
  Put("old.gmtrace", SmallTrace(true));
  Put("new.gmtrace", SmallTrace(true));
  ASSERT_EQ(system(("touch -d '2001-01-01' " + folder_ + "/old.gmtrace").c_str()), 0);
  EXPECT_EQ(json::parse(Run({"info", "--json"}).out)["file"], "new.gmtrace");
  EXPECT_EQ(json::parse(RunGpumem({"info", "--json", folder_}).out)["file"], folder_ + "/new.gmtrace");
}

TEST_F(CliTest, NewerFilesThatAreNoTraceHideNone) {
  Put("good.gmtrace", SmallTrace(true));
  ASSERT_EQ(system(("touch -d '2001-01-01' " + folder_ + "/good.gmtrace").c_str()), 0);
  Put("foreign.gmtrace", std::string(4096, 'x'));
  Put("empty.gmtrace", "");
  EXPECT_EQ(json::parse(Run({"info", "--json"}).out)["file"], "good.gmtrace");
}

TEST_F(CliTest, AQueryMayStandAnywhere) {
  Put("a.gmtrace", SmallTrace(true));
  EXPECT_THAT(Run({"sql", "a.gmtrace", "-- a comment\nSELECT 1 AS one"}).out, HasSubstr("one"));
  EXPECT_THAT(Run({"sql", "SELECT 1 AS one", "a.gmtrace", "--json"}).out, HasSubstr("one"));
  EXPECT_THAT(Run({"sql", "SELECT 1", "a.gmtrace", "SELECT 2"}).err, HasSubstr("two queries"));
}

TEST_F(CliTest, AScriptThatIsNoProgramGetsItsInterpreterNamed) {
  Put("train.py", "print(1)\n");
  EXPECT_THAT(Run({"run", "--", "train.py"}).err, HasSubstr("gpumemshim run -- python train.py"));
}

// Any file of a series stands for all of it.
TEST_F(CliTest, AFoldersReportHasASeriesOnce) {
  for (const uint32_t number : {1u, 2u}) {
    testing::TraceBuilder trace(100);
    trace.header().mutable_part()->set_series(7);
    trace.header().mutable_part()->set_number(number);
    trace.Device(0, "GPU", 1 << 30).TorchAlloc(0x1000000, 512, 0);
    Put(number == 1 ? "run.gmtrace" : "run.part2.gmtrace", trace.End().Bytes());
  }
  Put("other.gmtrace", SmallTrace(true));
  const json report = json::parse(RunGpumem({"report", "--json", folder_}).out);
  EXPECT_EQ(report["processes"].size(), 2u) << report.dump();
}

TEST_F(CliTest, ADeviceThatIsNotThereIsWrongUse) {
  Put("a.gmtrace", SmallTrace(true));
  EXPECT_EQ(Run({"report", "--device", "0"}).exit_code, 0);
  const Outcome outcome = Run({"report", "--device", "7"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no memory of GPU 7"));
}

TEST_F(CliTest, ATimeMayHaveAName) {
  Put("a.gmtrace", SmallTrace(true));
  for (const char* command : {"report", "leaks", "tree"}) {
    const Outcome outcome = Run({command, "--from", "soon", "a.gmtrace"});
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr("--from: this trace has no soon")) << command;
    EXPECT_EQ(Run({command, "--to", "end", "a.gmtrace"}).exit_code, 0) << command;
  }
}

TEST_F(CliTest, EveryCommandAnswersInJsonWithTheSchemaVersion) {
  Put("a.gmtrace", SmallTrace(true));
  for (const char* command : {"report", "timeline", "peak", "steps", "stages", "modules", "model", "leaks", "tree",
                              "table", "sizes", "fragmentation", "info", "doctor"}) {
    EXPECT_EQ(json::parse(Run({command, "--json"}).out)["schema_version"], kJsonSchemaVersion) << command;
  }
}

TEST_F(CliTest, ExportsPacketsAndEventsAsText) {
  Put("a.gmtrace", SmallTrace(true));
  EXPECT_THAT(Run({"export", "packets"}).out, HasSubstr("format_version: 1"));
  const std::string events = Run({"export", "events"}).out;
  EXPECT_EQ(std::count(events.begin(), events.end(), '\n'), 4);
  EXPECT_THAT(events, HasSubstr("torch alloc device device=0 address=0x7f0000000200 size=1024"));
  const std::string one = Run({"export", "events", "--json", "--limit", "1"}).out;
  EXPECT_EQ(json::parse(one)["kind"], "alloc");
  for (const char* key : {"schema_version", "time_ns", "layer", "memory", "address", "size_bytes", "requested_bytes",
                          "stream", "handle", "result", "took_ns", "thread", "stack", "tag", "api", "device"}) {
    EXPECT_TRUE(json::parse(one).contains(key)) << key;
  }
  const json packet = json::parse(Run({"export", "packets", "--json", "--limit", "1"}).out);
  EXPECT_EQ(packet["type"], "header");
  EXPECT_EQ(packet["data"]["format_version"], 1);
}

TEST_F(CliTest, ExportChoosesEvents) {
  Put("a.gmtrace", SmallTrace(true));
  const auto lines = [&](std::vector<std::string> filter) {
    filter.insert(filter.begin(), {"export", "events"});
    const std::string out = Run(filter).out;
    return std::count(out.begin(), out.end(), '\n');
  };
  EXPECT_EQ(lines({"--device", "0"}), 4);
  EXPECT_EQ(lines({"--device", "1"}), 0);
  EXPECT_EQ(lines({"--layer", "torch"}) + lines({"--layer", "runtime"}), 4);
  EXPECT_GT(lines({"--layer", "torch"}), 0);
  EXPECT_LT(lines({"--layer", "torch"}), 4);
  EXPECT_EQ(lines({"--to", "0ns"}), 1);
  EXPECT_EQ(lines({"--from", "1ns"}), 3);
  EXPECT_EQ(Run({"export", "packets", "--device", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"export", "chrome", "--limit", "1"}).exit_code, 2);
}

TEST_F(CliTest, NothingIsColouredInAPipe) {
  Put("a.gmtrace", SmallTrace(true));
  EXPECT_EQ(Run({"report"}).out.find('\033'), std::string::npos);
}

class RunTest : public CliTest {
 protected:
  // `env` exists everywhere, and the loader only warns of a preload that is not a library.
  std::map<std::string, std::string> Fake() {
    Put("libgpumemshim.so", "");
    return {{"GPUMEMSHIM_LIBRARY", folder_ + "/libgpumemshim.so"}};
  }
};

TEST_F(RunTest, SetsThePreloadInFrontAndTheOutput) {
  auto environment = Fake();
  environment["LD_PRELOAD"] = "libother.so";
  const Outcome outcome = Run({"run", "-q", "--no-native", "-o", "x.%p.gmtrace", "--", "env"}, environment);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("LD_PRELOAD=" + folder_ + "/libgpumemshim.so:libother.so\n"));
  EXPECT_THAT(outcome.out, HasSubstr("GPUMEMSHIM_OUTPUT=" + folder_ + "/x.%p.gmtrace\n"));
  EXPECT_THAT(outcome.out, HasSubstr("GPUMEMSHIM_NATIVE=none\n"));
  EXPECT_THAT(outcome.out, HasSubstr("GPUMEMSHIM_QUIET=1\n"));
}

TEST_F(RunTest, PassesOnWhichNativeFramesToRecord) {
  auto environment = Fake();
  environment["GPUMEMSHIM_NATIVE"] = "cut";
  const auto native = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {"run", "-q"};
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), {"--", "sh", "-c", "echo $GPUMEMSHIM_NATIVE"});
    return Run(command, environment).out;
  };
  EXPECT_EQ(native({}), "cut\n");
  EXPECT_EQ(native({"--native", "full"}), "full\n");
  EXPECT_EQ(native({"--native", "none"}), "none\n");
  EXPECT_EQ(Run({"run", "--native", "all", "--", "true"}, environment).exit_code, 2);
  EXPECT_EQ(Run({"run", "--native", "full", "--no-native", "--", "true"}, environment).exit_code, 2);
}

TEST_F(RunTest, EndsAsTheProgramEnds) {
  const auto environment = Fake();
  EXPECT_EQ(Run({"run", "--", "sh", "-c", "exit 7"}, environment).exit_code, 7);
  EXPECT_EQ(Run({"run", "sh", "-c", "exit 7"}, environment).exit_code, 7);
  EXPECT_EQ(Run({"run", "--", "sh", "-c", "kill -KILL $$"}, environment).exit_code, 128 + 9);
  EXPECT_EQ(Run({"run", "--", "sh", "-c", "kill -TERM $PPID; exec sleep 30"}, environment).exit_code, 128 + 15);
  EXPECT_EQ(Run({"run", "--", "/no/such/program"}, environment).exit_code, 127);
}

TEST_F(RunTest, SaysThatNoTraceWasWritten) {
  EXPECT_THAT(Run({"run", "--", "true"}, Fake()).err, HasSubstr("no trace was written"));
  const Outcome outcome = Run({"run", "-o", "t.gmtrace", "--", "sh", "-c", "echo > t.gmtrace"}, Fake());
  EXPECT_EQ(outcome.err.find("no trace was written"), std::string::npos) << outcome.err;
}

TEST_F(RunTest, ReplacesAFileOnlyWithForce) {
  Put("t.gmtrace", "old");
  const Outcome refused = Run({"run", "-o", "t.gmtrace", "--", "true"}, Fake());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(Run({"run", "--force", "-o", "t.gmtrace", "--", "true"}, Fake()).exit_code, 0);
  EXPECT_NE(access((folder_ + "/t.gmtrace").c_str(), F_OK), 0);
}

TEST_F(RunTest, WithoutTheLibraryIsAClearError) {
  const Outcome outcome = Run({"run", "--", "true"}, {{"GPUMEMSHIM_LIBRARY", "/no/lib.so"}});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("GPUMEMSHIM_LIBRARY names /no/lib.so"));
}

TEST_F(CliTest, DoctorFailsWithoutTheLibraryAndLooksAtTheCommand) {
  const Outcome outcome = Run({"doctor", "--json", "--", "sh"}, {{"GPUMEMSHIM_LIBRARY", "/no/lib.so"}});
  EXPECT_EQ(outcome.exit_code, 1);
  const json answer = json::parse(outcome.out);
  EXPECT_EQ(answer["health"], "fail");
  EXPECT_EQ(answer["findings"][0]["check"], "library");
  EXPECT_EQ(answer["findings"].back()["check"], "program");
  EXPECT_EQ(answer["findings"].back()["health"], "ok");
  EXPECT_THAT(Run({"doctor", "999999999"}).out, HasSubstr("there is no process"));
}

TEST(Nearest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(Nearest("reprot", {"run", "report", "peak"}), "report");
  EXPECT_EQ(Nearest("leak", {"leaks", "peak"}), "leaks");
  EXPECT_EQ(Nearest("leak", {"peak", "leaks"}), "leaks") << "the beginning of a word";
  EXPECT_EQ(Nearest("sql", {"ctl", "at"}), "") << "two letters of three are another word";
  EXPECT_EQ(Nearest("x", {"run", "report"}), "");
  EXPECT_EQ(Nearest("completely", {"run", "report"}), "");
}

TEST(ShellQuoted, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(ShellQuoted("run.gmtrace"), "run.gmtrace");
  EXPECT_EQ(ShellQuoted("my run's.gmtrace"), "'my run'\\''s.gmtrace'");
  EXPECT_EQ(ShellQuoted("-x"), "'-x'");
  EXPECT_EQ(ShellQuoted("$(x)"), "'$(x)'");
}

}  // namespace
}  // namespace gpumem
