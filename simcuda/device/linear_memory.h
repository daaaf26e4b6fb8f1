// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory with a device address: plain, managed, stream-ordered (from pools), static variables. One table knows them
// all, because CUDA lets each be freed by cuMemFree.
//
// Thread-safety: every public method locks the machine. Ownership: borrows the machine, owns the pools.
// Failure mode: CUresult; nothing changes on failure, and a failed call is logged as alloc_failed or free_failed.
// Example:
//   uint64_t address;
//   CUresult result = memory.Allocate({.api = "cuMemAlloc_v2", .device = 0}, 4096, AllocationKind::kDevice, &address);
#ifndef SIMCUDA_DEVICE_LINEAR_MEMORY_H_
#define SIMCUDA_DEVICE_LINEAR_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "simcuda/device/machine.h"
#include "simcuda/device/memory_pool.h"

namespace simcuda {

// Who calls, for the log and for the record of the allocation.
struct Caller {
  const char* api = "";
  int device = -1;
  const void* context = nullptr;
  uint64_t stream = 0;
};

enum class AllocationKind {
  kDevice,
  kManaged,  // host-visible, charged to no device
  kPool,
  kStatic,    // a module's variable: part of the context's size, charged to nobody
  kGraph,     // made by a graph's launch, from what the device keeps for graphs
  kImported,  // another process's, by an IPC handle or a pool's pointer: charged to that process
  kExternal,  // a buffer in memory that another interface than CUDA made: charged to nobody
};

struct Allocation {
  uint64_t address = 0;
  uint64_t size = 0;  // as requested
  int device = -1;
  AllocationKind kind = AllocationKind::kDevice;
  const void* context = nullptr;
  MemoryPool* pool = nullptr;
  uint64_t id = 0;
  int imports = 0;  // open IPC handles
};

// One memory node of a graph, as a launch carries it out.
struct GraphStep {
  uint64_t address = 0;
  bool allocates = false;  // false: frees
};

class LinearMemory {
 public:
  explicit LinearMemory(Machine* machine);

  CUresult Allocate(const Caller& caller, uint64_t size, AllocationKind kind, uint64_t* address);

  // Frees memory of any kind; 0 is fine. FreeAsync refuses managed memory, as CUDA does.
  CUresult Free(const Caller& caller, uint64_t address);
  CUresult FreeAsync(const Caller& caller, uint64_t address);

  // Null `pool`: the device's current pool.
  CUresult AllocateFromPool(const Caller& caller, MemoryPool* pool, uint64_t size, uint64_t* address);

  MemoryPool* default_pool(int device) const { return default_pools_[static_cast<size_t>(device)]; }
  MemoryPool* current_pool(int device);
  CUresult SetCurrentPool(int device, MemoryPool* pool);

  // The pools of host memory; the default one is made when it is first asked for.
  MemoryPool* default_host_pool();
  MemoryPool* current_host_pool();
  CUresult SetCurrentHostPool(MemoryPool* pool);

  // `device` -1 makes a pool of host memory.
  CUresult CreatePool(const Caller& caller, uint64_t max_bytes, MemoryPool** pool);
  int PoolDevice(const MemoryPool* pool);  // -1 for a pool of host memory and for what is not a pool
  CUresult DestroyPool(const Caller& caller, MemoryPool* pool);
  CUresult TrimPool(const Caller& caller, MemoryPool* pool, uint64_t keep_bytes);
  CUresult GetPoolAttribute(MemoryPool* pool, CUmemPool_attribute attribute, void* value);
  CUresult SetPoolAttribute(const Caller& caller, MemoryPool* pool, CUmemPool_attribute attribute, const void* value);

  // Graph memory (linear_memory_graphs.cc). A region holds the addresses of one graph's nodes while anybody keeps it:
  // the graph, its executable, memory that is still live.
  uint64_t NewGraphRegion();
  void KeepGraphRegion(uint64_t region);
  void DropGraphRegion(uint64_t region);
  CUresult AddGraphAllocation(const Caller& caller, uint64_t region, uint64_t size, uint64_t* address);
  CUresult AddGraphFree(const Caller& caller, uint64_t address);

