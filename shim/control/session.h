// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What hooks ask of the recording's life: whether they are to look at a call at all, and that it begin.
//
// Thread-safety: any thread, also inside each other. Failure: false, and the call goes unrecorded.

#ifndef GPUMEM_SHIM_CONTROL_SESSION_H_
#define GPUMEM_SHIM_CONTROL_SESSION_H_

#include <atomic>

namespace gpumemshim::session {

// Recording was switched off, or is not to begin yet: calls pass through unlooked at. A hint, so that they cost next to
// nothing; whether an event is taken is the ring's decision.
extern std::atomic<bool> g_off;
inline bool IsOff() { return g_off.load(std::memory_order_relaxed); }

// The driver was initialised in this process: set up here, outside of any allocator's lock. Safe to call again.
bool StartAtInit();

// An event wants to be recorded and the ring is not active: the driver's initialisation was missed, the session has
// ended, or this is a forked child (which starts at its own cuInit only).
bool StartAtEvent();

// True once in a session.
bool IsFirstEvent();

// Whether the helper was asked for since recording began: at PyTorch's first block, in the thread that asked for it.
// The writer's thread comes to it 50 ms later, when a short program has ended already and with it the chance to see
// where its own code ends.
extern std::atomic<bool> g_asked_helper;
void AskHelper();
inline void SawBlock() {
  if (!g_asked_helper.load(std::memory_order_relaxed)) [[unlikely]]
    AskHelper();
}

}  // namespace gpumemshim::session

#endif  // GPUMEM_SHIM_CONTROL_SESSION_H_
