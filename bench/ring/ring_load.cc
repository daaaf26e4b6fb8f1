// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Loads the ring and the writer thread at a given rate, beside processes that keep the cores busy, and prints what was
// lost: one line of "name value" pairs. Run by bench/drops.
//
//   ring_load --rate 300000 --seconds 60 --threads 2 --busy 2 --cores 2 --new-stacks 1 --ring 67108864 --trace T
//   ring_load --threads-in-all 10000 ...     // threads one after the other, eight at a time, one event each
//
// The rate is of all threads together, over the whole time: who did not get a core in time catches up at once.
// --new-stacks: of 100 events, how many come with a stack that was not there before, 30 frames deep.

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "shim/base/clock.h"
#include "shim/ring/ring.h"
#include "shim/writer/writer.h"

namespace {

using namespace gpumemshim;  // NOLINT: a program of one file

constexpr uint32_t kDepth = 30;
constexpr uint64_t kLive = 64;  // blocks of each thread that are alive at a time
constexpr uint32_t kThreadsAtATime = 8;

struct Options {
  uint64_t rate = 300'000, seconds = 2, threads = 2, busy = 2, cores = 2, new_stacks = 1, threads_in_all = 0,
           wait_ms = 0;
  uint64_t ring = ring::kDefaultSizeBytes;
  const char* trace = "/tmp/ring_load.gmtrace";
};
Options g_options;

bool OutputPath(char* out, size_t capacity) {
  return snprintf(out, capacity, "%s", g_options.trace) < static_cast<int>(capacity);
}

[[noreturn]] void Fail(const char* what) {
  fprintf(stderr, "ring_load: %s failed\n", what);
  exit(1);
}

void Read(int argc, char** argv) {
  const std::pair<const char*, uint64_t*> numbers[] = {
      {"--rate", &g_options.rate},       {"--seconds", &g_options.seconds},
      {"--threads", &g_options.threads}, {"--busy", &g_options.busy},
      {"--cores", &g_options.cores},     {"--new-stacks", &g_options.new_stacks},
      {"--ring", &g_options.ring},       {"--threads-in-all", &g_options.threads_in_all},
      {"--wait-ms", &g_options.wait_ms}};
  for (int i = 1; i + 1 < argc; i += 2) {
    bool known = strcmp(argv[i], "--trace") == 0;
    if (known) g_options.trace = argv[i + 1];
    for (const auto& [name, value] : numbers) {
      if (strcmp(argv[i], name) != 0) continue;
      *value = strtoull(argv[i + 1], nullptr, 10);
      known = true;
    }
    if (!known) Fail(argv[i]);
  }
}

void StayOnCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (size_t i = 0; i < g_options.cores; i++) CPU_SET(i, &cores);
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) Fail("sched_setaffinity");
}

pid_t KeepBusy() {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) asm volatile("");
}

// One thread's events: blocks are allocated and freed in turn.
class Producer {
 public:
  explicit Producer(uint64_t number) : base_((number + 1) << 40) {}

  void Leave() {
    const uint64_t block = base_ + (count_ / 2 % kLive) * 4096;
    Event event{};
    event.kind = count_ % 2 == 0 ? EventKind::kAlloc : EventKind::kFree;
    event.layer = Layer::kTorch;
    event.address = block;
    event.size = 4096;
    event.torch_allocated = event.torch_reserved = 4096;
    event.stack = StackOf();
    const uint64_t before_ns = MonotonicNs();
    ring::Record(event);
    longest_ns_ = std::max(longest_ns_, MonotonicNs() - before_ns);
    count_++;
  }

  uint64_t count() const { return count_; }
  uint64_t longest_ns() const { return longest_ns_; }

 private:
  uint64_t StackOf() {
    if (stack_ != 0 && count_ % 100 >= g_options.new_stacks) return stack_;
    ring::RawFrame frames[kDepth];
    for (uint32_t i = 0; i < kDepth; i++) frames[i] = {uint64_t{0x7f0000000000} + i, 0, 0};
    // As where each module has its own frame in the middle of frames that others have too.
    frames[kDepth / 2].pc = base_ + ++stacks_;
    const uint64_t hash = base_ + stacks_;
    if (ring::RecordStack(hash, frames, kDepth)) stack_ = hash;
    return stack_;
  }

  uint64_t base_, count_ = 0, stacks_ = 0, stack_ = 0, longest_ns_ = 0;
};

struct Made {
  uint64_t events = 0, longest_ns = 0;
};

Made Produce(uint64_t number) {
  Producer producer(number);
  const uint64_t begin_ns = MonotonicNs(), wanted = g_options.rate * g_options.seconds / g_options.threads;
  const double ns_an_event = 1e9 * static_cast<double>(g_options.threads) / static_cast<double>(g_options.rate);
  while (producer.count() < wanted) {
    while (static_cast<double>(MonotonicNs() - begin_ns) < static_cast<double>(producer.count()) * ns_an_event) {
    }
    producer.Leave();
  }
  return {producer.count(), producer.longest_ns()};
}

Made ProduceAll() {
  std::vector<std::thread> threads;
  std::vector<Made> made(g_options.threads_in_all != 0 ? g_options.threads_in_all : g_options.threads);
  for (uint64_t i = 0; i < made.size(); i++) {
    threads.emplace_back([&made, i] {
      if (g_options.threads_in_all == 0) {
        made[i] = Produce(i);
      } else {
        Producer producer(i);
        producer.Leave();
        made[i] = {1, producer.longest_ns()};
      }
    });
    if (g_options.threads_in_all == 0 || threads.size() < kThreadsAtATime) continue;
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
  for (std::thread& thread : threads) thread.join();
  Made sum;
  for (const Made& each : made) {
    sum.events += each.events;
    sum.longest_ns = std::max(sum.longest_ns, each.longest_ns);
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  Read(argc, argv);
  StayOnCores();
  std::vector<pid_t> busy;
  for (uint64_t i = 0; i < g_options.busy; i++) busy.push_back(KeepBusy());
  ring::Config ring_config;
  ring_config.size_bytes = g_options.ring;
  ring_config.wait_ns = g_options.wait_ms * 1'000'000;
  writer::Config config;
  config.callbacks.paths.wanted = &OutputPath;
  if (!ring::Start(ring_config) || !writer::Start(config)) Fail("the start of the recorder");
  const uint64_t begin_ns = MonotonicNs();
  const Made made = ProduceAll();
  const double seconds = static_cast<double>(MonotonicNs() - begin_ns) * 1e-9;
  const ring::Stats stats = ring::GetStats();
  const writer::Summary summary = writer::Stop(60'000);
  for (pid_t child : busy) kill(child, SIGKILL);
  while (wait(nullptr) > 0) {
  }
  unlink(summary.path);
  const uint64_t dropped = summary.dropped_allocs + summary.dropped_frees;
  printf(
      "made %llu written %llu dropped %llu definitions_dropped %llu uncounted %lld high_bytes %llu seconds %.2f "
      "longest_us %.0f\n",
      static_cast<unsigned long long>(made.events), static_cast<unsigned long long>(summary.events),
      static_cast<unsigned long long>(dropped), static_cast<unsigned long long>(summary.dropped_definitions),
      static_cast<long long>(made.events - summary.events - dropped), static_cast<unsigned long long>(stats.high_bytes),
      seconds, static_cast<double>(made.longest_ns) * 1e-3);
  return 0;
}
