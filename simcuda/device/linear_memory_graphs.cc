// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LinearMemory's graph memory. A node's address exists from its creation on, its memory from the launch that reaches it
// until a free node, cuMemFree or cuMemFreeAsync. A device keeps what launches needed, for later ones, until a trim.
#include <algorithm>
#include <cstring>

#include "simcuda/device/granularity.h"
#include "simcuda/device/linear_memory.h"

namespace simcuda {
namespace {

uint64_t Rounded(uint64_t size) { return RoundUp(size, kSmallAlignment); }

}  // namespace

uint64_t LinearMemory::NewGraphRegion() {
  const std::lock_guard lock(machine_->mutex);
  const uint64_t region = machine_->NextId();
  graph_regions_[region] = 1;
  return region;
}

void LinearMemory::KeepGraphRegion(uint64_t region) {
  const std::lock_guard lock(machine_->mutex);
  ++graph_regions_.at(region);
}

void LinearMemory::DropGraphRegion(uint64_t region) {
  const std::lock_guard lock(machine_->mutex);
  DropGraphRegionLocked(region);
}

void LinearMemory::DropGraphRegionLocked(uint64_t region) {
  if (--graph_regions_.at(region) > 0) return;
  graph_regions_.erase(region);
  for (auto at = graph_blocks_.begin(); at != graph_blocks_.end();) {
    if (at->second.region != region) {
      ++at;
      continue;
    }
    machine_->addresses.GiveReservation(at->first, RoundUp(at->second.size, kGranule));
    at = graph_blocks_.erase(at);
  }
}

CUresult LinearMemory::AddGraphAllocation(const Caller& caller, uint64_t region, uint64_t size, uint64_t* address) {
  const std::lock_guard lock(machine_->mutex);
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto place = size <= machine_->addresses.size()
                         ? machine_->addresses.TakeReservation(RoundUp(size, kGranule), kGranule, 0)
                         : std::nullopt;
  if (!place) return CUDA_ERROR_OUT_OF_MEMORY;
  graph_blocks_[*place] = {.size = size, .device = caller.device, .region = region};
  *address = *place;
  machine_->Log({.api = caller.api,
                 .kind = "graph_node",
                 .device = caller.device,
                 .address = *place,
                 .size = size,
                 .handle = region,
                 .stream = caller.stream});
  return CUDA_SUCCESS;
}

CUresult LinearMemory::AddGraphFree(const Caller& caller, uint64_t address) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = graph_blocks_.find(address);
  if (found == graph_blocks_.end()) return CUDA_ERROR_INVALID_VALUE;
  machine_->Log({.api = caller.api,
                 .kind = "graph_node_free",
                 .device = found->second.device,
                 .address = address,
                 .size = found->second.size,
                 .handle = found->second.region,
                 .stream = caller.stream});
  return CUDA_SUCCESS;
}

// What a launch of the steps needs at its peak on each device, beyond what is used now; empty where a step makes no
// sense: memory allocated that is there already, or freed that is not.
std::vector<uint64_t> LinearMemory::GraphPeaks(const std::vector<GraphStep>& steps, bool free_first) const {
  std::vector<int64_t> now(graph_pools_.size()), peak(graph_pools_.size());
  std::map<uint64_t, bool> live;  // of the addresses that the steps name
  const auto is_live = [&](uint64_t address) { return allocations_.count(address) > 0; };
  for (const GraphStep& step : steps) {
    if (graph_blocks_.count(step.address) == 0) return {};
    if (!step.allocates || !free_first || !live.emplace(step.address, false).second) continue;
    const GraphBlock& block = graph_blocks_.at(step.address);
    if (is_live(step.address)) now[static_cast<size_t>(block.device)] -= static_cast<int64_t>(Rounded(block.size));
  }
  for (const GraphStep& step : steps) {
    const GraphBlock& block = graph_blocks_.at(step.address);
    const auto device = static_cast<size_t>(block.device);
    bool& there = live.emplace(step.address, is_live(step.address)).first->second;
    if (there == step.allocates) return {};
    there = step.allocates;
    const auto bytes = static_cast<int64_t>(Rounded(block.size));
    now[device] += step.allocates ? bytes : -bytes;
    peak[device] = std::max(peak[device], now[device]);
  }
  return {peak.begin(), peak.end()};
}

