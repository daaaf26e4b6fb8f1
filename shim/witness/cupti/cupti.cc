// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/cupti/cupti.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "shim/base/calls/scope.h"
#include "shim/base/clock.h"
#include "shim/base/symbol_lookup.h"
#include "shim/base/thread.h"
#include "shim/witness/cupti/library.h"
#include "shim/witness/cupti/records.h"

namespace gpumemshim::cupti {
namespace {

constexpr uint64_t kMillisecondNs = 1'000'000;
constexpr uint64_t kFlushIntervalNs = 500 * kMillisecondNs;
constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr uint32_t kCapacity = 1u << 17;  // records that wait for the writer
constexpr uint32_t kMaxInPacket = 4096;
constexpr uint32_t kFinishAtExitMs = 500;
constexpr int kLockAttempts = 50;
constexpr uint32_t kForced = 1;  // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: buffers that are not full too

// Everything of one thread; in memory of its own, so that a thread given up, or a buffer that comes late, finds it.
struct State {
  uint32_t pid = 0;
  bool finish_asked = false;
  std::atomic<bool> left{false};  // CUPTI is not to be called any more
  pthread_t thread = {};
  Library library = {};
  std::atomic<uint32_t> settled{0};   // futex; CUPTI records, or never will
  std::atomic<uint32_t> stop{0};      // futex
  std::atomic<uint32_t> finished{0};  // futex
  std::atomic<int64_t> to_monotonic_ns{0};
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // of what follows
  Report report;
  bool changed = false;         // since PutRecords said it
  uint64_t head = 0, tail = 0;  // written, read
  Record waiting[kCapacity];
};

std::atomic<State*> g_state{nullptr};
bool g_exit_handler;

class Locked {
 public:
  explicit Locked(State* state) : state_(state) { pthread_mutex_lock(&state->mutex); }
  ~Locked() { pthread_mutex_unlock(&state_->mutex); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  State* state_;
};

// The state of this process: a forked child may still be called back by a CUPTI that it inherited.
State* Own() {
  State* state = g_state.load(std::memory_order_acquire);
  return state != nullptr && state->pid == static_cast<uint32_t>(getpid()) ? state : nullptr;
}

void Announce(std::atomic<uint32_t>* word) {
  word->store(1, std::memory_order_release);
  FutexWakeAll(word);
}

void Await(std::atomic<uint32_t>* word, uint32_t timeout_ms) {
  const uint64_t deadline_ns = MonotonicNs() + timeout_ms * kMillisecondNs;
  for (uint64_t now_ns = MonotonicNs(); word->load(std::memory_order_acquire) == 0 && now_ns < deadline_ns;
       now_ns = MonotonicNs()) {
    FutexWait(word, 0, deadline_ns - now_ns);
  }
}

void Request(uint8_t** buffer, size_t* size, size_t* max_records) {
  void* memory = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *buffer = memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
  *size = memory == MAP_FAILED ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void Keep(State* state, Record record) {
  if (state->head - state->tail == kCapacity) {
    state->report.lost++;
    return;
  }
  if (record.time_ns != 0)
    record.time_ns += static_cast<uint64_t>(state->to_monotonic_ns.load(std::memory_order_relaxed));
  state->waiting[state->head++ % kCapacity] = record;
}

// In a thread of CUPTI's, or in ours while it flushes.
void Complete(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_size) {
  const calls::Scope scope;
  State* state = Own();
  if (state != nullptr) {
    const Locked locked(state);
    if (state->report.ended_ns != 0) valid_size = 0;  // of a tool without buffers of its own, after we left
    void* bytes = nullptr;
    while (valid_size != 0 && state->library.next_record(buffer, valid_size, &bytes) == kSuccess) {
      Record record;
      if (ReadRecord(bytes, &record)) {
        Keep(state, record);
      } else {
        state->report.unknown++;
      }
    }
    size_t dropped = 0;
    if (state->library.dropped_records(context, stream, &dropped) == kSuccess) state->report.dropped += dropped;
    state->changed = true;
  }
  if (buffer != nullptr) munmap(buffer, kBufferBytes);
}

void OnCall(void*, int, uint32_t, const void*) {}  // nothing is ever switched on for it

void Say(State* state, Status status, int error) {
  const Locked locked(state);
  state->report.status = status;
  state->report.error = error;
  state->changed = true;
}

// Whether somebody else has subscribed. Ours lasts for the time of the question.
int AskForSubscriber(const Library& library) {
  void* subscriber = nullptr;
  const int result = library.subscribe(&subscriber, &OnCall, nullptr);
  if (result == kSuccess) library.unsubscribe(subscriber);
  return result;
}

void CompareClocks(State* state) {
  uint64_t cupti_ns = 0;
  const uint64_t before_ns = MonotonicNs();
  if (state->library.get_timestamp(&cupti_ns) != kSuccess) return;
  const uint64_t middle_ns = before_ns + (MonotonicNs() - before_ns) / 2;
  state->to_monotonic_ns.store(static_cast<int64_t>(middle_ns - cupti_ns), std::memory_order_relaxed);
}

void FinishAtExit() { Finish(kFinishAtExitMs); }

// Functions of atexit run last in, first out: one from before CUPTI was loaded runs when CUPTI has ended already, and
// what we then ask it ends the program with SIGSEGV (seen with CUPTI 13.0.1). Hence once it is loaded, and once more
// behind what CUPTI registers when it begins; Finish does nothing the second time.
void FinishBeforeCuptiEnds() { std::atexit(&FinishAtExit); }

// False: CUPTI records nothing for us, and the report says why.
bool Begin(State* state) {
  Library& library = state->library;
  if (!LoadLibrary(&library)) return Say(state, Status::kNoLibrary, 0), false;
  FinishBeforeCuptiEnds();
  uint32_t version = 0;
  library.get_version(&version);
  {
    const Locked locked(state);
    state->report.library = library.path;
    state->report.version = version;
  }
  if (version < kOldestVersion) return Say(state, Status::kNoLibrary, 0), false;
  int result = AskForSubscriber(library);
  if (result == kMultipleSubscribers) return Say(state, Status::kOtherSubscriber, result), false;
  CompareClocks(state);
  if (result == kSuccess) result = library.register_callbacks(&Request, &Complete);
  if (result == kSuccess) result = library.enable(kKindMemory2);
  if (result != kSuccess) return Say(state, Status::kFailed, result), false;
  library.enable(kKindMemoryPool);  // records of memory are worth having without those of pools
  FinishBeforeCuptiEnds();
  const Locked locked(state);
  state->report.status = Status::kRecording;
  state->report.began_ns = MonotonicNs();
  state->changed = true;
  return true;
}

void Flush(State* state) {
  const uint64_t now_ns = MonotonicNs();
  if (state->library.flush_all(kForced) != kSuccess) return;
  const Locked locked(state);
  state->report.complete_until_ns = now_ns;
  state->changed = true;
}

// CUPTI's kinds are switched on and off for the whole process. PyTorch's profiler asks for none of ours and would get
// records that it does not know; another tool may have asked for them itself, and would lose its own.
bool MayBeWantedByOthers() {
  char path[1024];
  return !FindLoadedPath("libtorch_cpu.so", path, sizeof path);
}

void StopAsking(State* state, Status status, int error) {
  {
    const Locked locked(state);
    state->report.ended_ns = MonotonicNs();
  }
  if (status != Status::kOtherSubscriber || !MayBeWantedByOthers()) {
    state->library.disable(kKindMemory2);
    state->library.disable(kKindMemoryPool);
  }
  Say(state, status, error);
}

void* Main(void* argument) {
  State* state = static_cast<State*>(argument);
  const calls::Scope scope;  // what we call is not the program's
  prctl(PR_SET_NAME, "gpumemshim-cupt", 0, 0, 0);
  bool recording = Begin(state);
  Announce(&state->settled);
  for (bool last = false; recording && !last;) {
    FutexWait(&state->stop, 0, kFlushIntervalNs);
    last = state->stop.load(std::memory_order_acquire) != 0;  // then too, all that came until now is asked for
    if (state->left.load(std::memory_order_acquire)) break;
    // A subscriber that came later may have put its own buffers in place of ours: what waits is its own now.
    if (const int result = AskForSubscriber(state->library); result == kMultipleSubscribers) {
      StopAsking(state, Status::kOtherSubscriber, result);
      recording = false;
      break;
    }
    CompareClocks(state);
    Flush(state);
  }
  if (recording && !state->left.load(std::memory_order_acquire)) StopAsking(state, Status::kEnded, 0);
  Announce(&state->finished);
  return nullptr;
}

// Registered before CUPTI was loaded by us: where FinishAtExit has not run, CUPTI may have ended meanwhile, and is
// asked nothing more.
void LeaveAtExit() {
  State* state = Own();
  if (state == nullptr || state->finish_asked) return;
  state->left.store(true, std::memory_order_release);
  Finish(kFinishAtExitMs);
}

bool LockForWriter(State* state) {
  for (int i = 0; i < kLockAttempts; i++) {
    if (pthread_mutex_trylock(&state->mutex) == 0) return true;
    const timespec millisecond = {0, static_cast<long>(kMillisecondNs)};
    nanosleep(&millisecond, nullptr);
  }
  return false;
}

}  // namespace

void Start(uint32_t wait_ms) {
  if (Own() != nullptr) return;
  const int saved = errno;
  void* memory =
      mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) {
    State* state = new (memory) State;
    state->pid = static_cast<uint32_t>(getpid());
    g_state.store(state, std::memory_order_release);
    if (!g_exit_handler) g_exit_handler = std::atexit(&LeaveAtExit) == 0;  // runs after those of the thread
    if (StartThread(&state->thread, &Main, state)) {
      Await(&state->settled, wait_ms);
    } else {
      g_state.store(nullptr, std::memory_order_release);
      munmap(memory, sizeof(State));
    }
  }
  errno = saved;
}

bool PutRecords(ProtoWriter* w) {
  State* state = Own();
  if (state == nullptr || !LockForWriter(state)) return false;
  const bool due = state->changed || state->head != state->tail;
  if (due) {
    Report report = state->report;
    if (state->head - state->tail > kMaxInPacket) report.complete_until_ns = 0;  // said with the last of them
    const PacketMarks marks = BeginPacket(report, w);
    for (uint32_t i = 0; i < kMaxInPacket && state->tail != state->head; i++) {
      PutRecord(state->waiting[state->tail++ % kCapacity], w);
    }
    EndPacket(marks, w);
    state->changed = false;
  }
  pthread_mutex_unlock(&state->mutex);
  return due;
}

bool HasRecords() {
  State* state = Own();
  if (state == nullptr || pthread_mutex_trylock(&state->mutex) != 0) return false;
  const bool any = state->head != state->tail;
  pthread_mutex_unlock(&state->mutex);
  return any;
}

void Finish(uint32_t timeout_ms) {
  State* state = Own();
  if (state == nullptr || state->finish_asked) return;
  state->finish_asked = true;
  const int saved = errno;
  state->stop.store(1, std::memory_order_release);
  FutexWakeAll(&state->stop);
  Await(&state->finished, timeout_ms);
  if (state->finished.load(std::memory_order_acquire) != 0) {
    pthread_join(state->thread, nullptr);
  } else {
    pthread_detach(state->thread);
  }
  errno = saved;
}

void ForgetInChild() {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr || state->pid == static_cast<uint32_t>(getpid())) return;
  g_state.store(nullptr, std::memory_order_release);
  munmap(static_cast<void*>(state), sizeof(State));  // its thread is not here
}

}  // namespace gpumemshim::cupti
