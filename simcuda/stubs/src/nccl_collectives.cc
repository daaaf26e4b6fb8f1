// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NCCL's collectives. Where contents are kept, which is in short copies, each rank gets what the others gave, and sums
// are sums. Longer ones are copies of the local contribution, without waiting for anybody.
#include <stdlib.h>
#include <string.h>

#include "nccl_comm.h"

using namespace nccl;  // NOLINT: C functions only

namespace nccl {

bool HasContents(const Comm* comm, size_t bytes, void* stream) {
  const size_t most =
      comm->rendezvous != nullptr ? MostBytes(comm->rendezvous) : stub_setting("SIMCUDA_CONTENT_KB", 1024) << 10;
  if (bytes == 0 || bytes > most) return false;
  auto* is_capturing = reinterpret_cast<int (*)(void*, int*)>(stub_driver_if_loaded("cuStreamIsCapturing"));
  int capturing = 0;
  return is_capturing == nullptr || is_capturing(stream, &capturing) != 0 || capturing == 0;
}

// What is sent without being known (simcuda/device/contents.h) is not known where it arrives.
static thread_local bool t_is_known = true;

bool Peek(void* target, const void* source, size_t bytes) {
  auto* look = reinterpret_cast<uint64_t (*)(uint64_t, uint64_t, int*)>(stub_driver_if_loaded("simcuda_bytes"));
  constexpr int kKnown = 2;  // simcuda/device/contents.h, Truth
  int truth = kKnown;
  if (look != nullptr && source != nullptr) look(reinterpret_cast<uint64_t>(source), bytes, &truth);
  t_is_known = truth == kKnown;
  auto* peek = reinterpret_cast<bool (*)(void*, uint64_t, uint64_t)>(stub_driver_if_loaded("simcuda_peek"));
  return peek != nullptr && source != nullptr && peek(target, reinterpret_cast<uint64_t>(source), bytes);
}

static int PutBytes(void* target, const void* bytes, size_t size, void* stream) {
  if (bytes != nullptr) return stub_copy(target, bytes, size, stream) == 0 ? kSuccess : kUnhandledCudaError;
  auto* fill = reinterpret_cast<int (*)(uint64_t, unsigned char, size_t, void*)>(stub_driver("cuMemsetD8Async"));
  return fill != nullptr && fill(reinterpret_cast<uint64_t>(target), 0, size, stream) == 0 ? kSuccess
                                                                                           : kUnhandledCudaError;
}

int Put(void* target, const void* bytes, size_t size, void* stream) {
  if (target == nullptr) return kSuccess;
  const int result = PutBytes(target, bytes, size, stream);
  auto* doubt = reinterpret_cast<void (*)(uint64_t, uint64_t)>(stub_driver_if_loaded("simcuda_doubt"));
  if (!t_is_known && doubt != nullptr) doubt(reinterpret_cast<uint64_t>(target), size);
  t_is_known = true;
  return result;
}

}  // namespace nccl

namespace {

// What the ranks give in one collective. The round lasts as long as it.
class Gifts {
 public:
  Gifts(Comm* comm, const void* from, size_t bytes) : comm_(comm), bytes_(bytes) {
    own_ = calloc(2, bytes);
    if (own_ == nullptr) return;
    other_ = Shifted(own_, bytes);
    any_ = Peek(own_, from, bytes);
    if (!IsAlone(comm->rendezvous)) given_ = GiveRound(comm->rendezvous, any_ ? own_ : nullptr, bytes);
  }
  ~Gifts() {
    if (given_) EndRound(comm_->rendezvous);
    free(own_);
  }
  Gifts(const Gifts&) = delete;
  Gifts& operator=(const Gifts&) = delete;

  bool ok() const { return own_ != nullptr; }

  // What a rank gave, until the next call. Of an absent one: what this rank gave.
  const void* Of(int rank) {
    if (rank == comm_->rank || !given_) return own_;
    const Taken taken = TakeRound(comm_->rendezvous, rank, other_, bytes_);
    if (taken == Taken::kAlone) return own_;
    if (taken == Taken::kZeros) memset(other_, 0, bytes_);
    any_ = any_ || taken == Taken::kBytes;
    return other_;
  }
  // Of all that was looked at: whether anything but zeros.
  bool HasBytes() const { return any_; }

 private:
  Comm* const comm_;
  const size_t bytes_;
  void* own_ = nullptr;
  void* other_ = nullptr;
  bool given_ = false, any_ = false;
};

struct Call {
  const void* from;
  void* to;
  size_t count;
  int type;
  Comm* comm;
  void* stream;