CUresult LinearMemory::GrowGraphPools(const std::vector<uint64_t>& peaks, uint64_t* grown_bytes) {
  std::vector<uint64_t> grown(peaks.size());
  for (size_t device = 0; device < peaks.size(); ++device) {
    GraphPool& pool = graph_pools_[device];
    const uint64_t wanted = RoundUp(pool.used + peaks[device], kGranule);
    grown[device] = wanted > pool.reserved ? wanted - pool.reserved : 0;
    if (grown[device] == 0 || machine_->devices[device]->Charge(grown[device])) continue;
    for (size_t earlier = 0; earlier < device; ++earlier) machine_->devices[earlier]->Discharge(grown[earlier]);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (size_t device = 0; device < peaks.size(); ++device) {
    GraphPool& pool = graph_pools_[device];
    pool.reserved += grown[device];
    pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
    *grown_bytes += grown[device];
  }
  return CUDA_SUCCESS;
}

void LinearMemory::CarryOut(const Caller& caller, const GraphStep& step, uint64_t handle) {
  const GraphBlock& block = graph_blocks_.at(step.address);
  if (!step.allocates) {
    const Allocation allocation = allocations_.at(step.address);
    allocations_.erase(step.address);
    ++machine_->free_calls;
    machine_->device(block.device).RemoveLive(block.size);
    Release(allocation);
  } else {
    GraphPool& pool = graph_pools_[static_cast<size_t>(block.device)];
    pool.used += Rounded(block.size);
    pool.used_high = std::max(pool.used_high, pool.used);
    ++graph_regions_.at(block.region);
    machine_->device(block.device).AddLive(block.size);
    allocations_.emplace(step.address, Allocation{.address = step.address,
                                                  .size = block.size,
                                                  .device = block.device,
                                                  .kind = AllocationKind::kGraph,
                                                  .context = caller.context,
                                                  .id = machine_->NextId()});
  }
  machine_->Log({.api = caller.api,
                 .kind = step.allocates ? "graph_alloc" : "graph_free",
                 .device = block.device,
                 .address = step.address,
                 .size = block.size,
                 .handle = handle,
                 .stream = caller.stream});
}

CUresult LinearMemory::LaunchGraph(const Caller& caller, const std::vector<GraphStep>& steps, bool free_first,
                                   uint64_t handle) {
  const std::lock_guard lock(machine_->mutex);
  uint64_t grown_bytes = 0;
  const std::vector<uint64_t> peaks = GraphPeaks(steps, free_first);
  CUresult result = peaks.empty() ? CUDA_ERROR_INVALID_VALUE : machine_->NextForcedFailure();
  if (result == CUDA_SUCCESS) result = GrowGraphPools(peaks, &grown_bytes);
  machine_->Log({.api = caller.api,
                 .kind = "graph_launch",
                 .device = caller.device,
                 .size = grown_bytes,
                 .handle = handle,
                 .stream = caller.stream,
                 .result = result});
  if (result != CUDA_SUCCESS) return result;
  for (const GraphStep& step : steps) {
    const bool left_over = free_first && step.allocates && allocations_.count(step.address) > 0;
    if (left_over) CarryOut(caller, {.address = step.address, .allocates = false}, handle);
  }
  for (const GraphStep& step : steps) CarryOut(caller, step, handle);
  return CUDA_SUCCESS;
}

CUresult LinearMemory::UploadGraph(const Caller& caller, const std::vector<GraphStep>& steps, bool free_first,
                                   uint64_t handle) {
  const std::lock_guard lock(machine_->mutex);
  uint64_t grown_bytes = 0;
  const std::vector<uint64_t> peaks = GraphPeaks(steps, free_first);
  const CUresult result = peaks.empty() ? CUDA_SUCCESS : GrowGraphPools(peaks, &grown_bytes);
  machine_->Log({.api = caller.api,
                 .kind = "graph_upload",
                 .device = caller.device,
                 .size = grown_bytes,
                 .handle = handle,
                 .stream = caller.stream,
                 .result = result});
  return result;
}

void LinearMemory::TrimGraphMemory(const Caller& caller) {
  const std::lock_guard lock(machine_->mutex);
  GraphPool& pool = graph_pools_[static_cast<size_t>(caller.device)];
  const uint64_t kept = RoundUp(pool.used, kGranule), released = pool.reserved - kept;
  machine_->device(caller.device).Discharge(released);
  pool.reserved = kept;
  machine_->Log({.api = caller.api, .kind = "graph_trim", .device = caller.device, .size = released});
}

void LinearMemory::ReleaseGraphMemory(const Allocation& allocation) {
  graph_pools_[static_cast<size_t>(allocation.device)].used -= Rounded(allocation.size);
  DropGraphRegionLocked(graph_blocks_.at(allocation.address).region);
}

CUresult LinearMemory::GetGraphAttribute(int device, CUgraphMem_attribute attribute, void* value) {
  const std::lock_guard lock(machine_->mutex);
  const GraphPool& pool = graph_pools_[static_cast<size_t>(device)];
  const uint64_t values[] = {pool.used, pool.used_high, pool.reserved, pool.reserved_high};
  if (attribute < CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(value, &values[attribute], sizeof values[attribute]);
  return CUDA_SUCCESS;
}

CUresult LinearMemory::ResetGraphAttribute(int device, CUgraphMem_attribute attribute, const void* value) {
  const std::lock_guard lock(machine_->mutex);
  GraphPool& pool = graph_pools_[static_cast<size_t>(device)];
  uint64_t wanted = 0;
  std::memcpy(&wanted, value, sizeof wanted);
  if (wanted != 0) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) {
    pool.used_high = pool.used;
  } else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
    pool.reserved_high = pool.reserved;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace simcuda
