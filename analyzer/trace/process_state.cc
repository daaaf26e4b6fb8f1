// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/process_state.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpumem {
namespace {

constexpr size_t kStateField = 0, kStartField = 19;  // of those behind the program's name: 3 and 22 of proc(5)

// A zombie leader whose other threads go on has not ended.
bool HasOtherThreads(uint32_t pid) {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(absl::StrCat("/proc/", pid, "/task").c_str()), &closedir);
  if (tasks == nullptr) return false;
  int count = 0;
  while (const dirent* entry = readdir(tasks.get())) count += entry->d_name[0] != '.' ? 1 : 0;
  return count > 1;
}

}  // namespace

ProcessState StateOfProcess(uint32_t pid, uint64_t start_ticks) {
  if (pid == 0 || start_ticks == 0 || access("/proc/self/stat", R_OK) != 0) return ProcessState::kUnknown;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(absl::StrCat("/proc/", pid, "/stat").c_str(), "re"), &fclose);
  if (file == nullptr) return ProcessState::kEnded;
  char text[1024];
  const size_t size = fread(text, 1, sizeof(text), file.get());
  if (size == 0) return ProcessState::kEnded;  // it went while we looked
  const absl::string_view stat(text, size);
  const size_t name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == absl::string_view::npos) return ProcessState::kUnknown;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(stat.substr(name_end + 1), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  uint64_t ticks = 0;
  if (fields.size() <= kStartField || !absl::SimpleAtoi(fields[kStartField], &ticks)) return ProcessState::kUnknown;
  if (ticks != start_ticks) return ProcessState::kEnded;  // another process has the number now
  const bool dead = fields[kStateField] == "Z" || fields[kStateField] == "X";
  return dead && !HasOtherThreads(pid) ? ProcessState::kEnded : ProcessState::kRunning;
}

ProcessState StateOf(const trace::Header& header) {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0 || header.hostname() != name) return ProcessState::kUnknown;
  return StateOfProcess(header.pid(), header.process_start_ticks());
}

}  // namespace gpumem
