// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/base/thread.h"
#include "shim/witness/sampler/device_sampler.h"
#include "shim/witness/sampler/nvml.h"
#include "shim/witness/sampler/sample.h"

namespace gpumemshim::sampler {
namespace {

constexpr uint64_t kMillisecondNs = 1'000'000;
constexpr uint64_t kLeastRestNs = 100 * kMillisecondNs;  // between samples that events ask for
constexpr uint64_t kRestPerCost = 200;
constexpr uint32_t kForkWaitMs = 500;
constexpr uint32_t kFailureWaitMs = 20;
constexpr uint64_t kSettlingNs = 1'100'000;  // a reader takes memory for settled a millisecond after its last change
constexpr uint64_t kSliceNs = 10 * kMillisecondNs;
constexpr uint32_t kPatience = 8;  // for a thread that gets no processor: times what one that waits for NVML gets
constexpr uint32_t kQueueSize = 4;

constexpr uint32_t Bit(Cause cause) { return 1u << static_cast<uint32_t>(cause); }

// Who may ask: the gate is free, held by a question in progress, or shut for a fork.
enum Gate : uint32_t { kFree, kAsking, kShut };

// Everything of one thread; in memory of its own, so that a thread given up can go on with it.
struct State {
  explicit State(const Config& from) : config(from) { thresholds.Parse(from.warn_at); }

