// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Runs the real gpumemshim: its arguments, its folder and environment in, its two streams and exit code out.

#ifndef GPUMEM_TESTS_ANALYZER_CLI_PROGRAM_H_
#define GPUMEM_TESTS_ANALYZER_CLI_PROGRAM_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpumem::testing {

struct Outcome {
  int exit_code = -1;  // 128 + signal where it died of one
  std::string out, err;
};

// Beyond which it is killed; 0 = no limit. Under a sanitizer there is none: its own needs are not the program's.
struct Limits {
  uint64_t cpu_seconds = 0;
  uint64_t memory_bytes = 0;
};

// The environment is PATH, LANG=C.UTF-8 and what is given. Relative paths in `arguments` are seen from `folder`.
Outcome RunGpumem(const std::vector<std::string>& arguments, const std::string& folder = "/",
                  const std::map<std::string, std::string>& environment = {}, const Limits& limits = {});

// A new folder in the test's temporary one.
std::string MakeFolder();

void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_CLI_PROGRAM_H_
