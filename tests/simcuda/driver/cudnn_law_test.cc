// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The law of cuDNN's sizes, held against what was measured.
#include "simcuda/base/cudnn_law.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "simcuda/base/workspace_table.h"

namespace simcuda {
namespace {

constexpr char kShapes[] = GPUMEM_SIMCUDA "/stubs/cudnn_convolutions.tsv";

const FindRow kNone = [](const std::string&, const std::string&) { return std::nullopt; };

// How often a size is met: to the byte, within 1 % and 512 bytes, inside the ends.
struct Score {
  double count = 0, exact = 0, near = 0, inside = 0, width = 0;
  void Add(const LawSize& said, uint64_t real) {
    const uint64_t off = std::max(said.likely, real) - std::min(said.likely, real);
    count += 1;
    exact += off == 0 ? 1 : 0;
    near += off <= real / 100 + 512 ? 1 : 0;
    width += static_cast<double>(said.high - said.low);
    inside += said.low <= real + 512 && real <= said.high + 512 ? 1 : 0;
  }
};

struct Measured {
  std::string operation, parameters;
  uint64_t bytes;
};

std::vector<Measured> MeasuredRows() {
  std::vector<Measured> rows;
  std::vector<std::string> columns;
  std::ifstream file(kShapes);
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::string shape, cell;
    std::getline(cells, shape, '\t');
    if (shape == "shape") {
      while (std::getline(cells, cell, '\t')) columns.push_back(cell);
    }
    if (shape.rfind("x=", 0) != 0) continue;
    for (size_t i = 0; std::getline(cells, cell, '\t'); ++i) {
      if (cell == "-") continue;
      std::istringstream words(columns.at(i));
      std::string operation, type, layout;
      words >> operation >> type >> layout;
      rows.push_back({"convolution_" + operation, type + ' ' + shape + ' ' + layout, std::stoull(cell)});
    }
  }
  return rows;
}

Score ScoreOf(const std::vector<Measured>& rows, const FindRow& find) {
  Score score;
  for (const Measured& row : rows) {
    const LawSize said = LawOf(row.operation, row.parameters, find);
    EXPECT_TRUE(said.is_known) << row.parameters;
    EXPECT_LE(said.low, said.likely);
    EXPECT_LE(said.likely, said.high);
    score.Add(said, row.bytes);
  }
  return score;
}

// As docs/workspaces.md says of the rules alone.
TEST(CudnnLawTest, RulesAloneGiveHalfOfTheSizesToTheByte) {
  const Score score = ScoreOf(MeasuredRows(), kNone);
  EXPECT_EQ(score.count, 17204);
  EXPECT_GE(score.exact / score.count, 0.52);
  EXPECT_GE(score.near / score.count, 0.74);
  EXPECT_GE(score.inside / score.count, 0.99);
  EXPECT_LE(score.width / score.count, 42 << 20);  // bytes; the mean size is 28 MiB
}

// Between its ends, mostly what is likely, and always the same for the same number.
TEST(CudnnLawTest, ADrawIsOneOfThree) {
  const LawSize law = {true, 2, 1, 3};
  std::map<uint64_t, int> counts;
  for (int i = 0; i < 1000; ++i) {
    const std::string parameters = "x=" + std::to_string(i);
    const uint64_t drawn = DrawnSize(law, "convolution_forward", parameters, 1);
    EXPECT_EQ(drawn, DrawnSize(law, "convolution_forward", parameters, 1));
    ++counts[drawn];
  }
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_NEAR(counts[2], 700, 60);
  EXPECT_NEAR(counts[1], 150, 50);
}

// Rows of a shape itself are not looked at: only those of its other layout, its other type and other batches.
TEST(CudnnLawTest, ARowOfTheOtherLayoutOrTypeGivesFourOfFive) {
  std::unordered_map<std::string, uint64_t> all;
  const std::vector<Measured> rows = MeasuredRows();
  for (const Measured& row : rows) all[row.operation + row.parameters] = row.bytes;
  Score score;
  for (const Measured& row : rows) {
    score.Add(LawOf(row.operation, row.parameters,
                    [&](const std::string& operation, const std::string& parameters) -> std::optional<uint64_t> {
                      const auto found = all.find(operation + parameters);
                      if (found == all.end() || parameters == row.parameters) return std::nullopt;
                      return found->second;
                    }),
              row.bytes);
  }
  EXPECT_GE(score.exact / score.count, 0.79);
  EXPECT_GE(score.near / score.count, 0.85);
  EXPECT_GE(score.inside / score.count, 0.95);
}

TEST(CudnnLawTest, RecurrentNetsFollowAPolynomial) {
  const struct {
    const char* parameters;
    uint64_t bytes;
  } kNets[] = {
      {"gru f16 input=1024 hidden=1024 projection=1024 layers=1 directions=1 steps=1000 batch=8 bias=2 inference",
       66404672},
      {"gru f32 input=1024 hidden=1024 projection=1024 layers=2 directions=2 steps=1000 batch=8 bias=2 training",
       619053376},
      {"lstm f16 input=1024 hidden=1024 projection=1024 layers=2 directions=2 steps=400 batch=16 bias=2 inference",
       315621760},
      {"lstm f32 input=1024 hidden=1024 projection=1024 layers=4 directions=2 steps=1000 batch=8 bias=2 training",
       930873664},
      {"tanh f16 input=128 hidden=256 projection=256 layers=1 directions=1 steps=128 batch=64 bias=2 training",
       67502848},
      {"tanh f32 input=1024 hidden=1024 projection=1024 layers=2 directions=2 steps=512 batch=64 bias=2 training",
       1961886464},
  };
  for (const auto& [parameters, bytes] : kNets) EXPECT_EQ(LawOf("rnn_workspace", parameters, kNone).likely, bytes);
}

// An LSTM(512, 1024, 3 layers, both ways, dropout) of packed sequences, on an H100: 26,671 tokens of 400 steps.
TEST(CudnnLawTest, PackedSequencesCountTheirTokens) {
  constexpr char kNet[] =
      "lstm f32 input=512 hidden=1024 projection=1024 layers=3 directions=2 steps=400 batch=128 tokens=26671 dropout=1 "
      "bias=2 training";
  EXPECT_EQ(LawOf("rnn_reserve", kNet, kNone).likely, 3766739200u);
  EXPECT_EQ(LawOf("rnn_workspace", kNet, kNone).likely, 1638088960u);
}

TEST(CudnnLawTest, AReserveKeepsWhatTheGatesLet) {
  const LawSize one = LawOf(
      "rnn_reserve",
      "gru f16 input=1024 hidden=1024 projection=1024 layers=1 directions=1 steps=1000 batch=8 bias=2 training", kNone);
  EXPECT_EQ(one.likely, 98304256u);
  EXPECT_EQ(one.high, one.likely);  // dropout lies between layers
  const LawSize two = LawOf(
      "rnn_reserve",
      "lstm f16 input=512 hidden=512 projection=512 layers=2 directions=1 steps=400 batch=16 bias=2 training", kNone);
  EXPECT_EQ(two.likely, 72089856u);
  EXPECT_EQ(
      LawOf("rnn_reserve", "lstm f16 input=1 hidden=1 layers=1 directions=1 steps=1 batch=1 inference", kNone).high,
      0u);
}

// Layers of a ResNet-50 on an H100, and all others that were seen.
TEST(CudnnLawTest, BatchNormalisationAsksForLittle) {
  const struct {
    const char* parameters;
    uint64_t bytes;
  } kLayers[] = {{"f32 x=160,2048,7,7 nhwc mode=2 fused=0", 1344672},
                 {"f32 x=160,512,28,28 nhwc mode=2 fused=0", 5354560},
                 {"f32 x=160,64,112,112 nhwc mode=2 fused=0", 10705444},
                 {"f32 x=128,72,112,112 nchw mode=1 fused=0", 0}};
  for (const auto& [parameters, bytes] : kLayers) {
    const LawSize said = LawOf("batch_norm_backward", parameters, kNone);
    EXPECT_LE(said.low, bytes) << parameters;
    EXPECT_GE(said.high, bytes) << parameters;
    EXPECT_EQ(LawOf("batch_norm_forward", parameters, kNone).high, 0u);
    EXPECT_EQ(LawOf("batch_norm_reserve", parameters, kNone).high, 0u);
  }
  EXPECT_FALSE(LawOf("batch_norm_forward", "f32", kNone).is_known);
}

TEST(CudnnLawTest, AttentionsForwardPassAsksForNextToNothing) {
  EXPECT_EQ(LawOf("graph", "41 f32 1,1,1,1 f16 4,10,4096,64 f16 4,10,4096,64", kNone).high, 512u);
  EXPECT_FALSE(LawOf("graph", "42 f32 1,1,1,1", kNone).is_known);
}

TEST(CudnnLawTest, WhatIsNotAsTheStubsWriteItHasNoSize) {
  for (const char* parameters :
       {"", "f32", "f32 x=1,2,3,4 nchw", "f64 x=1,8,9,9 w=8,8,3,3 padding=1,1 stride=1,1 dilation=1,1 nchw",
        "f32 x=1,8,9,9 w=8,8,3,3 padding=1,1 stride=0,1 dilation=1,1 nchw",
        "f32 x=1,8,9,9 w=8,0,3,3 padding=1,1 stride=1,1 dilation=1,1 nchw",
        "f32 x=1,8,9,9 w=8,8,3,3 padding=1,1 stride=1,1 dilation=1,1 strided"}) {
    EXPECT_FALSE(LawOf("convolution_forward", parameters, kNone).is_known) << parameters;
  }
  EXPECT_FALSE(LawOf("rnn_workspace", "lstm f32 input=0 hidden=1", kNone).is_known);
  EXPECT_FALSE(LawOf("plan", "f32", kNone).is_known);
}

TEST(CudnnLawTest, TheFileOfShapesIsATable) {
  WorkspaceTable table;
  std::ifstream file(kShapes);
  for (std::string line; std::getline(file, line);) EXPECT_TRUE(table.AddShape(line)) << line;
  EXPECT_EQ(table.shapes(), 1404u);
  const std::vector<Measured> rows = MeasuredRows();
  for (size_t i = 0; i < rows.size(); i += 997) {
    WorkspaceKey key = {"cuDNN", rows[i].operation, rows[i].parameters, "NVIDIA H100 80GB HBM3", "91900", 90};
    FoundSize found = table.Find(key);
    EXPECT_EQ(found.known, Known::kMeasured);
    EXPECT_EQ(found.bytes, rows[i].bytes);
    key.device = "NVIDIA H200";
    found = table.Find(key);
    EXPECT_EQ(found.known, Known::kSimilar);
    key.capability = 80;
    EXPECT_EQ(table.Find(key).known, Known::kNothing);
  }
  EXPECT_FALSE(table.AddShape("x=1,2,3,4 w=1,2,3,3\t5"));
  EXPECT_FALSE(table.AddShape("device\tNVIDIA H100"));
}

}  // namespace
}  // namespace simcuda
