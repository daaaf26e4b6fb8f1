// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NCCL's send and receive, and groups, in which they wait for each other. Collectives of a group are done at once: all
// ranks have them in the same order. Messages longer than what is kept, of a capture or of an absent rank move nothing.
#include <stdlib.h>
#include <time.h>

#include "nccl_comm.h"

using namespace nccl;  // NOLINT: C functions only

namespace {

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
