// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/summarizer.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "shim/base/clock.h"
#include "shim/witness/oom/analyzer.h"
#include "shim/witness/oom/probe_process.h"

namespace gpumemshim::oom {
namespace {

constexpr uint64_t kFirstNs = 60'000'000'000;  // the first one comes sooner than an interval
constexpr uint64_t kRestFactor = 50;
constexpr uint32_t kTimeoutMs = 600'000;
constexpr uint64_t kSlack = 2;  // files

// One of a process; only ConfigureSummaries and ForgetSummariesInChild run elsewhere than on the writer thread, and
// never beside it.
struct Summarizer {
  Analyzer analyzer;
  ProbeProcess child;
  StandardError standard_error;
  char path[4096] = "";
  char seen_path[4096] = "";
  bool is_urgent = false;  // the file that the last summary ended in is about to be removed
  const char* target = "";
  bool at_end = false;
  uint64_t interval_ns = 0;
  uint64_t started_ns = 0;
  uint64_t next_ns = 0;  // 0 = no trace seen yet
  bool running = false;
};
Summarizer g_summarizer;

bool Start(const char* path, uint32_t timeout_ms, uint64_t now_ns) {
  Summarizer& s = g_summarizer;
  const size_t size = std::strlen(path) + 1;
  if (size > sizeof s.path || !s.standard_error.Usable()) return false;
  std::memcpy(s.path, path, size);
  if (!s.analyzer.PrepareSummary(s.path, s.target)) return false;
  s.is_urgent = false;
  s.started_ns = now_ns;
  return s.child.Start(s.analyzer.program(), s.analyzer.arguments(), s.analyzer.environment(), timeout_ms);
}

void WaitUntil(uint64_t until_ns) {
  while (g_summarizer.child.Running()) {
    if (MonotonicNs() >= until_ns) {
      g_summarizer.child.Kill();
      until_ns = UINT64_MAX;
    }
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

// Of a series the file that is written to. False: it is the one that it was, or the first.
bool IsNextFile(const char* path) {
  Summarizer& s = g_summarizer;
  const size_t size = std::strlen(path) + 1;
  if (size > sizeof s.seen_path || std::strcmp(path, s.seen_path) == 0) return false;
  const bool is_first = s.seen_path[0] == '\0';
  std::memcpy(s.seen_path, path, size);
  return !is_first;
}

// Whether a file of the series is still there that is kSlack before this one: the oldest goes first. Of the first files
// there never is; then a summary too many is made.
bool HasFilesBefore(const char* path) {
  const char* const part = std::strstr(path, ".part");  // writer/series.h
  const uint64_t number = part == nullptr ? 1 : std::strtoull(part + 5, nullptr, 10);
  if (number <= kSlack + 1) return false;
  char before[sizeof g_summarizer.path];
  const int size = snprintf(before, sizeof before, "%.*s.part%llu.gmtrace", static_cast<int>(part - path), path,
                            static_cast<unsigned long long>(number - kSlack));
  return size > 0 && static_cast<size_t>(size) < sizeof before && access(before, F_OK) == 0;
}

uint64_t Larger(uint64_t a, uint64_t b) { return a < b ? b : a; }
uint64_t Smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

void PassedLast(const char* path) {
  // One that still runs knows less than the one that comes now, or than the trace. Without a trace it may be what that
  // one goes on from.
  WaitUntil(g_summarizer.target[0] == '\0' ? 0 : MonotonicNs() + uint64_t{kSummaryWaitAtEndMs} * 500'000);
  const uint64_t now_ns = MonotonicNs();
  if (g_summarizer.at_end && path[0] != '\0' && Start(path, kSummaryWaitAtEndMs / 2, now_ns))
    WaitUntil(now_ns + uint64_t{kSummaryWaitAtEndMs} * 500'000);
}

}  // namespace

void ConfigureSummaries(const SummaryOptions& options, SettingLookup setting) {
  Summarizer& s = g_summarizer;
  s.interval_ns = uint64_t{options.interval_ms} * 1'000'000;
  s.next_ns = 0;
  s.is_urgent = false;
  s.seen_path[0] = s.path[0] = '\0';
  s.target = options.target;
  s.at_end = options.at_end;
  s.running = false;
  s.analyzer.Find(setting);
  if (!options.complains) s.analyzer.StaySilent();
  s.standard_error.Remember();
}

void SummaryPassed(const char* path, bool last) {
  if (last) return PassedLast(path);
  Summarizer& s = g_summarizer;
  const uint64_t now_ns = MonotonicNs();
  if (s.target[0] != '\0' && path[0] != '\0' && IsNextFile(path)) s.is_urgent = !HasFilesBefore(s.path);
  if (s.running) {
    if (s.child.Running()) return;
    s.running = false;
    s.next_ns = s.started_ns + Larger(s.interval_ns, (now_ns - s.started_ns) * kRestFactor);
  }
  if (path[0] == '\0') return;
  if (s.next_ns == 0) s.next_ns = now_ns + Smaller(s.interval_ns, kFirstNs);
  if (now_ns < s.next_ns && !s.is_urgent) return;
  s.next_ns = now_ns + s.interval_ns;  // also where it cannot be started
  s.running = Start(path, kTimeoutMs, now_ns);
}

void ForgetSummariesInChild() {
  g_summarizer.child.Forget();
  g_summarizer.running = false;
}

namespace {

// One of a process; only ConfigureForecast and ForgetForecastInChild run elsewhere than on the writer thread, and never
// beside it.
struct Forecaster {
  Analyzer analyzer;
  ProbeProcess child;
  StandardError standard_error;
  char path[4096] = "";
  bool started = false;  // once a recording: one that ended early is not started again
};
Forecaster g_forecaster;

}  // namespace

void ConfigureForecast(SettingLookup setting) {
  g_forecaster.started = false;
  g_forecaster.analyzer.Find(setting);
  g_forecaster.standard_error.Remember();
}

void ForecastPassed(const char* path, bool last) {
  Forecaster& f = g_forecaster;
  if (f.started) {
    f.child.Running();  // asked at each pass: so the kernel may forget one that has ended
    return;
  }
  const size_t size = std::strlen(path) + 1;
  if (last || size == 1 || size > sizeof f.path) return;
  f.started = true;
  std::memcpy(f.path, path, size);
  if (!f.standard_error.Usable() || !f.analyzer.PrepareForecast(f.path)) return;
  f.child.StartBeside(f.analyzer.program(), f.analyzer.arguments(), f.analyzer.environment());
}

void ForgetForecastInChild() { g_forecaster.child.Forget(); }

}  // namespace gpumemshim::oom
