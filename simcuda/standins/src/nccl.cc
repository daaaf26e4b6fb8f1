// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NCCL: communicators of any size in which this process is the only one awake. A collective copies the local
// contribution to where the result belongs, so shapes, sizes and stream order are right and values are those of a world
// where every rank holds the same data.
//
// SIMCUDA_NCCL_MEM: bytes of device memory that each communicator takes while it lives, as the real library's buffers
// do (0 by default). SIMCUDA_NCCL_VERSION: the version to report (22809 is 2.28.9). Thread-safety: as the real library.
// Failure mode: 1 (ncclUnhandledCudaError) when the driver refuses, 4 (ncclInvalidArgument) for null outputs and
// unknown types.
#include <string.h>
#include <unistd.h>

#include "standin.h"

namespace {

enum Result { kSuccess = 0, kUnhandledCudaError = 1, kSystemError = 2, kInvalidArgument = 4 };

constexpr size_t kVersion = 22809;  // 2.28.9, which torch 2.11.0 pins
constexpr int kNoColor = -1;

struct UniqueId {
  char bytes[128];
};

struct Comm {
  int ranks;
  int rank;
  int device;
  uint64_t buffer;
};

size_t SizeOf(int type) {
  static constexpr unsigned char kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < static_cast<int>(sizeof(kSizes)) ? kSizes[type] : 0;
}

int Copy(void* to, const void* from, size_t elements, int type, void* stream) {
  if (SizeOf(type) == 0) return kInvalidArgument;
  return standin_copy(to, from, elements * SizeOf(type), stream) == 0 ? kSuccess : kUnhandledCudaError;
}

void* Shifted(void* pointer, size_t elements, int type) {
  return static_cast<char*>(pointer) + elements * SizeOf(type);
}
const void* Shifted(const void* pointer, size_t elements, int type) {
  return static_cast<const char*>(pointer) + elements * SizeOf(type);
}

int Allocate(uint64_t* out, size_t bytes) {
  auto* allocate = reinterpret_cast<int (*)(uint64_t*, size_t)>(standin_driver("cuMemAlloc_v2"));
  return allocate != nullptr && allocate(out, bytes) == 0 ? kSuccess : kUnhandledCudaError;
}

void Free(uint64_t pointer) {
  auto* release = reinterpret_cast<int (*)(uint64_t)>(standin_driver("cuMemFree_v2"));
  if (release != nullptr && pointer != 0) release(pointer);
}

int CurrentDevice() {
  auto* get = reinterpret_cast<int (*)(int*)>(standin_driver_if_loaded("cuCtxGetDevice"));
  int device = 0;
  return get != nullptr && get(&device) == 0 ? device : 0;
}

int Create(Comm** out, int ranks, int rank) {
  if (out == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return kInvalidArgument;
  auto* comm = static_cast<Comm*>(standin_handle());
  if (comm == nullptr) return kSystemError;
  *comm = Comm{ranks, rank, CurrentDevice(), 0};
  const size_t bytes = standin_setting("SIMCUDA_NCCL_MEM", 0);
  if (bytes > 0 && Allocate(&comm->buffer, bytes) != kSuccess) {
    standin_release(comm);
    return kUnhandledCudaError;
  }
  *out = comm;
  return kSuccess;
}

int Destroy(Comm* comm) {
  if (comm == nullptr) return kSuccess;
  Free(comm->buffer);
  standin_release(comm);
  return kSuccess;
}

int WriteInt(int* out, int value) {
  if (out == nullptr) return kInvalidArgument;
  *out = value;
  return kSuccess;
}

}  // namespace

STANDIN_API int ncclGetVersion(int* version) {
  return WriteInt(version, static_cast<int>(standin_setting("SIMCUDA_NCCL_VERSION", kVersion)));
}
STANDIN_API const char* ncclGetErrorString(int result) {
  return result == kSuccess ? "no error" : "simulated NCCL error";
}
STANDIN_API const char* ncclGetLastError(Comm*) { return ""; }

STANDIN_API int ncclGetUniqueId(UniqueId* id) {
  static int calls = 0;
  if (id == nullptr) return kInvalidArgument;
  const int parts[] = {static_cast<int>(getpid()), __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED)};
  memset(id, 0, sizeof(*id));
  memcpy(id->bytes, parts, sizeof(parts));
  return kSuccess;
}

