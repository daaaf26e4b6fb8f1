// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The commands that show memory by category, on a hand-made training.

#include "ledger/attribution/attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "answers/views/view_groups.h"
#include "program.h"
#include "testing/sizes.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using nlohmann::json;
using testing::Call;
using testing::Code;
using ::testing::HasSubstr;
using testing::kMiB;
using testing::kSegment;
using testing::Mark;

// One step: a weight, an activation that is kept, and a temporary of the backward pass at the peak.
std::string TrainingBytes() {
  testing::TrainingTrace trace;
  const uint32_t model = trace.Root("Net"), layer = trace.Module(model, "mlp", "MLP");
  const uint32_t weight = trace.Parameter(model, "mlp.weight", kMiB), optimizer = trace.Optimizer("SGD");
  const uint64_t made = trace.Stack({Code("MLP.__init__", "/job/model.py"), Code("<module>", "/job/train.py")});
  const uint64_t forward = trace.Stack(
      {Code("MLP.forward", "/job/model.py", 7), Call(layer), Call(model), Code("<module>", "/job/train.py")});
  const uint64_t backward = trace.Stack({Mark("MmBackward0"), Code("MLP.forward", "/job/model.py", 7), Call(layer),
                                         Call(model), Code("<module>", "/job/train.py")});
  trace.builder().CudaAlloc(kSegment, 20 * kMiB, made).TorchAlloc(kSegment, 4 * kMiB, made);
  trace.Place(weight, kSegment, 4 * kMiB);
  trace.builder().TorchAlloc(kSegment + 4 * kMiB, 8 * kMiB, forward);
  trace.Saved(kSegment + 4 * kMiB);
  trace.builder().TorchAlloc(kSegment + 12 * kMiB, 2 * kMiB, backward);
  trace.builder().TorchFree(kSegment + 12 * kMiB, 2 * kMiB).TorchFree(kSegment + 4 * kMiB, 8 * kMiB);
  trace.StepBegins(optimizer).StepEnds(optimizer);
  return trace.builder().End().Bytes();
}

class AttributionCommandTest : public ::testing::Test {
 protected:
  AttributionCommandTest() { testing::WriteFile(folder_ + "/run.gmtrace", TrainingBytes()); }
  testing::Outcome Run(const std::vector<std::string>& arguments) { return testing::RunGpumem(arguments, folder_, {}); }
  json Answer(const std::vector<std::string>& arguments) {
    const testing::Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }

  std::string folder_ = testing::MakeFolder();
};

TEST_F(AttributionCommandTest, AtSaysWhatThePeakIs) {
  const json answer = Answer({"at", "peak", "run.gmtrace", "--json"});
  EXPECT_EQ(answer["categories"]["parameter"], 4 * kMiB);
  EXPECT_EQ(answer["categories"]["activation"], 8 * kMiB);
  EXPECT_EQ(answer["categories"]["temporary"], 2 * kMiB);
  EXPECT_EQ(answer["categories"]["allocator_overhead"], 6 * kMiB);
  EXPECT_EQ(answer["categories"]["unknown"], 0);
  EXPECT_EQ(answer["modules"][0]["fqn"], "mlp");
  EXPECT_EQ(Answer({"at", "step", "1", "--json"})["categories"], answer["categories"]);
  EXPECT_THAT(Run({"at", "peak"}).out, HasSubstr("activations"));
}

TEST_F(AttributionCommandTest, AMomentThatIsNotThereIsAUsageError) {
  EXPECT_EQ(Run({"at", "step", "9"}).exit_code, 2);
  EXPECT_EQ(Run({"at", "no such mark"}).exit_code, 2);
  EXPECT_EQ(Run({"at"}).exit_code, 2);
}

TEST_F(AttributionCommandTest, StepsModulesAndModel) {
  EXPECT_EQ(Answer({"steps", "--json"})["steps"][0]["peak_bytes"], 14 * kMiB);
  EXPECT_EQ(Answer({"modules", "--json"})["modules"][0]["saved_peak_bytes"], 8 * kMiB);
  const json model = Answer({"model", "--json"});
  EXPECT_EQ(model["totals"]["parameter_bytes"], 4 * kMiB);
  EXPECT_EQ(model["parameters"][0]["component"], "mlp");
  for (const char* command : {"steps", "stages", "modules", "model"}) EXPECT_EQ(Run({command}).exit_code, 0);
}

