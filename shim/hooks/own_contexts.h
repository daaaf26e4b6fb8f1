// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which of the process's contexts are not a device's primary one. What is allocated in such a context goes with it,
// so its allocations name it (Event.handle); 0 stands for the primary context, which is what nearly everybody uses.
//
// Thread-safety: any thread. Failure: beyond kMax contexts, allocations count as the primary context's.
//
//   event.handle = OwnContext();   // one load where no such context exists

#ifndef GPUMEM_SHIM_HOOKS_OWN_CONTEXTS_H_
#define GPUMEM_SHIM_HOOKS_OWN_CONTEXTS_H_

#include <atomic>
#include <cstdint>

namespace gpumemshim::hooks {

extern std::atomic<int32_t> g_own_contexts;

// The current context where it is one of them, else 0.
uint64_t FindOwnContext();

inline uint64_t OwnContext() { return g_own_contexts.load(std::memory_order_relaxed) == 0 ? 0 : FindOwnContext(); }

void AddOwnContext(uint64_t context);
void RemoveOwnContext(uint64_t context);

bool IsOwnContext(uint64_t context);

// Users beyond the one that made it (cuCtxAttach). TakeUser: false where there is none left, so the context ends.
void AddUser(uint64_t context);
bool TakeUser(uint64_t context);

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_OWN_CONTEXTS_H_
