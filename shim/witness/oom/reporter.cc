// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/reporter.h"

#include <time.h>

#include "shim/base/clock.h"
#include "shim/witness/oom/analyzer.h"
#include "shim/witness/oom/probe_process.h"

namespace gpumemshim::oom {
namespace {

constexpr uint32_t kMaxReports = 3;
constexpr uint64_t kBetweenReportsNs = 10'000'000'000;
constexpr uint32_t kTimeoutMs = 30'000;
constexpr uint64_t kWaitAtEndNs = uint64_t{kWaitAtEndMs} * 1'000'000;

// One of a process; only Configure and ForgetInChild run elsewhere than on the writer thread, and never beside it.
struct Reporter {
  Analyzer analyzer;
  Trigger trigger;
  ProbeProcess child;
  StandardError standard_error;
  uint32_t reports = 0;
  uint64_t started_ns = 0;
};
Reporter g_reporter;

void StartReport(const char* path, uint32_t timeout_ms, uint64_t now_ns) {
  Reporter& r = g_reporter;
  r.trigger.Clear();
  r.reports++;
  r.started_ns = now_ns;
  if (!r.standard_error.Usable() || !r.analyzer.Prepare(path)) return;
  r.child.Start(r.analyzer.program(), r.analyzer.arguments(), r.analyzer.environment(), timeout_ms);
}

void WaitForChild(uint64_t until_ns) {
  while (g_reporter.child.Running()) {
    if (MonotonicNs() >= until_ns) {
      g_reporter.child.Kill();
      until_ns = UINT64_MAX;
    }
    const timespec pause{0, 5'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

void Configure(SettingLookup setting) {
  g_reporter.reports = 0;
  g_reporter.started_ns = 0;
  g_reporter.trigger.Clear();
  g_reporter.analyzer.Find(setting);
  g_reporter.standard_error.Remember();
}

void Saw(const Event& event, uint32_t tid) { g_reporter.trigger.Saw(event, tid); }

void Passed(const char* path, bool last) {
  Reporter& r = g_reporter;
  const uint64_t now_ns = MonotonicNs();
  if (last) WaitForChild(now_ns + kWaitAtEndNs);
  const bool running = r.child.Running();  // asked at each pass: so the kernel may forget one that has ended
  const bool wanted = r.trigger.Wanted(now_ns, last);
  if (!wanted || path[0] == '\0' || running) return;
  const bool too_early = r.started_ns != 0 && now_ns - r.started_ns < kBetweenReportsNs;
  if (r.reports >= kMaxReports || (!last && (too_early || r.reports + 1 >= kMaxReports))) return;
  StartReport(path, last ? kWaitAtEndMs : kTimeoutMs, now_ns);
  if (last) WaitForChild(now_ns + kWaitAtEndNs);
}

void ForgetInChild() { g_reporter.child.Forget(); }

namespace {

constexpr int32_t kOutOfMemory = 2;  // of CUresult and of cudaError_t

bool IsFailure(const Event& event) {
  return event.kind == EventKind::kAllocFailed && event.result == kOutOfMemory && event.memory != Memory::kVirtual;
}

bool TakesMemory(EventKind kind) { return kind == EventKind::kAlloc || kind == EventKind::kPhysicalCreate; }

}  // namespace

void Trigger::AddPending(const Event& event, uint32_t tid) {
  for (size_t i = 0; i < count_; i++) {
    if (pending_[i].tid != tid) continue;
    failed_ |= pending_[i].size != event.size;  // it went on to something else
    pending_[i] = {tid, event.size, event.time_ns};
    return;
  }
  if (count_ == kMaxPending) {
    failed_ = true;
    return;
  }
  pending_[count_++] = {tid, event.size, event.time_ns};
}

void Trigger::Saw(const Event& event, uint32_t tid) {
  const bool failure = IsFailure(event);
  if (failure && event.layer != Layer::kTorch) {
    AddPending(event, tid);
    return;
  }
  failed_ |= failure;
  if (count_ == 0) return;
  const bool torch = event.layer == Layer::kTorch;
  for (size_t i = 0; i < count_; i++) {
    if (pending_[i].tid != tid) continue;
    if (torch || (TakesMemory(event.kind) && event.size == pending_[i].size)) Remove(i);
    return;
  }
}

bool Trigger::Wanted(uint64_t now_ns, bool last) {
  for (size_t i = 0; i < count_;) {
    if (last || now_ns - pending_[i].time_ns >= kPatienceNs) {
      failed_ = true;
      Remove(i);
    } else {
      i++;
    }
  }
  return failed_;
}

void Trigger::Clear() {
  failed_ = false;
  count_ = 0;
}

}  // namespace gpumemshim::oom