TEST_F(AttributionCommandTest, StagesHaveStartPeakAndEnd) {
  const json answer = Answer({"stages", "--json"});
  ASSERT_EQ(answer["stages"].size(), 2u);
  const json &load = answer["stages"][0], &training = answer["stages"][1];
  EXPECT_EQ(load["stage"], "model_load");
  EXPECT_EQ(load["end_bytes"], 4 * kMiB);
  EXPECT_EQ(training["stage"], "training");
  EXPECT_EQ(training["start_bytes"], 4 * kMiB);
  EXPECT_EQ(training["peak_bytes"], 14 * kMiB);
  EXPECT_EQ(training["end_bytes"], 4 * kMiB);
  EXPECT_EQ(training["growth_bytes"], 0);
  EXPECT_EQ(training["categories"]["activation"], 8 * kMiB);
  EXPECT_EQ(training["categories_at_end"]["activation"], 0);
  EXPECT_EQ(training["complete"], false);
  EXPECT_TRUE(training["named"].is_null());
  EXPECT_THAT(Run({"stages"}).out, HasSubstr("model load"));
  EXPECT_EQ(Answer({"stages", "--top", "1", "--json"})["stages"].size(), 1u);
}

// Rows of a table with their own bytes, and with everything in them.
TEST_F(AttributionCommandTest, TablesByWhatMemoryBelongsTo) {
  using Pairs = std::map<std::string, std::pair<uint64_t, uint64_t>>;
  const auto rows = [&](const std::string& by) {
    Pairs bytes;
    const json answer = Answer({"table", "--by", by, "--json"});
    for (const json& row : answer["rows"])
      bytes[row["name"]] = {row["self_bytes"].get<uint64_t>(), row["bytes"].get<uint64_t>()};
    return bytes;
  };
  const std::pair<uint64_t, uint64_t> none{4 * kMiB, 4 * kMiB}, all{10 * kMiB, 10 * kMiB};
  EXPECT_EQ(rows("module"), (Pairs{{"Net", {0, 10 * kMiB}}, {"mlp (MLP)", all}, {"(no module)", none}}));
  EXPECT_EQ(rows("component"), (Pairs{{"mlp", {14 * kMiB, 14 * kMiB}}})) << "with its parameters, as `at` has it";
  EXPECT_EQ(
      rows("stage"),
      (Pairs{{"forward", {8 * kMiB, 8 * kMiB}}, {"backward", {2 * kMiB, 2 * kMiB}}, {"model construction", none}}));
  EXPECT_EQ(rows("category")["activations"].first, 8 * kMiB);
  EXPECT_EQ(rows("operator"), (Pairs{{"(no operator)", {14 * kMiB, 14 * kMiB}}}));
  for (const char* by : {"library", "file"}) {
    uint64_t own = 0;
    for (const auto& [name, bytes] : rows(by)) own += bytes.first;
    EXPECT_EQ(own, 14 * kMiB) << by;
  }
  EXPECT_THAT(Run({"table", "--by", "component"}).out, HasSubstr("mlp"));
  EXPECT_EQ(Run({"table", "--by", "nothing"}).exit_code, 2);
}

TEST_F(AttributionCommandTest, StagesThatTheProgramNamedStandAround) {
  testing::TrainingTrace trace;
  const uint32_t model = trace.Root("Net");
  const uint64_t forward = trace.Stack({Code("Net.forward", "/job/a.py"), Call(model)});
  trace.builder().CudaAlloc(kSegment, 20 * kMiB);
  EventRow push;
  push.kind = trace::RANGE_PUSH;
  push.text = trace.builder().String("train");
  trace.builder().TorchAlloc(kSegment, kMiB, forward).Event(push).TorchAlloc(kSegment + kMiB, 2 * kMiB, forward);
  testing::WriteFile(folder_ + "/named.gmtrace", trace.builder().End().Bytes());
  const auto names = [&](const std::string& command, const std::string& key) {
    std::map<std::string, uint64_t> bytes;
    const json answer = Answer({command, "--by", "stage", "named.gmtrace", "--json"});
    for (const json& row : answer[key])
      bytes[row.value(key == "rows" ? "name" : "label", "")] += row["bytes"].get<uint64_t>();
    return bytes;
  };
  EXPECT_EQ(names("table", "rows"),
            (std::map<std::string, uint64_t>{{"forward", kMiB}, {"train", 2 * kMiB}, {"train > forward", 2 * kMiB}}));
  EXPECT_EQ(names("tree", "nodes")["train"], 2 * kMiB);
  const json at = Answer({"at", "peak", "named.gmtrace", "--json"});
  EXPECT_EQ(at["stage_paths"]["train > forward"], 2 * kMiB);
  EXPECT_EQ(at["stages"]["forward"], 3 * kMiB);
  EXPECT_THAT(Run({"at", "peak", "named.gmtrace"}).out, HasSubstr("By stage in which it was allocated"));
  EXPECT_THAT(Run({"modules", "named.gmtrace"}).out, HasSubstr("train > forward"));
  std::map<std::string, uint64_t> peaks;
  const json stages = Answer({"stages", "named.gmtrace", "--json"});
  for (const json& row : stages["stages"]) peaks[row["stage"]] = row["peak_bytes"];
  EXPECT_EQ(peaks, (std::map<std::string, uint64_t>{
                       {"inference", kMiB}, {"train", 3 * kMiB}, {"train > inference", 3 * kMiB}}));
  EXPECT_THAT(Run({"stages", "named.gmtrace"}).out, HasSubstr("Stages that the program named"));
  EXPECT_EQ(Run({"flame", "--by", "stage", "named.gmtrace", "-o", "named.html"}).exit_code, 0);
}

