// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The rings that `gpumem doctor` finds (doctor_checks.h): what killed processes left, and what running ones use.

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"
#include "commands/doctor_checks.h"
#include "commands/trace_options.h"
#include "trace/process_state.h"
#include "trace/ring_file.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostShown = 8;
constexpr char kCheck[] = "ring left";

std::string AgeOf(const struct stat& file) {
  const time_t seconds = std::max<time_t>(0, time(nullptr) - file.st_mtime);
  return absl::StrCat(FormatTime(static_cast<uint64_t>(seconds) * 1'000'000'000), " old");
}

// The path comes last: a terminal may cut it, and the next step names it again.
Finding Describe(const std::string& path, const struct stat& file) {
  const absl::StatusOr<RingFile> ring = RingFile::Open(path);
  const std::string size = FormatBytes(static_cast<uint64_t>(file.st_size)), name = EscapeControls(path);
  if (!ring.ok()) {
    return {kCheck, Health::kWarning, absl::StrCat("not readable, ", size, ", ", AgeOf(file), ": ", name),
            absl::StrCat("remove it: rm ", ShellQuoted(path))};
  }
  const ring_layout::RingHeader& header = ring->header();
  const std::string program(header.program, strnlen(header.program, sizeof(header.program)));
  const std::string process =
      absl::StrCat(program.empty() ? "process" : EscapeControls(program), " (pid ", header.pid, ")");
  ProcessState state = StateOfRing(path, header.pid, header.process_start_ticks);
  if (state == ProcessState::kUnknown) state = StateOfProcess(header.pid, header.process_start_ticks);
  if (state == ProcessState::kRunning)
    return {"ring in use", Health::kOk, absl::StrCat("by ", process, ", which runs, ", size, ": ", name), ""};
  return {kCheck, Health::kWarning, absl::StrCat("by ", process, ", gone, ", size, ", ", AgeOf(file), ": ", name),
          absl::StrCat("gpumem report shows it with the program's trace; without one: gpumem recover --delete ",
                       ShellQuoted(path))};
}

}  // namespace

std::vector<Finding> CheckRings(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, ignored)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "gpumem.") && absl::EndsWith(name, ".ring")) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Finding> findings;
  for (const std::string& path : paths) {
    struct stat file {};
    if (findings.size() == kMostShown || lstat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    findings.push_back(Describe(path, file));
  }
  if (paths.size() > kMostShown) {
    findings.push_back({kCheck, Health::kWarning,
                        absl::StrCat(paths.size() - kMostShown, " further rings in ", EscapeControls(folder)),
                        "those of processes that are gone for a day are removed by the next program that records"});
  }
  return findings;
}

}  // namespace gpumem
