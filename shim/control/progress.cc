// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/progress.h"

#include <atomic>

#include "shim/base/clock.h"
#include "shim/control/session_state.h"
#include "shim/control/stderr_lines.h"
#include "shim/ring/ring.h"
#include "shim/settings/text.h"

#ifndef GPUMEMSHIM_VERSION
#define GPUMEMSHIM_VERSION "0"
#endif

namespace gpumemshim::control {
namespace {

constexpr uint64_t kNsInMs = 1'000'000, kNsInSecond = 1'000'000'000;
constexpr uint32_t kMostDevices = 8;  // in a line

std::atomic<uint32_t> g_interval_ms;
std::atomic<uint64_t> g_next_ns;

}  // namespace

void SetProgressInterval(uint32_t interval_ms) {
  g_next_ns.store(MonotonicNs() + interval_ms * kNsInMs, std::memory_order_relaxed);
  g_interval_ms.store(interval_ms, std::memory_order_relaxed);
}

uint32_t ProgressInterval() { return g_interval_ms.load(std::memory_order_relaxed); }

void SayProgress() {
  const uint32_t interval_ms = ProgressInterval();
  if (interval_ms == 0 || !IsSaid(LogLevel::kInfo)) return;
  const uint64_t now_ns = MonotonicNs(), since_ns = g_since_ns.load(std::memory_order_relaxed);
  if (now_ns < g_next_ns.load(std::memory_order_relaxed) || since_ns == 0) return;
  g_next_ns.store(now_ns + interval_ms * kNsInMs, std::memory_order_relaxed);
  static writer::Progress progress;  // the writer thread's
  writer::GetProgress(&progress);
  const ring::Stats ring = ring::GetStats();
  sampler::DeviceUse devices[kMostDevices];
  ProgressFacts facts;
  facts.seconds = (now_ns - since_ns) / kNsInSecond;
  facts.events = progress.events;
  facts.lost = ring.dropped_allocs + ring.dropped_frees + progress.unwritten_events;
  facts.file_bytes = progress.file_bytes;
  facts.devices = devices;
  facts.device_count = sampler::LastUse(devices, kMostDevices);
  static char line[1024];
  WriteLine(line, ProgressLine(facts, line, sizeof line));
}

size_t ProgressLine(const ProgressFacts& facts, char* out, size_t capacity) {
  Text line(out, capacity);
  line.Add("gpumemshim: ").Add(facts.seconds).Add(" s: ").AddGrouped(facts.events).Add(" events, ");
  line.AddGrouped(facts.lost).Add(" lost, ").AddBytes(facts.file_bytes);
  for (uint32_t i = 0; i < facts.device_count; ++i) {
    const sampler::DeviceUse& use = facts.devices[i];
    if (use.used == sampler::kUnknown) continue;
    line.Add("; GPU ").Add(static_cast<uint64_t>(use.device)).Add(": ").AddBytes(use.used);
    if (use.total != sampler::kUnknown) line.Add(" of ").AddBytes(use.total);
    line.Add(" used");
    if (use.own != sampler::kUnknown) line.Add(", ").AddBytes(use.own).Add(" by this process");
  }
  line.Add('\n');
  return line.size();
}

size_t BeginLine(const BeginFacts& facts, char* out, size_t capacity) {
  Text line(out, capacity);
  line.Add(facts.is_dormant ? "gpumemshim: dormant in process " : "gpumemshim: recording process ");
  line.Add(static_cast<uint64_t>(facts.pid)).Add(", version " GPUMEMSHIM_VERSION);
  for (uint32_t i = 0; i < facts.settings_count; ++i) {
    line.Add(i == 0 ? ", with " : " ").AddPrintable(facts.settings[i].key).Add('=');
    line.AddPrintable(facts.settings[i].value);
  }
  line.Add('\n');
  if (line.overflowed() && line.size() > 0) out[line.size() - 1] = '\n';
  return line.size();
}

}  // namespace gpumemshim::control
