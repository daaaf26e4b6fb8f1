// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/hta.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <string>

namespace gpumem {
namespace {

// What a reader of gzip has of it; "" where the end is missing.
std::string Inflated(const std::string& file) {
  std::string out(size_t{8} << 20, '\0');
  z_stream zlib{};
  EXPECT_EQ(inflateInit2(&zlib, MAX_WBITS + 16), Z_OK);
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.data()));
  zlib.avail_in = static_cast<uInt>(file.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  const int end = inflate(&zlib, Z_FINISH);
  out.resize(zlib.total_out);
  inflateEnd(&zlib);
  return end == Z_STREAM_END && zlib.avail_in == 0 ? out : "";
}

std::string Compressed(const std::vector<std::string>& pieces) {
  std::string file;
  GzipText gzip([&](absl::string_view bytes) { file.append(bytes.data(), bytes.size()); });
  for (const std::string& piece : pieces) gzip.Write(piece);
  gzip.Finish();
  return file;
}

TEST(GzipTextTest, PiecesOfAnySizeAreOneFile) {
  std::string random;
  for (uint32_t i = 0, x = 1; i < 3'000'000; ++i)
    random.push_back(static_cast<char>((x = x * 1664525 + 1013904223) >> 24));
  EXPECT_EQ(Inflated(Compressed({"a", "", random, "z"})), "a" + random + "z");
}

TEST(GzipTextTest, NothingIsAFileToo) {
  const std::string file = Compressed({});
  EXPECT_EQ(Inflated(file), "");
  EXPECT_GT(file.size(), 17u);
}

TEST(GzipTextTest, WithoutItsEndAFileIsCut) {
  std::string file;
  {
    GzipText gzip([&](absl::string_view bytes) { file.append(bytes.data(), bytes.size()); });
    gzip.Write("abc");
  }
  EXPECT_EQ(Inflated(file), "");
}

}  // namespace
}  // namespace gpumem
