// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the fake NVML answers. One device, whose UUID is fifteen bytes 0x5a and one of 7. Set by the test's thread,
// read by the thread that asks.

#ifndef GPUMEM_TESTS_SHIM_WITNESS_SAMPLER_FAKE_NVML_H_
#define GPUMEM_TESTS_SHIM_WITNESS_SAMPLER_FAKE_NVML_H_

#include <atomic>
#include <cstdint>

struct FakeNvml {
  std::atomic<int> init_result{0};
  std::atomic<int> memory_result{0};
  std::atomic<uint64_t> total{0}, used{0}, reserved{0};
  std::atomic<uint32_t> process_count{0};
  std::atomic<uint32_t> pids[8]{};
  std::atomic<uint64_t> bytes[8]{};
  std::atomic<bool> long_elements{false};  // as some drivers of the 535 series
  std::atomic<bool> hold{false};           // a question about memory does not come back until this is false
  std::atomic<uint32_t> questions{0};      // about memory, so far
};

extern "C" __attribute__((visibility("default"))) FakeNvml g_fake_nvml;

#endif  // GPUMEM_TESTS_SHIM_WITNESS_SAMPLER_FAKE_NVML_H_
