// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What is of no kind that can be imported, and what to do instead.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "imported.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;

TEST(ImportTest, OtherFilesAreNamed) {
  EXPECT_THAT(std::string(Import("hello").status().message()), HasSubstr("nothing that can be imported"));
  EXPECT_THAT(std::string(Import("PK\x03\x04 a checkpoint").status().message()), HasSubstr("zip archive"));
  EXPECT_THAT(std::string(Import("\x89PNG").status().message()), HasSubstr("is a picture"));
  const std::string page = "<html><head><title>GPU Memory Timeline HTML</title></head>";
  EXPECT_THAT(std::string(Import(page).status().message()), HasSubstr("export_memory_timeline(\"timeline.json\")"));
  const auto said = [](const std::string& bytes) { return std::string(Import(bytes).status().message()); };
  EXPECT_THAT(said("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 5\n"), HasSubstr("git lfs pull"));
  for (const char* const answer :
       {"<!DOCTYPE html>\n<html>", "\n<html lang=en>", "<?xml version='1'?><Error/>", "404: Not Found"})
    EXPECT_THAT(said(answer), HasSubstr("Download the file itself")) << answer;
  EXPECT_THAT(said(std::string(257, 'x') + "ustar" + std::string(250, '\0')), HasSubstr("is a tar archive"));
  EXPECT_THAT(said(Gzip(Gzip("{}"))), HasSubstr("gzipped twice"));
  EXPECT_THAT(said("BZh91AY"), HasSubstr("compressed by bzip2, xz or zstd"));
  EXPECT_THAT(said("\xff\xfe{"), HasSubstr("UTF-16"));
  EXPECT_THAT(said("timestamp, name, memory.used [MiB]\n"), HasSubstr("is what nvidia-smi says"));
  EXPECT_THAT(said("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
              HasSubstr("then gpumemshim oom"));
  EXPECT_THAT(said(R"({"active.all.current": 1, "allocated_bytes.all.current": 5})"),
              HasSubstr("totals of one moment"));
  const File empty("");
  EXPECT_FALSE(IsOfOthers(empty.path()));
}

}  // namespace
}  // namespace gpumem
