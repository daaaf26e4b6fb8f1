// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// OomDetector: turns failed calls into out-of-memory events, each with its chain. PyTorch's allocator asks CUDA, gives
// its cache back, asks again and then gives up:
//
//   cudaMalloc fails -> cudaFree of cached segments -> cudaMalloc fails -> report -> exception      one event, final
//   cudaMalloc fails -> cudaFree of cached segments -> cudaMalloc succeeds -> block handed out      one event, served
//
// A failed CUDA call that no report of PyTorch follows on its thread is an event of its own, and not final where a
// later call for the same size succeeded. Numbers only: oom_moment.h adds who filled the device.
//
// Not thread-safe. Any sequence of events is accepted; what is remembered is bounded.

#ifndef GPUMEM_ANALYZER_REPLAY_OOM_H_
#define GPUMEM_ANALYZER_REPLAY_OOM_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "replay/analysis.h"
#include "replay/state/live_state.h"
#include "trace/event_batch.h"
#include "trace/stack_table.h"

namespace gpumem {

class OomDetector {
 public:
  // Both must outlive it.
  OomDetector(const LiveState* state, const StackTable* names) : state_(state), names_(names) {}

  // After the state took the event. Must see failed calls always, other events while has_pending().
  void Observe(const EventRow& row, uint64_t event_index);
  bool has_pending() const { return !chains_.empty(); }

  // In the order of time. Ends what is pending.
  std::vector<OomEvent> Finish();
  // After Finish().
  std::vector<ServedRetries> TakeRetries();
  uint64_t dropped() const { return dropped_; }

 private:
  static constexpr size_t kMaxEvents = 10000;
  static constexpr size_t kMaxServedKept = 1000;  // all are counted in the retries
  static constexpr size_t kMaxSteps = 12;
  static constexpr uint64_t kLongestChain = 1u << 16;  // events, of any thread

  // What a thread is in.
  struct Chain {
    OomEvent event;
    uint64_t first_index = 0;
    uint64_t failed_calls = 0;
    uint8_t memory = 0;
    uint64_t total = 0;  // of the device, as of the last event
    uint64_t attempted =
        0;  // bytes that the attempt itself had taken when it failed: giving them back is not a release
    bool succeeded = false;  // a call for the same size did since the last failure
    bool reported = false;   // by PyTorch; only statements of the device may follow
  };

  void SetMoment(const EventRow& row, uint64_t event_index, OomEvent* event) const;
  void ObserveFailure(const EventRow& row, uint64_t event_index);
  void ObserveReport(const EventRow& row, uint64_t event_index);
  void ObserveStatement(const EventRow& row);
  void ObserveOther(const EventRow& row);
  Chain Begin(const EventRow& row, uint64_t event_index) const;
  void Track(const EventRow& row);
  void AddChange(const EventRow& row, uint64_t now, Chain* chain) const;
  static void AddStep(OomStep step, OomEvent* event);
  void Close(uint32_t thread);
  void CloseLongOnes(uint64_t event_index);
  void Emit(Chain chain);
  void CountRetry(const OomEvent& event, uint64_t failed_calls);

  const LiveState* state_;
  const StackTable* names_;
  absl::flat_hash_map<uint32_t, Chain> chains_;  // by thread
  std::vector<OomEvent> events_;
  std::vector<ServedRetries> retries_;
  absl::flat_hash_map<std::pair<int, uint64_t>, StackUse> retry_stacks_;  // by device and stack
  uint64_t next_sweep_ = 0;
  size_t served_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_OOM_H_
