// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/oom/summarizer.h"

#include <time.h>

#include <cstring>

#include "shim/base/clock.h"
#include "shim/oom/probe_process.h"
#include "shim/oom/standard_error.h"

namespace gpumemshim::oom {
namespace {

constexpr uint64_t kFirstNs = 60'000'000'000;  // the first one comes sooner than an interval
constexpr uint64_t kRestFactor = 50;
constexpr uint32_t kTimeoutMs = 600'000;

// One of a process; only ConfigureSummaries and ForgetSummariesInChild run elsewhere than on the writer thread, and
// never beside it.
struct Summarizer {
  Analyzer analyzer;
  ProbeProcess child;
  StandardError standard_error;
  char path[4096] = "";
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
  if (!s.analyzer.PrepareSummary(s.path)) return false;
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

uint64_t Larger(uint64_t a, uint64_t b) { return a < b ? b : a; }
uint64_t Smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

void PassedLast(const char* path) {
  WaitUntil(0);  // it knows less than the one that comes now
  const uint64_t now_ns = MonotonicNs();
  if (path[0] != '\0' && Start(path, kSummaryWaitAtEndMs, now_ns))
    WaitUntil(now_ns + uint64_t{kSummaryWaitAtEndMs} * 1'000'000);
}

}  // namespace

void ConfigureSummaries(const SummaryOptions& options, SettingLookup setting) {
  Summarizer& s = g_summarizer;
  s.interval_ns = uint64_t{options.interval_ms} * 1'000'000;
  s.next_ns = 0;
  s.running = false;
  s.analyzer.Find(setting);
  if (!options.complains) s.analyzer.StaySilent();
  s.standard_error.Remember();
}

void SummaryPassed(const char* path, bool last) {
  if (last) return PassedLast(path);
  Summarizer& s = g_summarizer;
  const uint64_t now_ns = MonotonicNs();
  if (s.running) {
    if (s.child.Running()) return;
    s.running = false;
    s.next_ns = s.started_ns + Larger(s.interval_ns, (now_ns - s.started_ns) * kRestFactor);
  }
  if (path[0] == '\0') return;
  if (s.next_ns == 0) s.next_ns = now_ns + Smaller(s.interval_ns, kFirstNs);
  if (now_ns < s.next_ns) return;
  s.next_ns = now_ns + s.interval_ns;  // also where it cannot be started
  s.running = Start(path, kTimeoutMs, now_ns);
}

void ForgetSummariesInChild() {
  g_summarizer.child.Forget();
  g_summarizer.running = false;
}

}  // namespace gpumemshim::oom
