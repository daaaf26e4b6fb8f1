// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/oom.h"

#include <algorithm>
#include <utility>

namespace gpumem {
namespace {

constexpr int kOutOfMemory = 2;  // of CUresult and of cudaError_t

bool IsOom(const EventRow& row) {
  return row.kind == trace::ALLOC_FAILED && row.memory != trace::VIRTUAL &&
         (row.layer == trace::TORCH || row.result == kOutOfMemory);
}

bool IsStatement(const EventRow& row) { return row.kind >= trace::OOM_DEVICE && row.kind <= trace::OOM_POOL; }

bool TakesMemory(trace::EventKind kind) {
  return kind == trace::ALLOC || kind == trace::PHYSICAL_CREATE || kind == trace::HOST_REGISTER;
}

uint64_t SizeOf(const EventRow& row) { return row.requested_size != 0 ? row.requested_size : row.size; }

// Bytes of the device that this chain's calls change: PyTorch's segments and everything else.
uint64_t TotalOf(const LiveState& state, int device) {
  const uint32_t slot = SlotOfDevice(device);
  return slot < state.slots() ? state.values(slot).total : 0;
}

}  // namespace

OomDetector::Chain OomDetector::Begin(const EventRow& row, uint64_t event_index) const {
  Chain chain;
  chain.first_index = event_index;
  chain.memory = static_cast<uint8_t>(row.memory);
  chain.total = TotalOf(*state_, row.device);
  OomEvent& event = chain.event;
  event.device = row.device;
  event.started_ns = row.time_ns - std::min<uint64_t>(row.time_ns, row.duration_ns);
  const uint32_t slot = SlotOfDevice(row.device);
  if (slot < state_->slots()) {
    const DeviceAccount& account = state_->accounts().devices[slot];
    event.before = account.torch_events > 0 ? account.at_report : account.values;
    if (row.memory == trace::PHYSICAL && chain.total > event.before.total)
      chain.attempted = chain.total - event.before.total;
  }
  return chain;
}

void OomDetector::AddStep(OomStep step, OomEvent* event) {
  if (event->steps.size() < kMaxSteps) event->steps.push_back(std::move(step));
}

void OomDetector::SetMoment(const EventRow& row, uint64_t event_index, OomEvent* event) const {
  event->time_ns = event->ended_ns = row.time_ns;
  event->event_index = event_index;
  event->layer = static_cast<uint8_t>(row.layer);
  event->api = names_->string(row.api);
  event->requested = SizeOf(row);
  event->stack_id = row.stack;
  event->thread = row.thread;
  const uint32_t slot = SlotOfDevice(row.device);
  if (slot < state_->slots()) event->values = state_->values(slot);
}

// The failure as it stands now: a later one of the same request overwrites it.
void OomDetector::ObserveFailure(const EventRow& row, uint64_t event_index) {
  const uint64_t size = SizeOf(row);
  if (const auto it = chains_.find(row.thread); it != chains_.end()) {
    const Chain& open = it->second;
    const bool same = !open.reported && open.event.cuda_requested == size && open.event.device == row.device &&
                      open.memory == static_cast<uint8_t>(row.memory);
    if (!same) Close(row.thread);
  }
  const auto [it, is_new] = chains_.try_emplace(row.thread);
  Chain& chain = it->second;
  if (is_new) chain = Begin(row, event_index);
  ++chain.failed_calls;
  chain.succeeded = false;
  OomEvent& event = chain.event;
  SetMoment(row, event_index, &event);
  event.result = row.result;
  event.cuda_requested = size;
  event.device_stated = event.pool_stated = false;
  AddStep({OomStep::Kind::kFailed, row.time_ns, size, 1, event.api}, &event);
}

void OomDetector::ObserveReport(const EventRow& row, uint64_t event_index) {
  const auto [it, is_new] = chains_.try_emplace(row.thread);
  Chain& chain = it->second;
  if (!is_new && (chain.reported || chain.event.device != row.device)) {
    Emit(std::move(chain));
    chain = Chain();
  }
  if (chain.failed_calls == 0) {
    chain = Begin(row, event_index);
    // Given back before the report, though no call of CUDA failed: the allocator stands before a limit of its own.
    if (chain.event.before.reserved > 0 && chain.total < chain.event.before.total)
      chain.event.released = chain.event.before.total - chain.total;
  }
  chain.reported = true;
  OomEvent& event = chain.event;
  SetMoment(row, event_index, &event);
  event.result = 0;
  event.retries = chain.failed_calls;
}

void OomDetector::ObserveStatement(const EventRow& row) {
  const auto it = chains_.find(row.thread);
  if (it == chains_.end() || it->second.event.device != row.device) return;
  OomEvent& event = it->second.event;
  if (row.kind == trace::OOM_ALLOCATOR) {
    event.torch_stated = true;
    event.torch_allocated = row.size;
    event.torch_reserved = row.requested_size;
    return;
  }
  if (row.kind == trace::OOM_POOL) {
    event.pool_stated = true;
    event.pool_used = row.size;
    event.pool_reserved = row.requested_size;
    return;
  }
  event.device_stated = true;
  event.device_free = row.size;
  event.device_total = row.requested_size;
  if (it->second.reported || event.steps.empty() || event.steps.back().kind != OomStep::Kind::kFailed) return;
  event.steps.back().device_stated = true;
  event.steps.back().device_free = row.size;
}

// Bytes of the device came or went by a call of the chain's thread.
void OomDetector::AddChange(const EventRow& row, uint64_t now, Chain* chain) const {
  if (now > chain->total) {
    if (row.memory == trace::PHYSICAL || row.memory == trace::VIRTUAL) chain->attempted += now - chain->total;
    return;
  }
  uint64_t released = chain->total - now;
  const uint64_t own = std::min(released, chain->attempted);
  chain->attempted -= own;
  released -= own;
  if (released == 0) return;
  OomEvent& event = chain->event;
  event.released += released;
  ++event.released_calls;
  if (event.steps.empty() || event.steps.back().kind != OomStep::Kind::kReleased) {
    AddStep({OomStep::Kind::kReleased, row.time_ns, released, 1, std::string(names_->string(row.api))}, &event);
    return;
  }
  event.steps.back().bytes += released;
  ++event.steps.back().count;
}

void OomDetector::Track(const EventRow& row) {
  for (auto& [thread, chain] : chains_) {
    const uint64_t now = TotalOf(*state_, chain.event.device);
    if (thread == row.thread && now != chain.total && !chain.reported) AddChange(row, now, &chain);
    chain.total = now;
  }
}

// An event of a thread that stands in a chain and does not fail.
void OomDetector::ObserveOther(const EventRow& row) {
  const auto it = chains_.find(row.thread);
  if (it == chains_.end()) return;
  Chain& chain = it->second;
  if (chain.reported || row.layer == trace::TORCH) {
    Close(row.thread);
    return;
  }
  if (!TakesMemory(row.kind)) return;
  const bool same = chain.event.cuda_requested == SizeOf(row) && chain.memory == static_cast<uint8_t>(row.memory);
  if (!same) return;
  chain.event.ended_ns = row.time_ns;
  if (!std::exchange(chain.succeeded, true))
    AddStep({OomStep::Kind::kServed, row.time_ns, SizeOf(row), 1, std::string(names_->string(row.api))}, &chain.event);
  const uint32_t slot = SlotOfDevice(row.device);
  const bool torch_may_follow = slot < state_->slots() && state_->accounts().devices[slot].torch_events > 0;
  if (!torch_may_follow) Close(row.thread);
}

void OomDetector::Observe(const EventRow& row, uint64_t event_index) {
  if (event_index >= next_sweep_) CloseLongOnes(event_index);
  Track(row);
  if (IsStatement(row)) {
    ObserveStatement(row);
  } else if (!IsOom(row)) {
    ObserveOther(row);
  } else if (row.layer == trace::TORCH) {
    ObserveReport(row, event_index);
  } else {
    ObserveFailure(row, event_index);
  }
}

void OomDetector::Close(uint32_t thread) {
  const auto it = chains_.find(thread);
  if (it == chains_.end()) return;
  Emit(std::move(it->second));
  chains_.erase(it);
}

// A program that goes on without ever asking again must not be watched for the rest of the trace.
void OomDetector::CloseLongOnes(uint64_t event_index) {
  next_sweep_ = event_index + kLongestChain / 4;
  std::vector<uint32_t> threads;
  for (const auto& [thread, chain] : chains_) {
    if (event_index - chain.first_index > kLongestChain) threads.push_back(thread);
  }
  for (const uint32_t thread : threads) Close(thread);
}

void OomDetector::CountRetry(const OomEvent& event, uint64_t failed_calls) {
  auto it = std::find_if(retries_.begin(), retries_.end(),
                         [&](const ServedRetries& retries) { return retries.device == event.device; });
  if (it == retries_.end()) {
    it = retries_.insert(it, ServedRetries());
    it->device = event.device;
    it->first_ns = event.started_ns;
  }
  ++it->count;
  it->failed_calls += failed_calls;
  it->released += event.released;
  it->released_calls += event.released_calls;
  it->time_ns += event.ended_ns - std::min(event.ended_ns, event.started_ns);
  it->last_ns = event.ended_ns;
  StackUse& use = retry_stacks_[{event.device, event.stack_id}];
  if (use.count++ == 0) {
    use.stack_id = event.stack_id;
    use.layer = event.layer;
    use.api = event.api;
    use.oldest_ns = event.started_ns;
  }
  use.bytes += event.requested;
  use.newest_ns = event.time_ns;
}

void OomDetector::Emit(Chain chain) {
  OomEvent& event = chain.event;
  event.final = chain.reported || !chain.succeeded;
  if (!chain.reported && chain.failed_calls > 0) event.retries = chain.failed_calls - 1;
  if (chain.reported && chain.failed_calls == 0)
    event.limited = event.device_stated && event.device_free >= event.requested;
  if (!event.final) CountRetry(event, chain.failed_calls);
  if (events_.size() >= kMaxEvents || (!event.final && served_ >= kMaxServedKept)) {
    dropped_ += event.final ? 1 : 0;
    return;
  }
  served_ += event.final ? 0 : 1;
  events_.push_back(std::move(event));
}

std::vector<OomEvent> OomDetector::Finish() {
  for (auto& [thread, chain] : chains_) Emit(std::move(chain));
  chains_.clear();
  std::sort(events_.begin(), events_.end(),
            [](const OomEvent& a, const OomEvent& b) { return a.event_index < b.event_index; });
  return std::move(events_);
}

std::vector<ServedRetries> OomDetector::TakeRetries() {
  for (ServedRetries& retries : retries_) {
    for (auto& [key, use] : retry_stacks_) {
      if (key.first == retries.device) retries.stacks.push_back(use);
    }
    std::sort(retries.stacks.begin(), retries.stacks.end(), [](const StackUse& a, const StackUse& b) {
      return a.count != b.count ? a.count > b.count : a.oldest_ns < b.oldest_ns;
    });
  }
  std::sort(retries_.begin(), retries_.end(),
            [](const ServedRetries& a, const ServedRetries& b) { return a.device < b.device; });
  return std::move(retries_);
}

}  // namespace gpumem
