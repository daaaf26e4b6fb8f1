// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The state of a session that session.cc (its life), recording.cc (its switch) and ending.cc (its end) share.
// session.cc draws it.
//
// Thread-safety: atomics; g_facts and g_settings are written while the state is kStarting and read afterwards.

#ifndef GPUMEM_SHIM_CONTROL_SESSION_STATE_H_
#define GPUMEM_SHIM_CONTROL_SESSION_STATE_H_

#include <sys/auxv.h>

#include <atomic>
#include <cstdint>

#include "shim/settings/process_facts.h"
#include "shim/settings/rank_settings.h"
#include "shim/settings/settings.h"

namespace gpumemshim::control {

enum class State : uint32_t { kIdle, kStarting, kActive, kFailed, kForked, kEnded, kDormant, kSwitching, kPaused };

// How recording is to begin, as the program said before it used CUDA (gpumemshim.h).
enum class Wish : uint32_t { kNone, kDormant, kRecord };

extern std::atomic<State> g_state;
extern std::atomic<int32_t> g_pid;  // process that the session belongs to
extern std::atomic<Wish> g_wish;
extern std::atomic<uint64_t> g_since_ns;  // of the present span; 0 = none
extern std::atomic<uint64_t> g_spans;
extern std::atomic<int32_t> g_starter;  // id of the thread that sets up, or did
extern ProcessFacts g_facts;
extern Settings g_settings;
extern RankSettings g_rank_settings;

// The first time in this process: everything that a recording needs and a dormant process does not.
bool BeginRecording();

// Recording is on from here: counts, and tells the trace what stages are open.
void BeginSpan();

// A program that has more rights than who started it: set-uid, set-gid, file capabilities. LD_PRELOAD does not bring us
// there, but /etc/ld.so.preload does. Its environment is that user's, and a file that it names would be made with
// rights that the user does not have. So nothing of ours happens there: the hooks hand on, and that is all.
//
//   if (IsSecureMode()) return false;
inline bool IsSecureMode() { return getauxval(AT_SECURE) != 0; }

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SESSION_STATE_H_