  Config config;
  uint32_t pid = 0;
  bool finish_asked = false;
  pthread_t thread = {};
  std::atomic<int32_t> thread_id{0};
  DeviceSampler device_sampler;
  Thresholds thresholds;
  std::atomic<uint32_t> requests{0};  // bits by Cause; futex
  std::atomic<uint32_t> finished{0};  // futex
  std::atomic<uint32_t> gate{kFree};
  std::atomic<uint64_t> last_change_ns{0};  // of CUDA's memory, as far as it was drained
  // The queue: written at `head` by the thread, read at `tail` by the writer.
  std::atomic<uint32_t> head{0}, tail{0};
  Sample samples[kQueueSize];
  Sample spare;  // for a sample that finds the queue full: its thresholds are to be checked all the same
  Crossing crossings[kMaxThresholds];  // of the last sample
  uint32_t crossing_count = 0;
};

Config g_config = {0, "", nullptr, nullptr};
char g_warn_at[256];
std::atomic<State*> g_state{nullptr};  // set by the writer thread, read by any that forks or exits
// No thread is to start: none, or no memory, could be had, or the program ends. Set by whoever ends it, read by the
// writer thread.
std::atomic<bool> g_closed{false};

void SleepMs(uint32_t ms) {
  const timespec time = {0, static_cast<long>(ms * kMillisecondNs)};
  nanosleep(&time, nullptr);
}

void Request(State* state, Cause cause) {
  if ((state->requests.load(std::memory_order_relaxed) & Bit(cause)) != 0) return;
  state->requests.fetch_or(Bit(cause), std::memory_order_release);
  FutexWakeAll(&state->requests);
}

void EnterGate(State* state) {
  uint32_t expected = kFree;
  while (!state->gate.compare_exchange_strong(expected, kAsking, std::memory_order_acquire)) {
    expected = kFree;
    SleepMs(1);
  }
}
void LeaveGate(State* state) {
  uint32_t expected = kAsking;  // a fork that lost its patience may have shut it
  state->gate.compare_exchange_strong(expected, kFree, std::memory_order_release);
}

Cause LargestCause(uint32_t bits) {
  uint32_t cause = static_cast<uint32_t>(Cause::kEnd);
  while (cause > static_cast<uint32_t>(Cause::kPeriodic) && (bits & (1u << cause)) == 0) cause--;
  return static_cast<Cause>(cause);
}

void Take(State* state, uint32_t bits) {
  const uint32_t head = state->head.load(std::memory_order_relaxed);
  const bool room = head - state->tail.load(std::memory_order_acquire) < kQueueSize;
  Sample* sample = room ? &state->samples[head % kQueueSize] : &state->spare;
  sample->cause = LargestCause(bits);
  state->device_sampler.Take(state->config.read_pool, sample);
  state->thresholds.Check(sample);
  state->crossing_count = sample->crossing_count;
  memcpy(state->crossings, sample->crossings, sizeof(state->crossings));
  if (room) state->head.store(head + 1, std::memory_order_release);
}

// Of the last sample; outside of the gate, since it may wait. After a request has failed for want of memory the program
// has said more than a limit would; the trace has it all the same.
void Warn(State* state, uint32_t bits) {
  if (state->crossing_count == 0 || state->config.warn == nullptr) return;
  if ((bits & Bit(Cause::kEnd)) == 0) SleepMs(kFailureWaitMs);  // the failure may be a moment behind what led to it
  bits |= state->requests.load(std::memory_order_acquire);
  if ((bits & Bit(Cause::kOutOfMemory)) != 0) return;
  for (uint32_t i = 0; i < state->crossing_count; i++) state->config.warn(state->crossings[i]);
}

// When the sample that `bits` ask for is due.
uint64_t DueNs(uint32_t bits, uint64_t periodic_ns, uint64_t extra_ns) {
  if ((bits & (Bit(Cause::kEnd) | Bit(Cause::kFirstEvent))) != 0) return 0;
  return bits != 0 ? std::min(periodic_ns, extra_ns) : periodic_ns;
}

// The last sample is what a reader believes of the end, and one that was taken in the middle of a change says little.
void LetSettle(const State& state) {
  const uint64_t settled_ns = state.last_change_ns.load(std::memory_order_relaxed) + kSettlingNs;
  const uint64_t now_ns = MonotonicNs();
  if (now_ns >= settled_ns) return;
  const timespec rest = {0, static_cast<long>(std::min(settled_ns - now_ns, kSettlingNs))};
  nanosleep(&rest, nullptr);
}

// Samples until the end is asked for.
void Sampling(State* state) {
  const uint64_t interval_ns = state->config.interval_ms * kMillisecondNs;
  uint64_t periodic_ns = 0, extra_ns = 0;
  uint32_t bits = 0;
  do {
    bits = state->requests.load(std::memory_order_acquire);
    const uint64_t now_ns = MonotonicNs(), due_ns = DueNs(bits, periodic_ns, extra_ns);
    if (now_ns < due_ns) {
      FutexWait(&state->requests, bits, due_ns - now_ns);
      continue;
    }
    bits = state->requests.exchange(0, std::memory_order_acquire);
    if ((bits & Bit(Cause::kEnd)) != 0) LetSettle(*state);
    EnterGate(state);
    Take(state, bits);
    LeaveGate(state);
    Warn(state, bits);
    const uint64_t end_ns = MonotonicNs(), rest_ns = kRestPerCost * (end_ns - now_ns);
    periodic_ns = std::max(now_ns + interval_ns, end_ns + rest_ns);
    extra_ns = end_ns + std::max(kLeastRestNs, rest_ns);
  } while ((bits & Bit(Cause::kEnd)) == 0);
}

void* Main(void* argument) {
  State* state = static_cast<State*>(argument);
  prctl(PR_SET_NAME, "gpumemshim-nvml", 0, 0, 0);
  state->thread_id.store(static_cast<int32_t>(syscall(SYS_gettid)), std::memory_order_release);
  EnterGate(state);
  const bool open = state->device_sampler.Open();
  LeaveGate(state);
  if (open) {
    Sampling(state);
  } else {
    Take(state, state->requests.load(std::memory_order_acquire));  // says why
  }
  state->finished.store(1, std::memory_order_release);
  FutexWakeAll(&state->finished);
  return nullptr;
}

// Ready to run, but on no processor, or not even begun: then it is the machine that is busy, and NVML that is not.
bool IsStarved(const State& state) {
  const int32_t id = state.thread_id.load(std::memory_order_acquire);
  if (id == 0) return true;
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
  descriptors::ReadText(path, text, sizeof text);
  const char* name_end = strrchr(text, ')');
  return name_end != nullptr && strncmp(name_end, ") R", 3) == 0;
}

// Waits until the thread has finished: `timeout_ms` at most of the time in which it waits for something itself.
void AwaitFinished(State* state, uint32_t timeout_ms) {
  const uint64_t timeout_ns = timeout_ms * kMillisecondNs, start_ns = MonotonicNs();
  uint64_t counted_ns = 0;
  for (uint64_t now_ns = start_ns; state->finished.load(std::memory_order_acquire) == 0;) {
    if (counted_ns >= timeout_ns || now_ns - start_ns >= kPatience * timeout_ns) return;
    FutexWait(&state->finished, 0, std::min(kSliceNs, timeout_ns - counted_ns));
    const uint64_t before_ns = now_ns;
    now_ns = MonotonicNs();
    if (!IsStarved(*state)) counted_ns += now_ns - before_ns;
  }
}

State* Start() {
  void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  State* state = new (memory) State(g_config);
  state->pid = static_cast<uint32_t>(getpid());
  return state;
}

}  // namespace

void Configure(const Config& config) {
  State* before = g_state.exchange(nullptr, std::memory_order_acq_rel);
  if (before != nullptr && before->finish_asked && before->finished.load(std::memory_order_acquire) != 0) {
    munmap(static_cast<void*>(before), sizeof(State));  // else its thread was given up and goes on with it
  }
  g_config = config;
  snprintf(g_warn_at, sizeof(g_warn_at), "%s", config.warn_at);
  g_config.warn_at = g_warn_at;
  g_closed.store(false, std::memory_order_release);
  if (config.interval_ms != 0) Nvml::Load();  // here, since our own threads must not hold the loader's lock
}

void AddDevice(int16_t device, const uint8_t (&uuid)[16]) {
  if (g_config.interval_ms == 0 || g_closed.load(std::memory_order_acquire) || device < 0) return;
  State* running = g_state.load(std::memory_order_relaxed);
  State* state = running != nullptr ? running : Start();
  if (state == nullptr) {
    g_closed.store(true, std::memory_order_relaxed);
    return;
  }
  state->device_sampler.AddDevice(device, uuid);
  Request(state, Cause::kFirstEvent);
  if (running != nullptr) return;
  if (StartThread(&state->thread, &Main, state)) {
    g_state.store(state, std::memory_order_release);
  } else {
    munmap(static_cast<void*>(state), sizeof(State));
    g_closed.store(true, std::memory_order_relaxed);
  }
}

void SawEvent(const Event& event) {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr) return;
  if (event.layer != Layer::kTorch && !IsMark(event.kind))
    state->last_change_ns.store(event.time_ns, std::memory_order_relaxed);
  if (event.memory == Memory::kStreamOrdered) state->device_sampler.UsesPool(event.device);
  if (event.kind == EventKind::kAllocFailed) Request(state, Cause::kOutOfMemory);
  if (event.kind == EventKind::kAlloc || event.kind == EventKind::kPhysicalCreate) Request(state, Cause::kGrowth);
}

