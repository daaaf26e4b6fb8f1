// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The rings that `gpumemshim doctor` finds (doctor_checks.h): what killed processes left, and what running ones use.

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"
#include "cli/record/doctor_checks.h"
#include "cli/trace_options.h"
#include "trace/process_state.h"
#include "trace/ring/ring_leftovers.h"

namespace gpumem {
namespace {

constexpr size_t kMaxShown = 8;
constexpr char kCheck[] = "ring left";

std::string AgeOf(const RingOnDisk& ring) {
  const time_t seconds = std::max<time_t>(0, time(nullptr) - ring.changed);
  return absl::StrCat(FormatTime(static_cast<uint64_t>(seconds) * 1'000'000'000), " old");
}

std::string ProcessOf(const RingOnDisk& ring) {
  return absl::StrCat(ring.program.empty() ? "process" : EscapeControls(ring.program), " (pid ", ring.pid, ")");
}

// The path comes last: a terminal may cut it, and the next step names it again.
Finding Describe(const RingOnDisk& ring) {
  const std::string size = FormatBytes(ring.memory_bytes), name = EscapeControls(ring.path);
  if (!ring.error.empty()) {
    return {kCheck, Health::kWarning, absl::StrCat("not readable, ", size, ", ", AgeOf(ring), ": ", name),
            absl::StrCat("remove it: rm ", ShellQuoted(ring.path))};
  }
  if (ring.state == ProcessState::kRunning)
    return {"ring in use", Health::kOk, absl::StrCat("by ", ProcessOf(ring), ", which runs, ", size, ": ", name), ""};
  return {kCheck, Health::kWarning,
          absl::StrCat("by ", ProcessOf(ring), ", gone, ", size, ", ", AgeOf(ring), ": ", name),
          "gpumemshim doctor --clean puts it beside its trace, where gpumemshim report finds it too"};
}

Finding Clean(const RingOnDisk& ring) {
  const std::string size = FormatBytes(ring.memory_bytes), name = EscapeControls(ring.path);
  const absl::StatusOr<std::string> where = ClearRing(ring);
  if (!where.ok()) {
    return {
        kCheck, Health::kWarning,
        absl::StrCat("by ", ProcessOf(ring), ", ", size, ", stays: ", EscapeControls(where.status().message()), ": ",
                     name),
        absl::StrCat("to make a trace of it and remove it: gpumemshim export trace --delete ", ShellQuoted(ring.path))};
  }
  const std::string kept =
      where->empty() ? "nothing was in it" : absl::StrCat("what it held is in ", EscapeControls(*where));
  return {"ring removed", Health::kOk, absl::StrCat("by ", ProcessOf(ring), ", ", size, ", ", kept), ""};
}

}  // namespace

std::vector<Finding> CheckRings(const std::string& folder, bool clean) {
  std::vector<Finding> findings;
  uint64_t left = 0, left_bytes = 0, hidden = 0;
  for (const RingOnDisk& ring : FindRings(folder)) {
    const bool is_left = ring.error.empty() && ring.state != ProcessState::kRunning;
    if (is_left && !clean) {
      ++left;
      left_bytes += ring.memory_bytes;
    }
    if (findings.size() < kMaxShown || (clean && is_left)) {
      findings.push_back(clean && is_left ? Clean(ring) : Describe(ring));
    } else {
      ++hidden;
    }
  }
  if (hidden > 0) {
    findings.push_back({"rings", Health::kOk, absl::StrCat(hidden, " further rings in ", EscapeControls(folder)), ""});
  }
  if (left > 1) {
    findings.push_back({"rings left", Health::kWarning,
                        absl::StrCat(FormatBytes(left_bytes), " of ", EscapeControls(folder), " by ", left,
                                     " processes that are gone"),
                        "gpumemshim doctor --clean; the next program that is recorded does the same"});
  }
  return findings;
}

}  // namespace gpumem
