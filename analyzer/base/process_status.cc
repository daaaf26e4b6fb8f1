// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/process_status.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gpumem {

std::string ProcessStatus(int pid, absl::string_view name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  const std::string begin = absl::StrCat(name, ":");
  std::string line;
  while (std::getline(file, line)) {
    if (!absl::StartsWith(line, begin)) continue;
    const size_t at = line.find_first_not_of(" \t", begin.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

bool HasEnded(int pid) {
  const std::string state = ProcessStatus(pid, "State");
  if (state.empty()) return true;
  if (!absl::StartsWith(state, "Z") && !absl::StartsWith(state, "X")) return false;
  int threads = 0;  // the main thread may end before the others
  return !absl::SimpleAtoi(ProcessStatus(pid, "Threads"), &threads) || threads <= 1;
}

int ParentOf(int pid) {
  int parent = 0;
  return absl::SimpleAtoi(ProcessStatus(pid, "PPid"), &parent) ? parent : 0;
}

bool IsAtOrBelow(int pid, int ancestor) {
  constexpr int kDeepest = 64;
  for (int depth = 0; pid > 1 && pid != ancestor && depth < kDeepest; ++depth) pid = ParentOf(pid);
  return pid == ancestor;
}

}  // namespace gpumem
