// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NCCL: communicators of any size. Ranks that are processes of one machine meet in a file and hear short messages of
// each other (nccl_rendezvous.h); for one that is alone every other rank holds the same data. Shapes, sizes and stream
// order are right either way.
//
// SIMCUDA_NCCL_MEM: bytes of device memory that each communicator takes while it lives, as the real library's buffers
// do (0 by default). SIMCUDA_NCCL_VERSION: the version to report (22809 is 2.28.9). Thread-safety: as the real library.
// Failure mode: 1 (ncclUnhandledCudaError) when the driver refuses, 4 (ncclInvalidArgument) for null outputs and
// unknown types.
#include <stdlib.h>
#include <string.h>

#include "nccl_comm.h"

using namespace nccl;  // NOLINT: C functions only

namespace {

constexpr size_t kVersion = 22809;  // 2.28.9, which torch 2.11.0 pins
constexpr int kNoColor = -1;

struct UniqueId {
  char bytes[128];
};

int Allocate(uint64_t* out, size_t bytes) {
  auto* allocate = reinterpret_cast<int (*)(uint64_t*, size_t)>(stub_driver("cuMemAlloc_v2"));
  return allocate != nullptr && allocate(out, bytes) == 0 ? kSuccess : kUnhandledCudaError;
}

void Free(uint64_t pointer) {
  auto* release = reinterpret_cast<int (*)(uint64_t)>(stub_driver("cuMemFree_v2"));
  if (release != nullptr && pointer != 0) release(pointer);
}

int CurrentDevice() {
  auto* get = reinterpret_cast<int (*)(int*)>(stub_driver_if_loaded("cuCtxGetDevice"));
  int device = 0;
  return get != nullptr && get(&device) == 0 ? device : 0;
}

// `name` of the rendezvous; "" or null: alone.
int Create(Comm** out, int ranks, int rank, const char* name) {
  if (out == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return kInvalidArgument;
  auto* comm = static_cast<Comm*>(stub_handle());
  if (comm == nullptr) return kSystemError;
  *comm = Comm{ranks, rank, CurrentDevice(), 0, nullptr, 0, ""};
  const size_t bytes = stub_setting("SIMCUDA_NCCL_MEM", 0);
  if (bytes > 0 && Allocate(&comm->buffer, bytes) != kSuccess) {
    stub_release(comm);
    return kUnhandledCudaError;
  }
  if (name != nullptr) {
    memcpy(comm->name, name, sizeof(comm->name) - 1);
    comm->rendezvous = JoinRendezvous(comm->name, ranks, rank);
  }
  *out = comm;
  return kSuccess;
}

int Join(Comm** out, int ranks, int rank, const UniqueId& id) { return Create(out, ranks, rank, id.bytes); }

struct Choice {
  int color, key;
};

// The rank's place in its part, and the part's size, from what all ranks of the parent chose.
struct Part {
  int ranks = 0, rank = 0;
};

Part PartOf(const Comm* parent, const Choice* choices) {
  const Choice& own = choices[parent->rank];
  Part part;
  for (int i = 0; i < parent->ranks; ++i) {
    if (choices[i].color != own.color) continue;
    ++part.ranks;
    part.rank += choices[i].key < own.key || (choices[i].key == own.key && i < parent->rank);
  }
  return part;
}

// What every rank of the communicator chose; false where that is not known.
bool AskAll(Comm* comm, const Choice& own, Choice* choices) {
  if (IsAlone(comm->rendezvous) || MostBytes(comm->rendezvous) < sizeof(Choice) ||
      !GiveRound(comm->rendezvous, &own, sizeof(own)))
    return false;
  bool known = true;
  for (int i = 0; i < comm->ranks; ++i)
    known = TakeRound(comm->rendezvous, i, &choices[i], sizeof(Choice)) == Taken::kBytes && known;
  EndRound(comm->rendezvous);
  return known;
}

int Destroy(Comm* comm) {
  if (comm == nullptr) return kSuccess;
  Free(comm->buffer);
  LeaveRendezvous(comm->rendezvous);
  stub_release(comm);
  return kSuccess;
}

int WriteInt(int* out, int value) {
  if (out == nullptr) return kInvalidArgument;
  *out = value;
  return kSuccess;
}

}  // namespace

STUB_API int ncclGetVersion(int* version) {
  return WriteInt(version, static_cast<int>(stub_setting("SIMCUDA_NCCL_VERSION", kVersion)));
}
STUB_API const char* ncclGetErrorString(int result) { return result == kSuccess ? "no error" : "simulated NCCL error"; }
STUB_API const char* ncclGetLastError(Comm*) { return ""; }

STUB_API int ncclGetUniqueId(UniqueId* id) {
  if (id == nullptr) return kInvalidArgument;
  *id = {};
  char name[kNameBytes];
  if (!NameRendezvous(name)) return kSystemError;
  memcpy(id->bytes, name, sizeof(name));
  return kSuccess;
}

STUB_API int ncclCommInitRank(Comm** comm, int ranks, UniqueId id, int rank) { return Join(comm, ranks, rank, id); }
STUB_API int ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank, void*) {
  return Join(comm, ranks, rank, id);
}
// Each of several ids is one rank's; all ranks have all of them.
STUB_API int ncclCommInitRankScalable(Comm** comm, int ranks, int rank, int count, UniqueId* ids, void*) {
  return ids == nullptr || count < 1 ? kInvalidArgument : Join(comm, ranks, rank, ids[0]);
}
STUB_API int ncclCommInitAll(Comm** comms, int count, const int* devices) {
  for (int i = 0; i < count; ++i) {
    if (int result = Create(&comms[i], count, i, nullptr); result != kSuccess) return result;
    comms[i]->device = devices != nullptr ? devices[i] : i;
  }
  return kSuccess;
}
// Alone, the new size is not known; the parent's is an upper bound, and `key` orders the ranks.
STUB_API int ncclCommSplit(Comm* parent, int color, int key, Comm** out, void*) {
  if (parent == nullptr || out == nullptr) return kInvalidArgument;
  *out = nullptr;
  auto* choices = static_cast<Choice*>(calloc(static_cast<size_t>(parent->ranks), sizeof(Choice)));
  if (choices == nullptr) return kSystemError;
  const bool known = AskAll(parent, {color, key}, choices);
  const Part part = known ? PartOf(parent, choices) : Part{};
  free(choices);
  char name[kNameBytes];
  NameOfPart(parent->name, parent->parts++, color, name);
  if (color == kNoColor) return kSuccess;
  if (known) return Create(out, part.ranks, part.rank, name);
  return Create(out, parent->ranks, key >= 0 && key < parent->ranks ? key : parent->rank, nullptr);
}
STUB_API int ncclCommShrink(Comm* parent, int*, int excluded, Comm** out, void*, int) {
  if (parent == nullptr || excluded < 0 || excluded >= parent->ranks) return kInvalidArgument;
  const int ranks = parent->ranks - excluded;
  return Create(out, ranks, parent->rank < ranks ? parent->rank : ranks - 1, nullptr);
}
STUB_API int ncclCommDestroy(Comm* comm) { return Destroy(comm); }
STUB_API int ncclCommAbort(Comm* comm) { return Destroy(comm); }
STUB_API int ncclCommFinalize(Comm*) { return kSuccess; }

STUB_API int ncclCommCount(const Comm* comm, int* out) { return comm ? WriteInt(out, comm->ranks) : kInvalidArgument; }
STUB_API int ncclCommUserRank(const Comm* comm, int* out) {
  return comm ? WriteInt(out, comm->rank) : kInvalidArgument;
}
STUB_API int ncclCommCuDevice(const Comm* comm, int* out) {
  return comm ? WriteInt(out, comm->device) : kInvalidArgument;
}
STUB_API int ncclCommGetAsyncError(Comm*, int* out) { return WriteInt(out, kSuccess); }

STUB_API int ncclCommRegister(Comm*, void* buffer, size_t, void** out) {
  if (out != nullptr) *out = buffer;
  return kSuccess;
}
STUB_API int ncclCommWindowRegister(Comm*, void* buffer, size_t, void** out, int) {
  if (out != nullptr) *out = buffer;
  return kSuccess;
}
STUB_API int ncclMemAlloc(void** out, size_t bytes) {
  if (out == nullptr) return kInvalidArgument;
  return Allocate(reinterpret_cast<uint64_t*>(out), bytes);
}
STUB_API int ncclMemFree(void* pointer) {
  Free(reinterpret_cast<uint64_t>(pointer));
  return kSuccess;
}
