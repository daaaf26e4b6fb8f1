// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// On which device a call took place, asked of the driver after the call succeeded. The questions neither synchronise
// nor change the context, the runtime's last error, or a stream capture.
//
// Thread-safety: any thread. Failure: kNoDevice, as on a thread without a context.

#ifndef GPUMEM_SHIM_HOOKS_DEVICE_H_
#define GPUMEM_SHIM_HOOKS_DEVICE_H_

#include <atomic>
#include <cstdint>

namespace gpumemshim::hooks {

// The current context's device.
int16_t CurrentDevice();

// The device that owns an address; the current one where the driver does not say.
int16_t DeviceOfAddress(uint64_t address);

// The device of a stream's new memory: a real stream may belong to another device than the current one.
int16_t DeviceOfStreamAllocation(uint64_t stream, uint64_t address);

// Size of the allocation that begins at an address; 0 = not known.
uint64_t SizeOfAddress(uint64_t address);

// What cuMemGetInfo says of `device` now. False where it is not the calling thread's current one, or the driver does
// not answer. Safe while a stream is captured: the thread's capture mode is relaxed around the question, as PyTorch
// does around its own.
bool MemoryOfDevice(int16_t device, uint64_t* free_bytes, uint64_t* total_bytes);

// What the pool `handle` (0 = the current one of `device`) holds of the device, and how much of that is in use. False
// where the driver does not say.
bool MemoryOfPool(uint64_t handle, int16_t device, uint64_t* used_bytes, uint64_t* reserved_bytes);

// Which of the process's contexts are not a device's primary one. What is allocated in such a context goes with it,
// so its allocations name it (Event.handle); 0 stands for the primary context, which is what nearly everybody uses.
//
// Thread-safety: any thread. Failure: beyond kMax contexts, allocations count as the primary context's.
//
//   event.handle = OwnContext();   // one load where no such context exists

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

#endif  // GPUMEM_SHIM_HOOKS_DEVICE_H_