TEST_F(AttributionCommandTest, AWorkspaceBelongsToItsModuleUnlessItStays) {
  for (const bool stays : {false, true}) {
    testing::TrainingTrace trace;
    const uint32_t model = trace.Root("Net");
    const uint64_t stack = trace.Stack({Code("_cudnn_init_dropout_state", "/job/rnn.py"), Call(model)});
    trace.builder().CudaAlloc(kSegment, 2 * kMiB).TorchAlloc(kSegment, kMiB, stack);
    if (!stays) trace.builder().TorchFree(kSegment, kMiB);
    testing::WriteFile(folder_ + "/workspace.gmtrace", trace.builder().End().Bytes());
    const json at = Answer({"at", "peak", "workspace.gmtrace", "--json"});
    EXPECT_EQ(at["categories"]["workspace"], kMiB);
    EXPECT_EQ(at["modules"].size(), stays ? 0u : 1u);
    EXPECT_EQ(at["components"], (json{{stays ? "workspace" : "root", kMiB}}));
  }
}

TEST_F(AttributionCommandTest, ReportLeadsWithTheCategories) {
  EXPECT_THAT(Run({"report"}).out, HasSubstr("peak by category"));
  EXPECT_THAT(Run({"report", "--full"}).out, HasSubstr("Memory by category at the peak"));
  EXPECT_EQ(Answer({"report", "--json"})["attribution"]["categories"]["activation"], 8 * kMiB);
}

TEST_F(AttributionCommandTest, SnapshotsAreListedWithWhatMemoryWasFor) {
  testing::TrainingTrace trace;
  const uint32_t name = trace.builder().String("cache");
  EventRow snapshot;
  snapshot.kind = trace::MARK;
  snapshot.handle = 1;
  trace.builder().CudaAlloc(kSegment, 20 * kMiB).TorchAlloc(kSegment, 4 * kMiB);
  trace.Named(kSegment, name);
  for (int i = 0; i < 102; ++i) {
    snapshot.text = trace.builder().String(i == 101 ? "last" : "each");
    trace.builder().Event(snapshot);
  }
  testing::WriteFile(folder_ + "/snapshots.gmtrace", trace.builder().TorchFree(kSegment, 4 * kMiB).End().Bytes());
  const json answer = Answer({"report", "snapshots.gmtrace", "--json"});
  ASSERT_EQ(answer["snapshots"].size(), 100u);
  EXPECT_EQ(answer["snapshots_left_out"], 2);
  EXPECT_EQ(answer["snapshots"][99]["name"], "last");
  EXPECT_EQ(answer["snapshots"][99]["categories"]["allocator_overhead"], 16 * kMiB);
  EXPECT_LT(answer["snapshots"][0]["time_ns"], answer["snapshots"][1]["time_ns"]);
  EXPECT_THAT(Run({"report", "--full", "snapshots.gmtrace"}).out, HasSubstr("2 others are not shown"));
  EXPECT_THAT(Run({"at", "last", "snapshots.gmtrace"}).out, HasSubstr("By name that the program gave"));
  EXPECT_EQ(Answer({"at", "last", "snapshots.gmtrace", "--json"})["names"][0]["bytes"], 4 * kMiB);
}

