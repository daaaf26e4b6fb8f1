// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Switching the recording on and off in a process that is set up, and what there is to say about it. session.cc, which
// owns the state, implements it.
//
// Thread-safety: any thread; one switches at a time, and a second one that comes meanwhile is turned away. Never from a
// hook. Failure: false, and the state is as before.
//
//   if (StopRecording()) ...        // hooks pass everything through
//   if (StartRecording()) ...       // a new span in the same trace

#ifndef GPUMEM_SHIM_CONTROL_RECORDING_H_
#define GPUMEM_SHIM_CONTROL_RECORDING_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/api.h"
#include "shim/writer/writer.h"

namespace gpumemshim::control {

enum class Recording {
  kNotSetUp,  // CUDA was not used yet, or recording is switched off altogether
  kDormant,   // set up, nothing recorded so far
  kRecording,
  kPaused,
  kFailed,  // no memory, no thread
  kEnded,
};
const char* RecordingName(Recording recording);

struct RecordingStatus {
  Recording recording = Recording::kNotSetUp;
  const char* program = "";
  int32_t pid = 0;
  uint64_t since_ns = 0;  // CLOCK_MONOTONIC; of the present span, 0 where there is none
  uint64_t spans = 0;     // so far, the present one included
};
RecordingStatus GetRecordingStatus();

// On: true where it is on afterwards. Before CUDA is used, both say how it is to begin.
bool StartRecording();
bool StopRecording();
// From one to the other.
bool SwitchRecording();

// Everything recorded so far is in the file, within this time. False where it is not, or there is no file.
bool FlushRecording(uint32_t timeout_ms);

// Requests for memory that failed since the process began: of PyTorch's allocator (kTorch; for good), or of CUDA. Any
// thread.
uint64_t FailedRequests(Layer layer);
void CountFailedRequest(Layer layer);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_RECORDING_H_
