// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Request files read back, as lines of text: "alloc 0 size=4096 stream=1".

#ifndef GPUMEM_TESTS_PLANNER_ALLOCATOR_REQUESTS_H_
#define GPUMEM_TESTS_PLANNER_ALLOCATOR_REQUESTS_H_

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gpumem::testing {}

namespace gpumem::plan::testing {

using namespace gpumem::testing;  // NOLINT(google-build-using-namespace): one set of helpers, the sizes among them

inline std::vector<std::string> ReadRequests(const std::string& path) {
  static const char* const kNames[] = {"alloc",        "free",    "failed", "empty_cache", "outside",
                                       "outside_free", "release", "place",  "capture"};
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> lines;
  for (size_t at = 0; at + 24 <= bytes.size(); at += 24) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
    uint16_t stream = 0;
    uint32_t pool = 0;
    uint64_t block = 0, size = 0;
    memcpy(&stream, &bytes[at + 2], 2);
    memcpy(&pool, &bytes[at + 4], 4);
    memcpy(&block, &bytes[at + 8], 8);
    memcpy(&size, &bytes[at + 16], 8);
    std::string line = absl::StrCat(byte(0) < 9 ? kNames[byte(0)] : "unknown", " ", block);
    if (byte(1) != 0) absl::StrAppend(&line, " device=", byte(1));
    if (size != 0) absl::StrAppend(&line, " size=", size);
    if (stream != 0) absl::StrAppend(&line, " stream=", stream);
    if (pool != 0) absl::StrAppend(&line, " pool=", pool);
    lines.push_back(line);
  }
  if (bytes.size() % 24 != 0) lines.emplace_back("a part of a record");
  return lines;
}

}  // namespace gpumem::plan::testing

#endif  // GPUMEM_TESTS_PLANNER_ALLOCATOR_REQUESTS_H_
