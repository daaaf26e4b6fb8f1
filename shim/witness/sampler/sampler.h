// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The sampling thread: asks NVML about once a second, and at the moments that matter, what the devices that this
// process uses say of their memory: used in all, by this process, by which others (docs/reconciliation.md).
//
//   writer thread                     sampling thread "gpumemshim-nvml"
//   AddDevice, SawEvent  --requests-->  asks, checks thresholds
//   PutSample            <--samples---  (a queue of four; a sample that finds it full is dropped)
//
// Why a thread of its own: NVML's first call may take seconds and later ones milliseconds, and the ring must be drained
// meanwhile. It makes no CUDA context and asks no CUDA function that needs one: cuMemGetInfo answers for the current
// context only, and this thread has none. It lives from the first device that is used to the program's exit, with all
// signals blocked. What it costs is bounded: it rests at least 200 times as long as the last sample took.
//
// Thread-safety: Configure, Finish and the fork functions: one at a time, by control. AddDevice, SawEvent, PutSample:
// the writer thread. Ownership: what Config points to is copied; its functions are called on the sampling thread,
// `warn` too. Failure: where NVML cannot be had, one sample says why, and the thread ends.

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_SAMPLER_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_SAMPLER_H_

#include <cstdint>

#include "shim/base/event.h"
#include "shim/base/proto_writer.h"
#include "shim/witness/sampler/sample.h"

namespace gpumemshim::sampler {

struct Config {
  uint32_t interval_ms = 1000;  // 0 = no samples at all
  const char* warn_at = "";     // sample.h
  // Reserved and used bytes of a device's default pool. Only called for devices whose stream-ordered memory was used.
  bool (*read_pool)(int16_t device, uint64_t* reserved, uint64_t* used) = nullptr;
  void (*warn)(const Crossing& crossing) = nullptr;
};

// Remembers the configuration; nothing starts before the first device.
void Configure(const Config& config);

// From now on this device is sampled. The first one starts the thread.
void AddDevice(int16_t device, const uint8_t (&uuid)[16]);

// An event of CUDA, or a failed request of any layer, was drained: it may ask for a sample.
void SawEvent(const Event& event);

// What the last sample that PutSample appended says of a device; kUnknown where it does not.
struct DeviceUse {
  int16_t device;
  uint64_t used, total, own;
};
// Of at most `capacity` devices; returns how many. The writer thread.
uint32_t LastUse(DeviceUse* out, uint32_t capacity);

// Appends the oldest sample that waits, as one packet of counters. False: none waits.
bool PutSample(ProtoWriter* w);

// The process ends at once: no thread starts any more. In a signal handler too.
void StartNoMore();

// Takes a last sample, a millisecond after the last change that was drained, and ends the thread. Waits at most
// timeout_ms for NVML, and where the thread gets no processor some times as long. Early in the program's exit, while
// the libraries that it asks still stand. The samples wait for PutSample; no thread starts any more.
void Finish(uint32_t timeout_ms);

// Around fork(): a child must not inherit NVML's or the loader's lock as this thread holds it. Waits for the question
// that is being asked, at most half a second.
void BeforeFork();
void AfterForkInParent();
void ForgetInChild();

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_SAMPLER_H_