namespace {

// The writer thread's.
constexpr uint32_t kMostKept = 8;
DeviceUse g_last[kMostKept];
uint32_t g_last_count;

void KeepLastUse(const Sample& sample) {
  g_last_count = sample.device_count < kMostKept ? sample.device_count : kMostKept;
  for (uint32_t i = 0; i < g_last_count; ++i) {
    const DeviceSample& device = sample.devices[i];
    g_last[i] = {device.device, device.used, device.total, device.own};
  }
}

}  // namespace

uint32_t LastUse(DeviceUse* out, uint32_t capacity) {
  const uint32_t count = g_last_count < capacity ? g_last_count : capacity;
  for (uint32_t i = 0; i < count; ++i) out[i] = g_last[i];
  return count;
}

bool PutSample(ProtoWriter* w) {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr) return false;
  const uint32_t tail = state->tail.load(std::memory_order_relaxed);
  if (tail == state->head.load(std::memory_order_acquire)) return false;
  const Sample& sample = state->samples[tail % kQueueSize];
  EncodePacket(sample, w);
  KeepLastUse(sample);
  state->tail.store(tail + 1, std::memory_order_release);
  return true;
}

void StartNoMore() { g_closed.store(true, std::memory_order_release); }

void Finish(uint32_t timeout_ms) {
  g_closed.store(true, std::memory_order_release);
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr || state->pid != static_cast<uint32_t>(getpid())) return;
  if (state->finish_asked) return;
  state->finish_asked = true;
  const int saved = errno;
  Request(state, Cause::kEnd);
  AwaitFinished(state, timeout_ms);
  if (state->finished.load(std::memory_order_acquire) != 0) {
    pthread_join(state->thread, nullptr);
  } else {
    pthread_detach(state->thread);
  }
  errno = saved;
}

void BeforeFork() {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr || state->finished.load(std::memory_order_acquire) != 0) return;
  for (uint32_t waited = 0; waited < kForkWaitMs; waited++) {
    uint32_t expected = kFree;
    if (state->gate.compare_exchange_strong(expected, kShut, std::memory_order_acquire)) return;
    SleepMs(1);
  }
}

void AfterForkInParent() {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr) return;
  uint32_t expected = kShut;
  state->gate.compare_exchange_strong(expected, kFree, std::memory_order_release);
}

void ForgetInChild() {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr || state->pid == static_cast<uint32_t>(getpid())) return;
  g_state.store(nullptr, std::memory_order_relaxed);
  munmap(static_cast<void*>(state), sizeof(State));  // its thread is not here
}

}  // namespace gpumemshim::sampler
