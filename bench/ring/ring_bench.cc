// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a record costs the thread that makes it (CPU time, so that a busy machine does not count), with the clock and
// without, at 1 and 2 threads, and how many bytes an event takes in the file for a training loop's pattern: 1,790
// allocations and frees that repeat every 7 ms with the same addresses, sizes and stacks.
//
//   ring_bench [output.gmtrace]

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "shim/base/clock.h"
#include "shim/ring/ring.h"
#include "shim/writer/writer.h"

namespace {

using namespace gpumemshim;  // NOLINT: a program of one file

char g_path[4096];

bool OutputPath(char* out, size_t capacity) {
  return snprintf(out, capacity, "%s", g_path) < static_cast<int>(capacity);
}
const char* ApiName(uint16_t) { return "c10::reportMemoryUsageToProfiler"; }

struct Step {
  Event event;
};

// One training step: sizes of a few dozen kinds, blocks freed in part soon after, in part at the end, as autograd does.
std::vector<Step> TrainingStep() {
  std::mt19937_64 random(42);
  std::vector<Step> steps;
  std::vector<Event> live;
  uint64_t next_address = 0x7f5a00000000;
  uint64_t sizes[40];
  for (uint64_t& size : sizes) size = (1 + random() % 8000) * 512;
  const size_t kEvents = 1790;
  while (steps.size() + live.size() < kEvents) {
    bool free = !live.empty() && random() % 100 < 40;
    Event e{};
    e.layer = Layer::kTorch;
    e.api = 1;
    e.stack = 1 + random() % 900;
    if (free) {
      size_t i = random() % 3 == 0 ? random() % live.size() : live.size() - 1;
      e = live[i];
      live.erase(live.begin() + static_cast<ptrdiff_t>(i));
      e.kind = EventKind::kFree;
      e.stack = 1 + random() % 900;
    } else {
      e.kind = EventKind::kAlloc;
      e.size = sizes[random() % 40];
      e.address = next_address;
      next_address += e.size;
      live.push_back(e);
    }
    steps.push_back({e});
  }
  for (; !live.empty(); live.pop_back()) {
    Event e = live.back();
    e.kind = EventKind::kFree;
    steps.push_back({e});
  }
  return steps;
}

uint64_t ThreadCpuNs() { return ClockNs(CLOCK_THREAD_CPUTIME_ID); }

// CPU ns an event, best of several bursts that the ring holds without waiting.
double CostOfRecord(bool with_clock) {
  const int kBurst = 20'000;
  double best = 1e9;
  for (int round = 0; round < 40; round++) {
    Event event{};
    event.kind = EventKind::kFree;
    event.size = 512;
    uint64_t now_ns = MonotonicNs();
    uint64_t before_ns = ThreadCpuNs();
    for (int i = 0; i < kBurst; i++) {
      event.time_ns = with_clock ? 0 : now_ns;
      event.address += 512;
      ring::Record(event);
    }
    best = std::min(best, static_cast<double>(ThreadCpuNs() - before_ns) / kBurst);
    writer::FlushAndWait(1000);
  }
  return best;
}

double CostOfClock() {
  uint64_t before_ns = ThreadCpuNs(), sum = 0;
  for (int i = 0; i < 1'000'000; i++) sum += MonotonicNs();
  return static_cast<double>(ThreadCpuNs() - before_ns) / 1e6 + (sum == 0 ? 1 : 0);
}

void MeasureCost() {
  ring::Config ring_config;
  ring_config.size_bytes = uint64_t{64} << 20;
  writer::Config config;
  config.callbacks.paths.wanted = &OutputPath;
  if (!ring::Start(ring_config) || !writer::Start(config)) exit(1);
  double clock_ns = CostOfClock();
  printf("clock_gettime                %6.1f ns\n", clock_ns);
  printf("Record, time given, 1 thread %6.1f ns\n", CostOfRecord(false));
  double one = CostOfRecord(true);
  printf("Record, 1 thread             %6.1f ns\n", one);
  double costs[2];
  std::thread other([&] { costs[1] = CostOfRecord(true); });
  costs[0] = CostOfRecord(true);
  other.join();
  double two = (costs[0] + costs[1]) / 2;
  printf("Record, 2 threads            %6.1f ns   (%.2f x 1 thread)\n", two, two / one);
  writer::Summary summary = writer::Stop(10'000);
  printf("dropped %llu\n", static_cast<unsigned long long>(summary.dropped_allocs) + summary.dropped_frees);
  unlink(summary.path);
}

void MeasureBytes(bool keep) {
  ring::Config ring_config;
  writer::Config config;
  config.callbacks.paths.wanted = &OutputPath;
  config.callbacks.facts.api_name = &ApiName;
  if (!ring::Start(ring_config) || !writer::Start(config)) exit(1);
  std::vector<Step> steps = TrainingStep();
  for (uint64_t hash = 1; hash <= 900; hash++) {
    ring::RawFrame frames[20];
    for (uint32_t i = 0; i < 20; i++) frames[i] = {0x7f0000000000 + (i < 4 ? hash * 16 + i : i), 0, 0};
    ring::RecordStack(hash, frames, 20);
  }
  // Time between events: 7 ms / 1,790 on the average, spread as measured loops are.
  std::mt19937_64 random(7);
  std::exponential_distribution<double> pause(1.0 / (7e6 / 1790));
  uint64_t next_ns = MonotonicNs(), begin_ns = next_ns;
  uint64_t writer_before_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID) - ThreadCpuNs();
  const int kSteps = 430;  // three seconds
  for (int s = 0; s < kSteps; s++) {
    for (Step& step : steps) {
      next_ns += static_cast<uint64_t>(300 + 0.92 * pause(random));
      while (MonotonicNs() < next_ns) {
      }
      step.event.time_ns = 0;
      ring::Record(step.event);
    }
  }
  double seconds = static_cast<double>(MonotonicNs() - begin_ns) * 1e-9;
  writer::Summary summary = writer::Stop(10'000);
  printf("%llu events in %.2f s, %llu bytes: %.2f bytes an event, dropped %llu\n",
         static_cast<unsigned long long>(summary.events), seconds, static_cast<unsigned long long>(summary.file_bytes),
         static_cast<double>(summary.file_bytes) / static_cast<double>(summary.events),
         static_cast<unsigned long long>(summary.dropped_allocs) + summary.dropped_frees);
  uint64_t writer_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID) - ThreadCpuNs() - writer_before_ns;
  printf("writer thread %.0f ns of CPU an event\n",
         static_cast<double>(writer_ns) / static_cast<double>(summary.events));
  if (!keep) unlink(summary.path);
}

}  // namespace

int main(int argc, char** argv) {
  snprintf(g_path, sizeof(g_path), "%s", argc > 1 ? argv[1] : "/tmp/ring_bench.gmtrace");
  MeasureCost();
  MeasureBytes(argc > 1);
  return 0;
}
