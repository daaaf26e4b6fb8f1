// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/trigger.h"

namespace gpumemshim::oom {
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
