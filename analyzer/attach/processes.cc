// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/processes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "attach/process_map.h"
#include "base/process.h"

namespace gpumem {
namespace {

std::vector<int> AllProcesses() {
  std::vector<int> pids;
  std::error_code error;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator("/proc", error)) {
    int pid = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &pid)) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

bool IsOurs(int pid) {
  struct stat status {};
  return stat(absl::StrCat("/proc/", pid).c_str(), &status) == 0 && (geteuid() == 0 || status.st_uid == geteuid());
}

}  // namespace

std::vector<int> ProcessesNamed(const std::string& text) {
  std::vector<int> own;
  for (int pid = getpid(); pid > 1 && own.size() < 64; pid = ParentOf(pid)) own.push_back(pid);
  std::vector<int> named;
  for (const int pid : AllProcesses()) {
    if (std::find(own.begin(), own.end(), pid) != own.end() || !IsOurs(pid)) continue;
    std::ifstream file(absl::StrCat("/proc/", pid, "/cmdline"), std::ios::binary);
    std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (absl::StrContains(line, text)) named.push_back(pid);
  }
  return named;
}

std::vector<int> CudaProcessesBelow(int pid) {
  std::vector<int> below;
  for (const int each : AllProcesses()) {
    if (!IsAtOrBelow(each, pid)) continue;
    const absl::StatusOr<ProcessMap> map = ReadProcessMap(each);
    if (map.ok() && map->Find("libcuda.so") != nullptr) below.push_back(each);
  }
  // A launcher imports PyTorch and computes nothing.
  if (below.size() > 1) below.erase(std::remove(below.begin(), below.end(), pid), below.end());
  return below;
}

}  // namespace gpumem