  // Carries the steps out, all or none. `free_first` frees what an earlier launch left (else that is an error).
  CUresult LaunchGraph(const Caller& caller, const std::vector<GraphStep>& steps, bool free_first, uint64_t handle);
  CUresult UploadGraph(const Caller& caller, const std::vector<GraphStep>& steps, bool free_first, uint64_t handle);
  void TrimGraphMemory(const Caller& caller);
  CUresult GetGraphAttribute(int device, CUgraphMem_attribute attribute, void* value);
  CUresult ResetGraphAttribute(int device, CUgraphMem_attribute attribute, const void* value);

  // What a synchronisation does to the device's pools; a negative device means all.
  void Synchronize(int device);

  // The allocation that contains the address.
  std::optional<Allocation> Find(uint64_t address);

  // Counts an IPC import of the allocation at exactly `address` up or down.
  CUresult ChangeImports(const Caller& caller, uint64_t address, int change);

  // Addresses for memory that is not ours (linear_memory.cc): charged nowhere. `source` is what it came from.
  CUresult AddForeign(const Caller& caller, AllocationKind kind, uint64_t size, uint64_t source, MemoryPool* pool,
                      uint64_t* address);
  CUresult RemoveForeign(const Caller& caller, uint64_t address);

  // A pool of another process: it hands out nothing, its pointers are imported one by one.
  CUresult ImportPool(const Caller& caller, MemoryPool** pool);
  bool IsImportedPool(const MemoryPool* pool);

  // The implicit release of all that a context owned.
  void DropContext(const Caller& caller);

  size_t live_allocations();

 private:
  class HostGranules : public GranuleSource {
   public:
    explicit HostGranules(Machine* machine) : machine_(machine) {}
    std::optional<uint64_t> TakeGranules(uint64_t size) override;
    void GiveGranules(uint64_t address, uint64_t size) override;

   private:
    Machine* const machine_;
  };

  MemoryPool* AddPool(int device, uint64_t max_bytes);
  bool IsPool(const MemoryPool* pool) const;
  void ErasePool(MemoryPool* pool);
  std::optional<uint64_t> Place(int device, uint64_t size, AllocationKind kind);
  CUresult Remember(const Caller& caller, const Allocation& allocation);
  CUresult FailAllocation(const Caller& caller, uint64_t size, uint64_t handle, CUresult result);
  CUresult FreeLocked(const Caller& caller, uint64_t address, bool async);
  void Release(const Allocation& allocation);
  void LogFree(const Caller& caller, const Allocation& allocation, uint64_t pool_id);

  struct GraphBlock {
    uint64_t size = 0;
    int device = 0;
    uint64_t region = 0;
  };
  struct GraphPool {
    uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  };
  void DropGraphRegionLocked(uint64_t region);
  std::vector<uint64_t> GraphPeaks(const std::vector<GraphStep>& steps, bool free_first) const;
  CUresult GrowGraphPools(const std::vector<uint64_t>& peaks, uint64_t* grown_bytes);
  void CarryOut(const Caller& caller, const GraphStep& step, uint64_t handle);
  void ReleaseGraphMemory(const Allocation& allocation);

  Machine* const machine_;
  HostGranules host_granules_;
  std::map<uint64_t, Allocation> allocations_;  // by address
  std::vector<std::unique_ptr<MemoryPool>> pools_;
  std::vector<MemoryPool*> default_pools_, current_pools_;
  MemoryPool *default_host_pool_ = nullptr, *current_host_pool_ = nullptr;
  std::map<uint64_t, GraphBlock> graph_blocks_;      // by address
  std::unordered_map<uint64_t, int> graph_regions_;  // references
  std::vector<GraphPool> graph_pools_;               // by device
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_LINEAR_MEMORY_H_
