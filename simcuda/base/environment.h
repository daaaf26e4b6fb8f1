// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Every setting of the simulated CUDA, read once from the environment. README.md documents each variable.
//
// Thread-safety: GetEnvironment() may be called from any thread; the result never changes afterwards, but for a forked
// child, which begins afresh and so reads again.
// Failure mode: a value that cannot be read as a number falls back to its default.
// Example: `if (GetEnvironment().verbose) ...`
#ifndef SIMCUDA_BASE_ENVIRONMENT_H_
#define SIMCUDA_BASE_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "simcuda/base/workspace_table.h"

namespace simcuda {

// Whose order of addresses a simulated device follows: that of NVIDIA's driver on Linux, or of the one under WSL2.

enum class AddressOrder { kLinux, kWsl2 };

// What a multiprocessor has, by compute capability: NVIDIA's CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability". PyTorch sizes buffers of reductions by it, kernels choose their shape by it.
//
// Thread-safety: pure. Failure mode: a capability that is not in the table has what the highest one below it has.
//
//   MultiprocessorOf(89).max_threads;  // 1536

struct Multiprocessor {
  int capability = 0;  // major * 10 + minor
  int max_threads = 0;
  int max_blocks = 0;
  int shared_bytes = 0;           // shared memory
  int block_shared_bytes = 0;     // of it, what one block may opt in to
  int reserved_shared_bytes = 0;  // what the system keeps of each block's
  int registers = 65536;
};

const Multiprocessor& MultiprocessorOf(int capability);

struct Environment {
  std::vector<int> visible_devices;  // physical index of each visible device, CUDA_VISIBLE_DEVICES applied
  uint64_t memory_bytes = 0;         // size of each device: SIMCUDA_MEM_MB, lowered by SIMCUDA_CAPACITY_MB
  uint64_t context_bytes = 0;        // SIMCUDA_CTX_MB, else as measured, else a guess (kNothing)
  uint64_t module_bytes = 0;         // SIMCUDA_MODULE_KB, in whole granules, else likewise
  Known context_known = Known::kNothing, module_known = Known::kNothing;
  std::string workspaces;            // SIMCUDA_WORKSPACES: measured, bound or none
  std::string cuda_version;          // SIMCUDA_CUDA_VERSION: which CUDA PyTorch was built for; empty: nobody said
  uint64_t green_context_bytes = 0;  // SIMCUDA_GREEN_CTX_MB
  uint64_t others_bytes = 0;         // SIMCUDA_OTHERS_MB: what a made-up other process holds on each device
  std::string shared_path;           // SIMCUDA_SHARED: the file that this machine's processes share
  bool late_events = false;          // SIMCUDA_EVENTS=late: ready from the next synchronisation on
  bool overcommit = false;           // SIMCUDA_OVERCOMMIT=1: a device gives more than it has
  AddressOrder address_order = AddressOrder::kLinux;  // SIMCUDA_ADDRESSES: linux or wsl2
  double data_dependent_share = 0;  // SIMCUDA_DATA_DEPENDENT: which share of elements a condition finds
  uint64_t content_bytes = 0;       // SIMCUDA_CONTENT_KB: longest copy whose contents are kept
  std::string name;                 // SIMCUDA_NAME
  int compute_capability = 90;      // SIMCUDA_CC, major * 10 + minor
  int multiprocessors = 132;        // SIMCUDA_SMS
  int shared_memory = 232448;       // SIMCUDA_SMEM: bytes a block may opt in to, else by capability
  Multiprocessor multiprocessor;    // by capability
  int l2_bytes = 62914560;          // SIMCUDA_L2
  int memory_bus_bits = 6144;       // SIMCUDA_MEMORY_BUS
  int memory_clock_khz = 3201000;   // SIMCUDA_MEMORY_CLOCK
  int clock_khz = 1980000;          // SIMCUDA_CLOCK
  int driver_version = 13000;       // SIMCUDA_DRIVER_VERSION
  uint64_t fail_first = 0;          // SIMCUDA_FAIL_ALLOC=first[,count]; 0: never
  uint64_t fail_count = 1;
  int fail_result = 2;            // SIMCUDA_FAIL_RESULT, a CUresult
  uint64_t max_launches = 0;      // SIMCUDA_MAX_LAUNCHES; 0: no limit
  uint64_t max_reads = 0;         // SIMCUDA_MAX_READS; 0: no limit
  uint64_t max_seconds = 0;       // SIMCUDA_MAX_SECONDS; 0: no limit
  std::string log_pattern;        // SIMCUDA_LOG; empty: no log
  std::string injection_path;     // CUDA_INJECTION64_PATH
  bool verbose = false;           // SIMCUDA_VERBOSE=1: say once what is not supported
  bool print_statistics = false;  // SIMCUDA_STATS=1: one line at exit
};

// Reads the process's environment afresh. Tests use it; everything else wants GetEnvironment().
Environment ReadEnvironment();

// The settings as they were at the process's first call.
const Environment& GetEnvironment();

// The list that CUDA_VISIBLE_DEVICES leaves of `device_count` devices. As in CUDA, the list ends at the first entry
// that names no device; a null `value` leaves all of them.
std::vector<int> VisibleDevices(const char* value, int device_count);

}  // namespace simcuda

#endif  // SIMCUDA_BASE_ENVIRONMENT_H_
