// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the processes of a planned program leave in its folder is the program's: whatever the bytes, they are read
// without a crash, and what is read is within bounds.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "planner/launch/process_result.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kGood[] =
    R"json({"pid": 77, "reason": "stable", "steps": 4, "last_growth": 2, "peaks": [[1, 2]], "torch": "2.11.0", "rank": 1,
            "built_for": ["sm_80"], "pinned": {"n.item()": 8}, "event_queries": 3,
            "changes": [{"name": "look", "applied": 1, "of": 2, "why": "x", "bytes": 5, "batch": ["--batch", 8]}],
            "workspaces": {"cuDNN": {"set": 1, "nothing": 5, "largest_bound": 8}}, "context": {"known": "set", "bytes": 9}})json";
constexpr char kStacks[] =
    "Timeout (0:00:03)!\nThread 0x00007f2ad1c4b080 (most recent call first):\n"
    "  File \"/venv/lib/python3.11/site-packages/torch/_tensor.py\", line 1050 in __bool__\n"
    "  File \"train.py\", line 40 in <module>\n";

class ProcessResultProperty : public ::testing::Test {
 protected:
  ProcessResultProperty() : folder_(::testing::TempDir() + "plan_property_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~ProcessResultProperty() override { fs::remove_all(folder_); }

  uint64_t Below(uint64_t limit) { return random_() % limit; }

  // Bytes changed, left out, doubled; the end cut off.
  std::string Damaged(std::string text) {
    for (uint64_t changes = 1 + Below(4); changes > 0 && !text.empty(); --changes) {
      const size_t at = Below(text.size());
      switch (Below(4)) {
        case 0:
          text[at] = static_cast<char>(Below(256));
          break;
        case 1:
          text.erase(at, 1 + Below(8));
          break;
        case 2:
          text.insert(at, text.substr(Below(text.size()), Below(32)));
          break;
        default:
          if (Below(8) == 0) text.resize(at);
      }
    }
    return text;
  }

  // Any JSON, as deep as `depth`.
  json Anything(int depth) {
    static const json kLeaves[] = {nullptr, true, -1,  0,    7,   UINT64_MAX, INT64_MIN, 1e300,
                                   -0.0,    "",   "x", "\t", 1.5, 4294967295, {},        std::string(300, 'y')};
    if (depth == 0 || Below(2) == 0) return kLeaves[Below(std::size(kLeaves))];
    json value = Below(2) == 0 ? json::array() : json::object();
    for (uint64_t i = Below(4); i > 0; --i) {
      if (value.is_array()) value.push_back(Anything(depth - 1));
      if (value.is_object()) value[std::string(1, static_cast<char>('a' + Below(26)))] = Anything(depth - 1);
    }
    return value;
  }

  // The file's one result, or none.
  void Check(const std::string& text) {
    std::ofstream(folder_ + "/1.json", std::ios::binary | std::ios::trunc) << text;
    const std::vector<ProcessResult> results = ReadProcessResults(folder_);
    ASSERT_LE(results.size(), 1u);
    for (const ProcessResult& result : results) {
      read_ += 1;
      ASSERT_GE(result.pid, 0) << text;
      ASSERT_GE(result.rank, 0) << text;
      ASSERT_LE(static_cast<int>(result.reason), static_cast<int>(ProcessResult::Reason::kCapability));
      ASSERT_LE(result.torch.size(), text.size());
    }
  }

  std::string folder_;
  std::mt19937_64 random_{11};
  int read_ = 0;
};

TEST_F(ProcessResultProperty, DamagedFiles) {
  for (int round = 0; round < 3000 && !HasFatalFailure(); ++round) Check(Damaged(kGood));
  EXPECT_GT(read_, 100);  // a change of a digit or a letter does no harm
}

TEST_F(ProcessResultProperty, FieldsOfAnyType) {
  const json good = json::parse(kGood);
  for (int round = 0; round < 3000 && !HasFatalFailure(); ++round) {
    json changed = good;
    for (auto& [key, value] : changed.items()) {
      if (Below(6) == 0) value = Anything(3);
    }
    Check(changed.dump());
  }
  EXPECT_GT(read_, 100);
}

TEST_F(ProcessResultProperty, AnyBytes) {
  for (int round = 0; round < 1000 && !HasFatalFailure(); ++round) {
    std::string text(Below(200), '\0');
    for (char& c : text) c = static_cast<char>(Below(256));
    Check(text);
  }
}

TEST_F(ProcessResultProperty, DeepNesting) {
  for (const char* open : {"[", "{\"a\":", "{\"pinned\":[", "{\"built_for\":["}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += open;
    Check(text);
    Check("{\"built_for\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  }
}

TEST_F(ProcessResultProperty, DamagedStacks) {
  for (int round = 0; round < 5000; ++round) {
    const std::string text = Damaged(kStacks), place = StuckAt(text);
    ASSERT_LE(place.size(), text.size());
    ASSERT_EQ(place.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace gpumem::plan