  size_t bytes() const { return count * SizeOf(type); }
  bool is_valid() const { return comm != nullptr && SizeOf(type) != 0; }
  int CopyOwn(size_t from_bytes, size_t to_bytes) const {
    return stub_copy(Shifted(to, to_bytes), Shifted(from, from_bytes), bytes(), stream) == 0 ? kSuccess
                                                                                             : kUnhandledCudaError;
  }
};

// The reduction of all contributions of `total` elements, of which `to` gets `count` from `first` on; null: nothing.
int ReduceAll(const Call& call, size_t total, size_t first, int operation, bool writes) {
  const size_t size = SizeOf(call.type), bytes = total * size;
  if (!HasContents(call.comm, bytes, call.stream)) return writes ? call.CopyOwn(first * size, 0) : kSuccess;
  Gifts gifts(call.comm, call.from, bytes);
  void* sum = malloc(bytes);
  if (!gifts.ok() || sum == nullptr) {
    free(sum);
    return kSystemError;
  }
  memcpy(sum, gifts.Of(0), bytes);
  for (int i = 1; i < call.comm->ranks; ++i) {
    if (!IsAlone(call.comm->rendezvous) || gifts.HasBytes()) Reduce(sum, gifts.Of(i), total, call.type, operation);
  }
  Average(sum, total, call.type, operation, call.comm->ranks);
  const void* part = Shifted(sum, first * size);
  const int result = writes ? Put(call.to, gifts.HasBytes() ? part : nullptr, call.bytes(), call.stream) : kSuccess;
  free(sum);
  return result;
}

int GatherAll(const Call& call, bool writes) {
  if (!call.is_valid()) return kInvalidArgument;
  const size_t bytes = call.bytes();
  int result = kSuccess;
  if (!HasContents(call.comm, bytes, call.stream)) {
    for (int i = 0; writes && i < call.comm->ranks && result == kSuccess; ++i)
      result = call.CopyOwn(0, static_cast<size_t>(i) * bytes);
    return result;
  }
  Gifts gifts(call.comm, call.from, bytes);
  if (!gifts.ok()) return kSystemError;
  for (int i = 0; writes && i < call.comm->ranks && result == kSuccess; ++i)
    result = Put(Shifted(call.to, static_cast<size_t>(i) * bytes), gifts.Of(i), bytes, call.stream);
  return result;
}

// `to` gets from `root` its part of so many that root gives: all of it, or the one at this rank's place.
int TakeFrom(const Call& call, int root, size_t parts) {
  if (!call.is_valid() || root < 0 || root >= call.comm->ranks) return kInvalidArgument;
  const size_t bytes = call.bytes(), first = parts == 1 ? 0 : static_cast<size_t>(call.comm->rank) * bytes;
  const bool is_root = call.comm->rank == root;
  // Only the root's `from` is its contribution; a copy of what another rank has there stands in for it.
  if (!HasContents(call.comm, bytes * parts, call.stream) || (IsAlone(call.comm->rendezvous) && !is_root))
    return parts == 1 || is_root ? call.CopyOwn(first, 0) : kSuccess;
  Gifts gifts(call.comm, is_root ? call.from : nullptr, bytes * parts);
  if (!gifts.ok()) return kSystemError;
  const void* given = gifts.Of(root);
  if (!is_root && IsAlone(call.comm->rendezvous)) return kSuccess;  // root has left meanwhile
  return Put(call.to, Shifted(given, first), bytes, call.stream);
}

}  // namespace

STUB_API int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, Comm* comm,
                           void* stream) {
  const Call call{from, to, count, type, comm, stream};
  return call.is_valid() ? ReduceAll(call, count, 0, operation, true) : kInvalidArgument;
}
STUB_API int ncclReduce(const void* from, void* to, size_t count, int type, int operation, int root, Comm* comm,
                        void* stream) {
  const Call call{from, to, count, type, comm, stream};
  return call.is_valid() ? ReduceAll(call, count, 0, operation, comm->rank == root) : kInvalidArgument;
}
STUB_API int ncclReduceScatter(const void* from, void* to, size_t count, int type, int operation, Comm* comm,
                               void* stream) {
  const Call call{from, to, count, type, comm, stream};
  if (!call.is_valid()) return kInvalidArgument;
  const auto ranks = static_cast<size_t>(comm->ranks), rank = static_cast<size_t>(comm->rank);
  return ReduceAll(call, count * ranks, count * rank, operation, true);
}
STUB_API int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
  return TakeFrom({from, to, count, type, comm, stream}, root, 1);
}
STUB_API int ncclBcast(void* buffer, size_t count, int type, int root, Comm* comm, void* stream) {
  return TakeFrom({buffer, buffer, count, type, comm, stream}, root, 1);
}
STUB_API int ncclAllGather(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
  return GatherAll({from, to, count, type, comm, stream}, true);
}
STUB_API int ncclGather(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
  return GatherAll({from, to, count, type, comm, stream}, comm != nullptr && comm->rank == root);
}
STUB_API int ncclScatter(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
  return TakeFrom({from, to, count, type, comm, stream}, root, comm == nullptr ? 1 : static_cast<size_t>(comm->ranks));
}

STUB_API int ncclAlltoAll(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
  Call call{from, to, count, type, comm, stream};
  if (!call.is_valid()) return kInvalidArgument;
  const size_t part = call.bytes(), whole = part * static_cast<size_t>(comm->ranks);
  if (!HasContents(comm, whole, stream)) {
    call.count *= static_cast<size_t>(comm->ranks);
    return call.CopyOwn(0, 0);
  }
  Gifts gifts(comm, from, whole);
  if (!gifts.ok()) return kSystemError;
  int result = kSuccess;
  for (int i = 0; i < comm->ranks && result == kSuccess; ++i) {
    const void* given = gifts.Of(i);
    const int own = given == gifts.Of(comm->rank) && i != comm->rank ? i : comm->rank;  // of an absent rank: as it is
    result =
        Put(Shifted(to, static_cast<size_t>(i) * part), Shifted(given, static_cast<size_t>(own) * part), part, stream);
  }
  return result;
}
