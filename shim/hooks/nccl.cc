// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Communicators of NCCL. What one takes, hundreds of MiB, NCCL allocates while it is made, in part in threads of its
// own: an event before and one after the call say which allocations are its, and how many ranks it has.
//
// NCCL is linked with, loaded by or part of whoever calls it, so the function behind ours is looked up for each caller;
// making a communicator takes a thousand times as long. Ours are found by the loader alone: who asks the library itself
// for a function's address (ctypes, JAX) goes past them, and that memory is NCCL's without a communicator.
//
// Thread-safety: any thread. Failure: where nothing is behind ours, NCCL's "system error".

#include <atomic>

#include "shim/base/calls/real.h"
#include "shim/base/memory_checkers.h"
#include "shim/base/symbol_lookup.h"
#include "shim/hooks/device.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

// As nccl.h has them.
struct NcclComm;
struct NcclConfig;
struct NcclUniqueId {
  char bytes[128];
};
constexpr int kSystemError = 2;

std::atomic<uint64_t> g_communicators;  // that were begun

void* Find(const char* name, const void* caller) {
  const ErrnoSaver saver;
  BypassMemoryCheckers();
  if (void* next = calls::NextInScope(name)) return next;
  if (void* own = FindInObjectOf(caller, name)) return own;
  char library[128];
  if (FindNeeded(caller, "libnccl", library, sizeof library)) {
    if (void* needed = FindInLoaded(library, name)) return needed;
  }
  if (void* loaded = FindInLoaded("libnccl", name)) return loaded;
  return FindInLoaded("", name);
}

void RecordPart(uint64_t number, bool ended, int ranks, int rank, int result) {
  if (session::IsOff()) return;
  const ErrnoSaver saver;
  const Scope scope;
  Event event = MakeEvent(ApiId::kNone, EventKind::kCommunicator, Memory::kDevice);
  event.device = CurrentDevice();
  event.handle = number;
  event.size = ended ? 1 : 0;
  event.requested_size = ranks > 0 ? static_cast<uint64_t>(ranks) : 0;
  event.stream = rank >= 0 ? static_cast<uint64_t>(rank) + 1 : 0;
  event.result = result;
  Emit(event);
}

constexpr int kNotKnown = -1;

template <typename Call>
int Make(int ranks, int rank, Call call) {
  const uint64_t number = g_communicators.fetch_add(1, std::memory_order_relaxed) + 1;
  RecordPart(number, false, ranks, rank, 0);
  const int result = call();
  RecordPart(number, true, ranks, rank, result);
  return result;
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

#define GPUMEM_NCCL_REAL(name) reinterpret_cast<decltype(&::name)>(Find(#name, __builtin_return_address(0)))

extern "C" {
#pragma GCC visibility push(default)

int ncclCommInitRank(NcclComm** out, int ranks, NcclUniqueId id, int rank) {
  const auto real = GPUMEM_NCCL_REAL(ncclCommInitRank);
  if (real == nullptr) return kSystemError;
  return Make(ranks, rank, [&] { return real(out, ranks, id, rank); });
}

int ncclCommInitRankConfig(NcclComm** out, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
  const auto real = GPUMEM_NCCL_REAL(ncclCommInitRankConfig);
  if (real == nullptr) return kSystemError;
  return Make(ranks, rank, [&] { return real(out, ranks, id, rank, config); });
}

int ncclCommInitRankScalable(NcclComm** out, int ranks, int rank, int id_count, NcclUniqueId* ids, NcclConfig* config) {
  const auto real = GPUMEM_NCCL_REAL(ncclCommInitRankScalable);
  if (real == nullptr) return kSystemError;
  return Make(ranks, rank, [&] { return real(out, ranks, rank, id_count, ids, config); });
}

// One communicator with all ranks in this process.
int ncclCommInitAll(NcclComm** out, int ranks, const int* devices) {
  const auto real = GPUMEM_NCCL_REAL(ncclCommInitAll);
  if (real == nullptr) return kSystemError;
  return Make(ranks, kNotKnown, [&] { return real(out, ranks, devices); });
}

// Its ranks are known to NCCL alone, and asking a communicator that is not ready yet makes NCCL warn.
int ncclCommSplit(NcclComm* parent, int color, int key, NcclComm** out, NcclConfig* config) {
  const auto real = GPUMEM_NCCL_REAL(ncclCommSplit);
  if (real == nullptr) return kSystemError;
  return Make(kNotKnown, kNotKnown, [&] { return real(parent, color, key, out, config); });
}

#pragma GCC visibility pop
}  // extern "C"
