// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How fast gpumemshim reads, replays and aggregates by stack: a trace of N events (10 million unless given) shaped like
// a training, on tmpfs.
//
//   build/release/bin/replay_bench [EVENTS]

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "ledger/stacks/aggregate.h"
#include "replay/analyze.h"
#include "testing/trace_builder.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

constexpr uint64_t kSegment = 20u << 20;
constexpr uint64_t kSlot = 64u << 10;
constexpr int kRuns = 5;

// CPU time of this process, so that a busy machine does not show in events a core.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Steps of a thousand blocks that are born in the forward pass and die in the backward one, over 3,000 parameters that
// stay; 500 stacks.
void WriteTraining(uint64_t events, trace::Codec codec, const std::string& path) {
  testing::TraceBuilder trace(4096);
  trace.Compress(codec);
  trace.Device(0, "GPU", 80ull << 30);
  std::mt19937 random(1);
  std::vector<uint64_t> stacks;
  for (uint32_t i = 0; i < 500; ++i)
    stacks.push_back(trace.PythonStack({{"f" + std::to_string(i), "m.py", i + 1}, {"main", "m.py", 1}}));
  uint64_t next = 0x7f0000000000;
  const auto place = [&] {
    if (next % kSegment == 0x7f0000000000 % kSegment) trace.CudaAlloc(next, kSegment, stacks[0]);
    return std::exchange(next, next + kSlot);
  };
  for (int i = 0; i < 3000; ++i)
    trace.TorchAlloc(place(), 512 * (1 + random() % 100), stacks[random() % stacks.size()]);
  std::vector<uint64_t> slots;
  slots.reserve(1000);
  for (int i = 0; i < 1000; ++i) slots.push_back(place());
  std::vector<uint64_t> sizes(slots.size());
  while (trace.event_count() < events) {
    for (size_t i = 0; i < slots.size(); ++i) {
      sizes[i] = 512 * (1 + random() % 100);
      trace.AtTime(trace.time_ns() + 300 + random() % 2000)
          .TorchAlloc(slots[i], sizes[i], stacks[random() % stacks.size()]);
    }
    for (size_t i = slots.size(); i-- > 0;)
      trace.AtTime(trace.time_ns() + 300 + random() % 2000).TorchFree(slots[i], sizes[i]);
  }
  trace.End();
  trace.Write(path);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double NsAnEvent(const std::vector<double>& seconds, uint64_t events) {
  return 1e9 * Median(seconds) / static_cast<double>(events);
}

// What a view by stack costs beyond the replay, by mode.
void MeasureViews(const std::string& path, std::vector<double>* seconds) {
  Analyze(path, {}, nullptr, nullptr,
          [&](const OpenTrace& trace) {
            for (const ViewMode mode : {ViewMode::kPeak, ViewMode::kTotal, ViewMode::kTemporary}) {
              StackSelection selection;
              selection.mode = mode;
              const double start = CpuSeconds();
              if (AggregateStacks(trace, {}, selection).all.count == 0 && mode != ViewMode::kTemporary) std::abort();
              seconds[static_cast<size_t>(mode)].push_back(CpuSeconds() - start);
            }
          })
      .status()
      .IgnoreError();
}

void Measure(const std::string& path, const char* codec) {
  std::vector<double> reads, replays, answers, views[4];
  uint64_t events = 0;
  uint64_t bytes = 0;
  for (int run = 0; run < kRuns; ++run) {
    double start = CpuSeconds();
    absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
    events = 0;
    while (reader->Next() != ItemType::kEndOfStream)
      events += reader->type() == ItemType::kEvents ? reader->batch().count() : 0;
    reads.push_back(CpuSeconds() - start);
    bytes = reader->file_bytes();
    start = CpuSeconds();
    const double wall_start = WallSeconds();
    const absl::StatusOr<Analysis> analysis = Analyze(path);
    replays.push_back(CpuSeconds() - start);
    answers.push_back(WallSeconds() - wall_start);
    if (!analysis.ok() || !analysis->complete) std::abort();
    MeasureViews(path, views);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"codec\": \"%s\", \"events\": %llu, \"bytes_per_event\": %.2f, \"read_events_per_cpu_s\": %.0f, "
      "\"replay_events_per_cpu_s\": %.0f, "
      "\"first_answer_wall_s\": %.3f, \"peak_by_stack_cpu_s\": %.3f, \"total_by_stack_ns_per_event\": %.1f, "
      "\"temporary_by_stack_ns_per_event\": %.1f, \"max_rss_mib\": %ld}\n",
      codec, static_cast<unsigned long long>(events), static_cast<double>(bytes) / static_cast<double>(events),
      static_cast<double>(events) / Median(reads), static_cast<double>(events) / Median(replays), Median(answers),
      Median(views[static_cast<size_t>(ViewMode::kPeak)]),
      NsAnEvent(views[static_cast<size_t>(ViewMode::kTotal)], events),
      NsAnEvent(views[static_cast<size_t>(ViewMode::kTemporary)], events), usage.ru_maxrss / 1024);
}

int Run(int argc, char** argv) {
  uint64_t events = 10'000'000;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &events)) {
    std::fprintf(stderr, "usage: %s [EVENTS]\n", argv[0]);
    return 2;
  }
  const std::string path = "/dev/shm/gpumemshim_replay_bench." + std::to_string(getpid()) + ".gmtrace";
  const std::pair<trace::Codec, const char*> codecs[] = {{trace::CODEC_NONE, "none"}, {trace::CODEC_LZ4_BLOCK, "lz4"}};
  for (const auto& [codec, name] : codecs) {
    // In a child, so that making the trace does not count towards this process's memory.
    if (const pid_t child = fork(); child == 0) {
      WriteTraining(events, codec, path);
      _exit(0);
    } else {
      waitpid(child, nullptr, 0);
    }
    Measure(path, name);
    std::remove(path.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace gpumem

int main(int argc, char** argv) { return gpumem::Run(argc, argv); }
