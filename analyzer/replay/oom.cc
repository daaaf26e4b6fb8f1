// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/oom.h"

#include <algorithm>
#include <utility>

#include "replay/fragmentation.h"
#include "replay/live_set.h"

namespace gpumem {
namespace {

constexpr int kOutOfMemory = 2;  // of CUresult and of cudaError_t

bool IsOom(const EventRow& row) {
  return row.kind == trace::ALLOC_FAILED && row.memory != trace::VIRTUAL &&
         (row.layer == trace::TORCH || row.result == kOutOfMemory);
}

bool TakesMemory(trace::EventKind kind) {
  return kind == trace::ALLOC || kind == trace::PHYSICAL_CREATE || kind == trace::HOST_REGISTER;
}

}  // namespace

OomEvent OomDetector::Describe(const EventRow& row, uint64_t event_index) {
  OomEvent event;
  event.time_ns = row.time_ns;
  event.event_index = event_index;
  event.device = row.device;
  event.layer = static_cast<uint8_t>(row.layer);
  event.api = names_->string(row.api);
  event.result = row.layer == trace::TORCH ? 0 : row.result;
  event.requested = row.requested_size != 0 ? row.requested_size : row.size;
  event.stack_id = row.stack;
  event.thread = row.thread;
  const uint32_t slot = SlotOfDevice(row.device);
  if (const auto it = names_->devices().find(row.device); it != names_->devices().end())
    event.device_total = it->second.total_bytes;
  if (slot >= state_->slots()) return event;
  event.values = state_->values(slot);
  const uint64_t cuda_free = event.device_total > event.values.total ? event.device_total - event.values.total : 0;
  event.would_have_fit = cuda_free;
  if (live_sets_ >= kMostLiveSets) return event;
  ++live_sets_;
  event.fragmentation = MeasureFragmentation(*state_, slot, row.time_ns);
  event.would_have_fit = std::max(cuda_free, event.fragmentation.largest_free_range);
  const Measure measure = event.values.allocated > 0 ? Measure::kAllocated : Measure::kTotal;
  event.live = CollectLiveSet(*state_, slot, measure, row.time_ns, event_index, *names_);
  // What is not ours is not all free: the context, kernels and other processes lie there. This very request did not
  // fit.
  if (event.requested > 0) event.would_have_fit = std::min(event.would_have_fit, event.requested - 1);
  return event;
}

void OomDetector::Emit(OomEvent event) {
  if (events_.size() >= kMostEvents) {
    ++dropped_;
    return;
  }
  events_.push_back(std::move(event));
}

// Failures that no report of PyTorch explains. Those of one size that succeeded in the end are one request.
void OomDetector::Flush(std::vector<Pending>* pending) {
  for (size_t i = 0; i < pending->size(); ++i) {
    Pending& first = (*pending)[i];
    first.event.final = !first.succeeded_later;
    if (!first.event.final) {
      while (i + 1 < pending->size() && (*pending)[i + 1].succeeded_later &&
             (*pending)[i + 1].event.requested == first.event.requested) {
        ++first.event.retries;
        ++i;
      }
    }
    Emit(std::move(first.event));
  }
  pending->clear();
}

void OomDetector::Observe(const EventRow& row, uint64_t event_index) {
  const auto it = pending_.find(row.thread);
  if (IsOom(row)) {
    if (row.layer == trace::TORCH) {
      // Captures of the retries are given back: the report's own says the same.
      const size_t retries = it == pending_.end() ? 0 : it->second.size();
      live_sets_ -= std::min(live_sets_, retries);
      OomEvent event = Describe(row, event_index);
      event.retries = retries;
      Emit(std::move(event));
      if (it != pending_.end()) pending_.erase(it);
      return;
    }
    std::vector<Pending>& pending = pending_[row.thread];
    if (pending.size() >= kMostPendingOfThread) Flush(&pending);
    pending.push_back({Describe(row, event_index), static_cast<uint8_t>(row.memory), false});
    return;
  }
  if (it == pending_.end() || !TakesMemory(row.kind)) return;
  if (row.layer == trace::TORCH) {
    Flush(&it->second);
    pending_.erase(it);
    return;
  }
  const uint64_t size = row.requested_size != 0 ? row.requested_size : row.size;
  for (Pending& pending : it->second) {
    if (pending.event.requested == size && pending.memory == static_cast<uint8_t>(row.memory))
      pending.succeeded_later = true;
  }
}

std::vector<OomEvent> OomDetector::Finish() {
  for (auto& [thread, pending] : pending_) Flush(&pending);
  pending_.clear();
  std::sort(events_.begin(), events_.end(),
            [](const OomEvent& a, const OomEvent& b) { return a.event_index < b.event_index; });
  return std::move(events_);
}

}  // namespace gpumem
