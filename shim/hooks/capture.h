// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stream capture: while a stream is captured, its memory calls become nodes of a graph and no memory moves, and calls
// that are harmless elsewhere break the capture. So the hooks must know, and must know it cheaply.
//
// Thread-safety: any thread. Failure: a capture whose end was never seen (a destroyed stream) counts as going on, which
// costs measured values and nothing else.
//
//   if (capture::IsCapturing(stream)) capture::MarkNode(event);

#ifndef GPUMEM_SHIM_HOOKS_CAPTURE_H_
#define GPUMEM_SHIM_HOOKS_CAPTURE_H_

#include <atomic>
#include <cstdint>

#include "shim/base/event.h"
#include "shim/hooks/cuda_api.h"

namespace gpumemshim::hooks::capture {

// Captures begun and not ended in this process.
extern std::atomic<int32_t> g_active;

inline bool AnyActive() { return g_active.load(std::memory_order_relaxed) > 0; }

// How many captures have begun so far: names the last one.
extern std::atomic<uint64_t> g_begun;

// Asks the driver, which is safe during any capture. The per-thread form is asked where the caller is one.
bool AskDriver(CUstream stream, bool per_thread);

inline bool IsCapturing(CUstream stream, bool per_thread = false) {
  return AnyActive() && AskDriver(stream, per_thread);
}

// Makes an allocation's event that of a node.
void MarkNode(Event& event);

}  // namespace gpumemshim::hooks::capture

#endif  // GPUMEM_SHIM_HOOKS_CAPTURE_H_