STANDIN_API int ncclCommInitRank(Comm** comm, int ranks, UniqueId, int rank) { return Create(comm, ranks, rank); }
STANDIN_API int ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId, int rank, void*) {
  return Create(comm, ranks, rank);
}
STANDIN_API int ncclCommInitRankScalable(Comm** comm, int ranks, int rank, int, UniqueId*, void*) {
  return Create(comm, ranks, rank);
}
STANDIN_API int ncclCommInitAll(Comm** comms, int count, const int* devices) {
  for (int i = 0; i < count; ++i) {
    if (int result = Create(&comms[i], count, i); result != kSuccess) return result;
    comms[i]->device = devices != nullptr ? devices[i] : i;
  }
  return kSuccess;
}
// The new size is unknown to one rank alone; the parent's is an upper bound, and `key` orders the ranks.
STANDIN_API int ncclCommSplit(Comm* parent, int color, int key, Comm** out, void*) {
  if (parent == nullptr || out == nullptr) return kInvalidArgument;
  *out = nullptr;
  if (color == kNoColor) return kSuccess;
  return Create(out, parent->ranks, key >= 0 && key < parent->ranks ? key : parent->rank);
}
STANDIN_API int ncclCommShrink(Comm* parent, int*, int excluded, Comm** out, void*, int) {
  if (parent == nullptr || excluded < 0 || excluded >= parent->ranks) return kInvalidArgument;
  const int ranks = parent->ranks - excluded;
  return Create(out, ranks, parent->rank < ranks ? parent->rank : ranks - 1);
}
STANDIN_API int ncclCommDestroy(Comm* comm) { return Destroy(comm); }
STANDIN_API int ncclCommAbort(Comm* comm) { return Destroy(comm); }
STANDIN_API int ncclCommFinalize(Comm*) { return kSuccess; }

STANDIN_API int ncclCommCount(const Comm* comm, int* out) {
  return comm ? WriteInt(out, comm->ranks) : kInvalidArgument;
}
STANDIN_API int ncclCommUserRank(const Comm* comm, int* out) {
  return comm ? WriteInt(out, comm->rank) : kInvalidArgument;
}
STANDIN_API int ncclCommCuDevice(const Comm* comm, int* out) {
  return comm ? WriteInt(out, comm->device) : kInvalidArgument;
}
STANDIN_API int ncclCommGetAsyncError(Comm*, int* out) { return WriteInt(out, kSuccess); }

STANDIN_API int ncclCommRegister(Comm*, void* buffer, size_t, void** out) {
  if (out != nullptr) *out = buffer;
  return kSuccess;
}
STANDIN_API int ncclCommWindowRegister(Comm*, void* buffer, size_t, void** out, int) {
  if (out != nullptr) *out = buffer;
  return kSuccess;
}
STANDIN_API int ncclMemAlloc(void** out, size_t bytes) {
  if (out == nullptr) return kInvalidArgument;
  return Allocate(reinterpret_cast<uint64_t*>(out), bytes);
}
STANDIN_API int ncclMemFree(void* pointer) {
  Free(reinterpret_cast<uint64_t>(pointer));
  return kSuccess;
}

STANDIN_API int ncclAllReduce(const void* from, void* to, size_t count, int type, int, Comm*, void* stream) {
  return Copy(to, from, count, type, stream);
}
STANDIN_API int ncclReduce(const void* from, void* to, size_t count, int type, int, int root, Comm* comm,
                           void* stream) {
  return comm != nullptr && comm->rank == root ? Copy(to, from, count, type, stream) : kSuccess;
}
STANDIN_API int ncclBroadcast(const void* from, void* to, size_t count, int type, int, Comm*, void* stream) {
  return Copy(to, from, count, type, stream);
}
STANDIN_API int ncclBcast(void*, size_t, int, int, Comm*, void*) { return kSuccess; }

STANDIN_API int ncclAllGather(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
  if (comm == nullptr) return kInvalidArgument;
  int result = kSuccess;
  for (int i = 0; i < comm->ranks && result == kSuccess; ++i) {
    result = Copy(Shifted(to, static_cast<size_t>(i) * count, type), from, count, type, stream);
  }
  return result;
}
STANDIN_API int ncclReduceScatter(const void* from, void* to, size_t count, int type, int, Comm* comm, void* stream) {
  if (comm == nullptr) return kInvalidArgument;
  return Copy(to, Shifted(from, static_cast<size_t>(comm->rank) * count, type), count, type, stream);
}
STANDIN_API int ncclAlltoAll(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
  if (comm == nullptr) return kInvalidArgument;
  return Copy(to, from, count * static_cast<size_t>(comm->ranks), type, stream);
}
STANDIN_API int ncclGather(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
  return comm != nullptr && comm->rank == root ? ncclAllGather(from, to, count, type, comm, stream) : kSuccess;
}
STANDIN_API int ncclScatter(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
  return comm != nullptr && comm->rank == root ? ncclReduceScatter(from, to, count, type, 0, comm, stream) : kSuccess;
}

// Nothing is sent; what is received stays as it is in memory.
STANDIN_API int ncclSend(const void*, size_t, int, int, Comm*, void*) { return kSuccess; }
STANDIN_API int ncclRecv(void*, size_t, int, int, Comm*, void*) { return kSuccess; }
