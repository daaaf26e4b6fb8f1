// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Progress: a line on stderr now and then that says how far a recording is (GPUMEMSHIM_STATUS), and the line of
// GPUMEMSHIM_LOG=debug at its beginning.
//
//   gpumemshim: 30 s: 204,551 events, 0 lost, 8.1 MiB; GPU 0: 12.3 GiB of 80 GiB used, 11.9 GiB by this process
//
// Thread-safety: SetProgressInterval and ProgressInterval any thread; SayProgress the writer's thread alone, about once
// a second, so a line comes up to a second late. The others are stateless. Failure: no line; what does not fit is cut.

#ifndef GPUMEM_SHIM_CONTROL_PROGRESS_H_
#define GPUMEM_SHIM_CONTROL_PROGRESS_H_

#include <cstddef>
#include <cstdint>

#include "shim/witness/sampler/sampler.h"
#include "shim/writer/writer.h"

namespace gpumemshim::control {

// Milliseconds; 0 = no lines. The first one comes an interval from now.
void SetProgressInterval(uint32_t interval_ms);
uint32_t ProgressInterval();

// Writes the line where it is time for it and it is said (IsSaid(kInfo)).
void SayProgress();

struct ProgressFacts {
  uint64_t seconds = 0;  // since the recording began
  uint64_t events = 0, lost = 0, file_bytes = 0;
  const sampler::DeviceUse* devices = nullptr;
  uint32_t device_count = 0;
};
size_t ProgressLine(const ProgressFacts& facts, char* out, size_t capacity);

struct BeginFacts {
  int32_t pid = 0;
  bool is_dormant = false;
  const writer::KeyValue* settings = nullptr;  // as the trace's header has them
  uint32_t settings_count = 0;
};
// "gpumemshim: recording process 4242, version 0.1.0, with GPUMEMSHIM_LOG=debug\n"
size_t BeginLine(const BeginFacts& facts, char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_PROGRESS_H_
