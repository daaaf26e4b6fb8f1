// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the rest of the driver may know of a stream.
//
// Thread-safety: all functions may be called from any thread.
#ifndef SIMCUDA_DRIVER_STREAM_H_
#define SIMCUDA_DRIVER_STREAM_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "simcuda/driver/capture.h"
#include "simcuda/driver/driver.h"

namespace simcuda {

struct Stream {
  Context* context = nullptr;  // null for the default streams: the current one
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  std::shared_ptr<Capture> capture{};  // set between begin and end
};

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  uint64_t time_ns = 0;
  uint32_t queries = 0;                // since it was recorded
  uint64_t synchronisations = 0;       // of the process, when it was recorded
  std::shared_ptr<Capture> capture{};  // set where the last record was captured
};

struct StreamState {
  int device = 0;
  bool capturing = false;
};

// Guards all streams, events and captures. Never held while the program's code runs, nor while the machine's is taken.
std::mutex& StreamMutex();

// The stream behind a handle, or null for a handle that is none; wants StreamMutex(). 0 and CU_STREAM_LEGACY are the
// legacy stream, CU_STREAM_PER_THREAD the calling thread's own.
Stream* FindStream(CUstream handle);
Event* FindEvent(CUevent handle);

// What a stream-ordered operation needs to know, or CUDA_ERROR_INVALID_HANDLE.
CUresult LookUpStream(CUstream handle, StreamState* state);

// Notes one operation on the stream: true where it was captured into a graph instead of being carried out.
CUresult Enqueue(CUstream handle, CUgraphNodeType type, bool* captured);

// The graph that the stream is being captured into, or null; and a node for it.
Graph* CapturingGraph(CUstream handle);
CUresult CaptureNode(CUstream handle, const Graph::Node& node);

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_STREAM_H_
