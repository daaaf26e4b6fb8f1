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
#include <time.h>

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

namespace {

// NCCL's send and receive, and groups, in which they wait for each other. Collectives of a group are done at once: all
// ranks have them in the same order. Messages longer than what is kept, of a capture or of an absent rank move nothing.

constexpr int kLooksBetween = 20;  // tries between two looks whether the other one is still there
constexpr long kPauseNs = 50'000;

struct Message {
  Comm* comm;
  void* pointer;
  size_t bytes;
  int peer;
  bool is_sent, done;
  void* stream;
};

struct Group {
  int depth;
  size_t count, room;
  Message* messages;
};

thread_local Group t_group;

// False: not now.
bool Try(const Message& message) {
  Rendezvous* const rendezvous = message.comm->rendezvous;
  void* bytes = calloc(1, message.bytes);
  if (bytes == nullptr) return true;
  bool done = false;
  if (message.is_sent) {
    const bool any = Peek(bytes, message.pointer, message.bytes);
    done = TrySend(rendezvous, message.peer, any ? bytes : nullptr, message.bytes);
  } else {
    Taken taken = Taken::kZeros;
    done = TryReceive(rendezvous, message.peer, bytes, message.bytes, &taken);
    if (done) Put(message.pointer, taken == Taken::kBytes ? bytes : nullptr, message.bytes, message.stream);
  }
  free(bytes);
  return done;
}

// A message goes after those before it between the same two.
bool IsFirst(const Message* messages, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    const Message &before = messages[i], &now = messages[index];
    if (!before.done && before.comm == now.comm && before.peer == now.peer && before.is_sent == now.is_sent)
      return false;
  }
  return true;
}

bool IsCarried(const Message& message) {
  return !IsAlone(message.comm->rendezvous) && HasContents(message.comm, message.bytes, message.stream);
}

void DoAll(Message* messages, size_t count) {
  uint64_t since = NowNs();
  size_t left = count;
  for (int idle = 0; left > 0;) {
    bool moved = false;
    for (size_t i = 0; i < count; ++i) {
      Message& message = messages[i];
      if (message.done || !IsFirst(messages, i)) continue;
      const bool looks = idle % kLooksBetween == kLooksBetween - 1;
      const bool carried = IsCarried(message);
      const bool gone =
          carried && looks && IsGone(message.comm->rendezvous, message.peer, since);  // before the last try
      message.done = !carried || Try(message);
      if (!message.done && gone) BeAlone(message.comm->rendezvous, message.peer);
      moved = moved || message.done;
      left -= message.done;
    }
    idle = moved ? 0 : idle + 1;
    if (moved) {
      since = NowNs();
    } else {
      const timespec pause{0, kPauseNs};
      nanosleep(&pause, nullptr);
    }
  }
}

int Add(void* pointer, size_t count, int type, int peer, Comm* comm, bool is_sent, void* stream) {
  if (comm == nullptr || SizeOf(type) == 0 || peer < 0 || peer >= comm->ranks) return kInvalidArgument;
  Message message{comm, pointer, count * SizeOf(type), peer, is_sent, false, stream};
  if (t_group.depth == 0) {
    DoAll(&message, 1);
    return kSuccess;
  }
  if (t_group.count == t_group.room) {
    const size_t room = t_group.room == 0 ? 16 : 2 * t_group.room;
    void* more = realloc(t_group.messages, room * sizeof(Message));
    if (more == nullptr) return kSystemError;
    t_group.messages = static_cast<Message*>(more);
    t_group.room = room;
  }
  t_group.messages[t_group.count++] = message;
  return kSuccess;
}

}  // namespace

STUB_API int ncclGroupStart() {
  ++t_group.depth;
  return kSuccess;
}

STUB_API int ncclGroupEnd() {
  if (t_group.depth > 0 && --t_group.depth > 0) return kSuccess;
  DoAll(t_group.messages, t_group.count);
  free(t_group.messages);
  t_group = {};
  return kSuccess;
}

STUB_API int ncclSend(const void* from, size_t count, int type, int peer, Comm* comm, void* stream) {
  return Add(const_cast<void*>(from), count, type, peer, comm, true, stream);
}
STUB_API int ncclRecv(void* to, size_t count, int type, int peer, Comm* comm, void* stream) {
  return Add(to, count, type, peer, comm, false, stream);
}
