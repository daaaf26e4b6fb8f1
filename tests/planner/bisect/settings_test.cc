// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/bisect/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Words = std::vector<std::string>;

class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() : folder_(::testing::TempDir() + "bisect_settings") { std::filesystem::create_directories(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::unique_ptr<Settings> Open(const std::string& good, const std::string& bad, const Words& command) const {
    auto settings = OpenConfigFiles(good, bad, command, folder_ + "/mixed");
    EXPECT_TRUE(settings.ok()) << settings.status();
    return settings.ok() ? *std::move(settings) : nullptr;
  }

  std::string folder_;
};

TEST_F(SettingsTest, FlatYamlStaysFlat) {
  const std::string good = Write("good.yaml", "name: cells  # a comment\nlr: 0.1\nnesterov: false\nbatch: 16\n");
  const std::string bad = Write("bad.yaml", "name: cells2\nlr: 0.05\nnesterov: true\nbatch: 16\nextra: 1e-4\n");
  const auto settings = Open(good, bad, {"python", "train.py", good});
  ASSERT_NE(settings, nullptr);
  ASSERT_THAT(settings->changes(), SizeIs(4));
  EXPECT_EQ(settings->changes()[1].name, "lr");
  EXPECT_EQ(settings->changes()[1].good, "0.1");
  EXPECT_EQ(settings->changes()[3].good, std::nullopt);
  EXPECT_THAT(*settings->CommandOf({false, false, false, false}), ElementsAre("python", "train.py", good));
  EXPECT_THAT(*settings->CommandOf({true, true, true, true}), ElementsAre("python", "train.py", bad));
  const Words mixed = *settings->CommandOf({false, true, false, true});
  EXPECT_EQ(Read(mixed[2]), "name: cells\nlr: 0.05\nnesterov: false\nbatch: 16\nextra: 1e-4\n");
}

TEST_F(SettingsTest, NestedYaml) {
  const std::string good = Write("a.yaml", "model:\n  width: 4\n  act: 'no'\nlayers: [1, 2]\n");
  const std::string bad = Write("b.yaml", "model:\n  width: 8\n  act: 'no'\nlayers: [1, 2, 3]\nopt: {lr: 1}\n");
  const auto settings = Open(good, bad, {"python", "t.py", "--config=" + good});
  ASSERT_NE(settings, nullptr);
  ASSERT_THAT(settings->changes(), SizeIs(3));
  EXPECT_EQ(settings->changes()[0].name, "model.width");
  EXPECT_EQ(settings->changes()[1].bad, "[1, 2, 3]");
  const Words mixed = *settings->CommandOf({true, false, true});
  EXPECT_EQ(Read(mixed[2].substr(9)), "model:\n  width: 8\n  act: \"no\"\nlayers: [1, 2]\nopt:\n  lr: 1\n");
}

TEST_F(SettingsTest, Json) {
  const std::string good = Write("a.json", R"({"width": 4, "opt": {"lr": 0.1, "name": "adam"}, "old": null})");
  const std::string bad = Write("b.json", R"({"width": 8, "opt": {"lr": 0.1, "name": "sgd"}})");
  const auto settings = Open(good, bad, {"python", "t.py", "{}"});
  ASSERT_NE(settings, nullptr);
  ASSERT_THAT(settings->changes(), SizeIs(3));
  const Words mixed = *settings->CommandOf({false, true, true});
  EXPECT_EQ(Read(mixed[2]), "{\n  \"width\": 4,\n  \"opt\": {\n    \"lr\": 0.1,\n    \"name\": \"sgd\"\n  }\n}\n");
}

TEST_F(SettingsTest, Mistakes) {
  const std::string good = Write("g.yaml", "a: 1\n"), bad = Write("broken.yaml", "a: [1\n"),
                    words = Write("w.json", "{");
  EXPECT_THAT(OpenConfigFiles(good, bad, {"python", good}, folder_).status().message(), HasSubstr("line "));
  EXPECT_THAT(OpenConfigFiles(good, words, {"python", good}, folder_).status().message(), HasSubstr("not JSON"));
  EXPECT_THAT(OpenConfigFiles(good, Write("h.yaml", "a: 2\n"), {"python", "t.py"}, folder_).status().message(),
              HasSubstr("names neither"));
}

// Files that somebody made to hurt: an error, and neither a crash nor minutes of work.
TEST_F(SettingsTest, HostileFiles) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    laughs += name + ": &" + name + " [" + last;
    for (int j = 0; j < 8; ++j) laughs += ", " + last;
    laughs += "]\n";
  }
  const std::string plain = Write("plain.yaml", "a: 1\n");
  const auto error = [&](const std::string& bad) {
    return std::string(OpenConfigFiles(plain, bad, {"python", plain}, folder_).status().message());
  };
  EXPECT_THAT(error(Write("laughs.yaml", laughs)), HasSubstr("too many values"));
  EXPECT_THAT(error(Write("deep.json", std::string(500'000, '['))), HasSubstr("nested too deeply"));
  EXPECT_THAT(error(Write("deep.yaml", std::string(100'000, '['))), HasSubstr("cannot read"));
  EXPECT_THAT(error(Write("cycle.yaml", "a: &a\n  b: *a\n")), HasSubstr("cannot read"));
  EXPECT_THAT(error(Write("large.yaml", std::string(2 << 20, 'x'))), HasSubstr("large.yaml"));
  const std::string odd = Write("odd.yaml", "a: \"\xff\"\nb: 2\n");
  const auto settings = OpenConfigFiles(plain, odd, {"python", plain}, folder_ + "/mixed");
  EXPECT_TRUE(!settings.ok() || (*settings)->CommandOf({true, false}).ok());
}

TEST(CommandLinesTest, OptionsByNameOthersByPlace) {
  const auto settings = OpenCommandLines({"python", "t.py", "--lr", "-1", "--fast", "model.width=4", "data"},
                                         {"python", "t.py", "--lr=2", "model.width=8", "data", "--batch", "8", "9"});
  ASSERT_TRUE(settings.ok());
  const auto& changes = (*settings)->changes();
  ASSERT_THAT(changes, SizeIs(4));
  EXPECT_EQ(changes[0].name, "--lr");
  EXPECT_EQ(changes[0].good, "--lr -1");
  EXPECT_EQ(changes[1].name, "--fast");
  EXPECT_EQ(changes[1].bad, std::nullopt);
  EXPECT_EQ(changes[3].bad, "--batch 8 9");
  EXPECT_THAT(*(*settings)->CommandOf({true, true, false, true}),
              ElementsAre("python", "t.py", "--lr=2", "model.width=4", "data", "--batch", "8", "9"));
}

}  // namespace
}  // namespace gpumem::plan