TEST_F(AttributionCommandTest, OfMarksWithOneTextEachCanBeAskedFor) {
  testing::TrainingTrace trace;
  EventRow mark;
  mark.kind = trace::MARK;
  trace.builder().CudaAlloc(kSegment, 20 * kMiB);
  for (int i = 0; i < 3; ++i) {
    trace.builder().TorchAlloc(kSegment + i * 4 * kMiB, 4 * kMiB);
    mark.text = trace.builder().String("Epoch \u5f00\u59cb");
    trace.builder().Event(mark);
  }
  mark.text = trace.builder().String("saved #7");
  trace.builder().Event(mark);
  testing::WriteFile(folder_ + "/epochs.gmtrace", trace.builder().End().Bytes());
  const auto allocated = [this](const std::string& moment) {
    return Answer({"at", moment, "epochs.gmtrace", "--json"})["values"]["allocated_bytes"].get<uint64_t>();
  };
  EXPECT_EQ(allocated("Epoch \u5f00\u59cb"), 4 * kMiB);
  EXPECT_EQ(allocated("Epoch \u5f00\u59cb#2"), 8 * kMiB);
  EXPECT_EQ(allocated("mark:Epoch \u5f00\u59cb#3"), 12 * kMiB);
  EXPECT_EQ(allocated("saved #7"), 12 * kMiB);
  EXPECT_THAT(Run({"at", "Epoch \u5f00\u59cb", "epochs.gmtrace"}).out, HasSubstr("mark 1 of 3 with this name"));
  EXPECT_THAT(Run({"at", "Epoch \u5f00\u59cb#4", "epochs.gmtrace"}).err, HasSubstr("There are 3 marks"));
  EXPECT_THAT(Run({"at", "epoch", "epochs.gmtrace"}).err, HasSubstr("Did you mean 'Epoch \u5f00\u59cb'?"));
  EXPECT_THAT(Run({"peak", "--to", "Epoch 2", "epochs.gmtrace"}).err, HasSubstr("Did you mean 'Epoch \u5f00\u59cb'?"));
}

TEST_F(AttributionCommandTest, TheBuiltInRulesAreRulesToBeginWith) {
  const testing::Outcome printed = Run({"modules", "--print-rules"});
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_THAT(printed.out, HasSubstr("component attention"));
  testing::WriteFile(folder_ + "/printed.rules", printed.out);
  EXPECT_EQ(Run({"modules", "--rules", "printed.rules", "run.gmtrace"}).out, Run({"modules", "run.gmtrace"}).out);
}

TEST_F(AttributionCommandTest, RulesOfOnesOwn) {
  testing::WriteFile(folder_ + "/my.rules", "component brain class MLP\n");
  EXPECT_EQ(Answer({"at", "peak", "--rules", "my.rules", "--json"})["modules"][0]["component"], "brain");
  testing::WriteFile(folder_ + "/bad.rules", "component\n");
  const testing::Outcome bad = Run({"at", "peak", "--rules", "bad.rules"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("line 1"));
  EXPECT_EQ(Run({"at", "peak", "--rules", "missing"}).exit_code, 2);
}

TEST_F(AttributionCommandTest, TreesByModuleStageAndCategory) {
  const auto roots = [&](const std::string& by) {
    std::map<std::string, uint64_t> bytes;
    const json nodes = Answer({"tree", "--by", by, "--json"})["nodes"];
    for (const json& node : nodes) {
      if (node["parent"] == nodes[0]["id"] && node.contains("label")) bytes[node["label"]] = node["bytes"];
    }
    return bytes;
  };
  EXPECT_EQ(roots("category"), (std::map<std::string, uint64_t>{
                                   {"activations", 8 * kMiB}, {"parameters", 4 * kMiB}, {"temporaries", 2 * kMiB}}));
  EXPECT_EQ(roots("stage"), (std::map<std::string, uint64_t>{
                                {"forward", 8 * kMiB}, {"model construction", 4 * kMiB}, {"backward", 2 * kMiB}}));
  EXPECT_EQ(roots("module"), (std::map<std::string, uint64_t>{{"Net", 10 * kMiB}, {"(no module)", 4 * kMiB}}));
  EXPECT_EQ(Run({"flame", "--by", "category", "-o", "page.html"}).exit_code, 0);
}

TEST(DivideByCategory, ExactWhereAllOfAStackIsThere) {
  Moment moment;
  AttributedUse use;
  use.stack_id = 5;
  use.category = Category::kActivation;
  use.bytes = 6;
  use.count = 2;
  moment.uses.push_back(use);
  use.category = Category::kTemporary;
  use.bytes = 4;
  use.count = 1;
  moment.uses.push_back(use);
  AggregatedStacks aggregated;
  AggregatedStack stack;
  stack.stack_id = 5;
  stack.weight = {10, 3};
  aggregated.stacks = {stack};
  DivideByCategory(moment, 0, &aggregated);
  ASSERT_EQ(aggregated.stacks.size(), 2u);
  EXPECT_EQ(aggregated.stacks[0].weight.bytes, 6u);
  EXPECT_EQ(CategoryGroupLabel(aggregated.stacks[0].group), "activations");
  stack.weight = {9, 2};  // a filter left some out
  aggregated.stacks = {stack};
  DivideByCategory(moment, 0, &aggregated);
  ASSERT_EQ(aggregated.stacks.size(), 1u);
  EXPECT_EQ(CategoryGroupLabel(aggregated.stacks[0].group), "several categories");
  stack.stack_id = 6;
  aggregated.stacks = {stack};
  DivideByCategory(moment, 0, &aggregated);
  EXPECT_EQ(CategoryGroupLabel(aggregated.stacks[0].group), "category unknown");
}

}  // namespace
}  // namespace gpumem
