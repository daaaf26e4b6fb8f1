// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Runs the real gpumem: its arguments, its folder and environment in, its two streams and exit code out.

#ifndef GPUMEM_TESTS_ANALYZER_COMMANDS_PROGRAM_H_
#define GPUMEM_TESTS_ANALYZER_COMMANDS_PROGRAM_H_

#include <map>
#include <string>
#include <vector>

namespace gpumem::testing {

struct Outcome {
  int exit_code = -1;  // 128 + signal where it died of one
  std::string out, err;
};

// The environment is PATH, LANG=C.UTF-8 and what is given. Relative paths in `arguments` are seen from `folder`.
Outcome RunGpumem(const std::vector<std::string>& arguments, const std::string& folder = "/",
                  const std::map<std::string, std::string>& environment = {});

// A new folder in the test's temporary one.
std::string MakeFolder();

void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_COMMANDS_PROGRAM_H_
