// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pickle_builder.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;

std::string Page(absl::string_view pickle) {
  return absl::StrCat(
      "\n<!DOCTYPE html>\n<script type=\"module\">\nimport {add_local_files} from "
      "\"https://example.invalid/MemoryViz.js\"\n",
      "const local_files = [{\"name\": \"snapshot.pickle\", \"base64\": \"", absl::Base64Escape(pickle),
      "\"}]\nadd_local_files(local_files, 'Active Memory Timeline')\n");
}

absl::StatusOr<PickleTree> ReadPage(absl::string_view page) {
  ByteSource source = ByteSource::Of(page);
  ImportMemory memory;
  return ReadSnapshotPage(&source, {}, &memory, nullptr);
}

absl::StatusOr<PickleTree> ReadJson(absl::string_view json) {
  ByteSource source = ByteSource::Of(json);
  return ReadSnapshotJson(&source, {});
}

// PyTorch fills the pickle up with zeros to a multiple of three.
TEST(SnapshotFilesTest, ThePickleInsideAPage) {
  const std::string pickle = std::string("\x80\x02}U\x08segments]s.", 16) + std::string(2, '\0');
  const std::string page = Page(pickle);
  EXPECT_TRUE(IsSnapshotPage(page));
  const absl::StatusOr<PickleTree> tree = ReadPage(page);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_NE(tree->Find(tree->root(), "segments"), nullptr);
  EXPECT_FALSE(IsSnapshotPage("<html><body>no snapshot</body></html>"));
}

TEST(SnapshotFilesTest, APageThatIsDamaged) {
  const std::string page = Page("\x80\x02}.");
  EXPECT_THAT(ReadPage(absl::string_view(page).substr(0, page.find("gAJ") + 3)).status().message(),
              HasSubstr("cut short"));
  EXPECT_THAT(ReadPage("<script>add_local_files \"base64\": \"!!!!\"").status().message(), HasSubstr("no base64"));
  EXPECT_THAT(ReadPage(Page("\x80\x02"
                            "cos\nsystem\n."))
                  .status()
                  .message(),
              HasSubstr("would import os.system"));
  EXPECT_THAT(ReadPage(page + page).status().message(), HasSubstr("several snapshots"));
}

TEST(SnapshotFilesTest, JsonIsToldByItsKeysWhereverTheyStand) {
  EXPECT_TRUE(IsSnapshotJson(R"({"segments": [], "device_traces": []})"));
  EXPECT_TRUE(IsSnapshotJson(R"( {"note": {"segments": "}"}, "x": [1, {"a\\\"": 2}], "device_traces": [[]]})"));
  EXPECT_TRUE(IsSnapshotJson(R"([{"device": 0, "total_size": 1}])"));
  EXPECT_FALSE(IsSnapshotJson(R"({"traceEvents": [{"args": {"segments": 1}}], "schemaVersion": 1})"));
  EXPECT_FALSE(IsSnapshotJson(R"([{"ph": "X", "args": {"total_size": 1}}])"));
  EXPECT_FALSE(IsSnapshotJson(R"([[1, 2], [3]])"));
  EXPECT_FALSE(IsSnapshotJson("segments"));
  EXPECT_FALSE(IsSnapshotJson(R"("device_traces")"));
}

TEST(SnapshotFilesTest, JsonBecomesTheTreeThatThePickleIs) {
  const absl::StatusOr<PickleTree> tree = ReadJson(
      R"({"segments": [{"address": 139637976727552, "pool": [0, 1], "is_expandable": true, "x": null, "y": 0.5}]})");
  ASSERT_TRUE(tree.ok()) << tree.status();
  const PickleValue segment = tree->Items(*tree->Find(tree->root(), "segments"))[0];
  EXPECT_EQ(tree->Int(segment, "address"), 139637976727552);
  EXPECT_EQ(tree->Items(*tree->Find(segment, "pool")).size(), 2u);
  EXPECT_EQ(tree->Find(segment, "x")->type(), PickleValue::Type::kNone);
  EXPECT_EQ(tree->Number(*tree->Find(segment, "y")), 0.5);
  EXPECT_THAT(ReadJson(R"({"segments": [)").status().message(), HasSubstr("cut short"));
  EXPECT_THAT(ReadJson(std::string(20000, '[')).status().message(), HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace gpumem
