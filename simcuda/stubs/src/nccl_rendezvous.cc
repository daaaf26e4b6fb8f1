// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "nccl_rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "stub.h"

namespace nccl {
namespace {

constexpr int kMaxRanks = 64;
constexpr uint32_t kRounds = 2, kLetters = 4;  // messages that one rank may be ahead of another
constexpr size_t kPage = 4096;
constexpr int kSpins = 50;
constexpr long kNapNs = 5'000'000;

using Word = std::atomic<uint32_t>;

// A rank's place. What it gave in round n lies at n % kRounds.
struct alignas(64) Place {
  Word process;  // 0: it did not come yet
  Word left;
  Word given, ended;  // rounds; `given` is written after the message, and read before it
  uint32_t size[kRounds], has_bytes[kRounds];
};

// What one rank sends to one other.
struct Box {
  Word sent, received;
  uint32_t size[kLetters], has_bytes[kLetters];
};

struct Head {
  Word room_kib;
  Place places[kMaxRanks];
  Box boxes[];  // ranks * ranks
};

}  // namespace

struct Rendezvous {
  int ranks, rank, file;
  bool alone;
  uint32_t round;
  size_t room, head_bytes;
  char path[512];
  Head* head;
};

namespace {

bool IsBefore(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

uint64_t WaitNs() { return stub_setting("SIMCUDA_NCCL_WAIT", 120) * 1'000'000'000; }

void PathOf(const char* name, char* path, size_t room) {
  const char* folder = getenv("SIMCUDA_NCCL_FOLDER");
  snprintf(path, room, "%s/simcuda-nccl.%s", folder != nullptr && *folder != '\0' ? folder : "/dev/shm", name);
}

void Sleep(Word* word, uint32_t seen) {
  const timespec nap{0, kNapNs};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &nap, nullptr, 0);
}

void Wake(Word* word) { syscall(SYS_futex, word, FUTEX_WAKE, kMaxRanks, nullptr, nullptr, 0); }

// Each rank holds a lock on its byte of the file, which the system takes away when its process ends, however that is.
bool HasEnded(const Rendezvous* rendezvous, int rank) {
  const Place& place = rendezvous->head->places[rank];
  const uint32_t process = place.process.load(std::memory_order_acquire);
  if (process == 0) return false;
  if (place.left.load(std::memory_order_acquire) != 0) return true;
  if (process == static_cast<uint32_t>(getpid())) return false;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return fcntl(rendezvous->file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

// Waits until `word`, which is `rank`'s, has reached `wanted`.
bool Await(Rendezvous* rendezvous, int rank, Word* word, uint32_t wanted) {
  const uint64_t since = NowNs();
  for (int tries = 0;; ++tries) {
    const bool gone =
        tries >= kSpins && IsGone(rendezvous, rank, since);  // asked before the look that is the last one then
    const uint32_t seen = word->load(std::memory_order_acquire);
    if (!IsBefore(seen, wanted)) return true;
    if (gone) {
      BeAlone(rendezvous, rank);
      return false;
    }
    if (tries < kSpins) {
      sched_yield();
    } else {
      Sleep(word, seen);
    }
  }
}

off_t PlaceOf(const Rendezvous* rendezvous, size_t message) {
  return static_cast<off_t>(rendezvous->head_bytes + message * rendezvous->room);
}
size_t RoundMessage(int rank, uint32_t round) { return static_cast<size_t>(rank) * kRounds + round % kRounds; }
size_t BoxOf(const Rendezvous* rendezvous, int from, int to) {
  return static_cast<size_t>(from) * rendezvous->ranks + to;
}
size_t LetterMessage(const Rendezvous* rendezvous, size_t box, uint32_t number) {
  return static_cast<size_t>(rendezvous->ranks) * kRounds + box * kLetters + number % kLetters;
}

// By calls and not through the mapping: a full file system must be an error, and no signal.
bool Write(const Rendezvous* rendezvous, size_t message, const void* bytes, size_t size) {
  return pwrite(rendezvous->file, bytes, size, PlaceOf(rendezvous, message)) == static_cast<ssize_t>(size);
}
bool Read(const Rendezvous* rendezvous, size_t message, void* bytes, size_t size) {
  return pread(rendezvous->file, bytes, size, PlaceOf(rendezvous, message)) == static_cast<ssize_t>(size);
}

// The file, mapped; its size is the same whoever sets it.
bool Map(Rendezvous* rendezvous) {
  rendezvous->file = open(rendezvous->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT, 0600);
  struct stat found = {};
  if (rendezvous->file < 0 || fstat(rendezvous->file, &found) != 0 || !S_ISREG(found.st_mode) ||
      found.st_uid != geteuid())
    return false;
  const auto ranks = static_cast<size_t>(rendezvous->ranks);
  const size_t bytes = sizeof(Head) + ranks * ranks * sizeof(Box);
  rendezvous->head_bytes = (bytes + kPage - 1) / kPage * kPage;
  if (posix_fallocate(rendezvous->file, 0, static_cast<off_t>(rendezvous->head_bytes)) != 0) return false;
  void* at = mmap(nullptr, rendezvous->head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rendezvous->file, 0);
  rendezvous->head = at == MAP_FAILED ? nullptr : static_cast<Head*>(at);
  return rendezvous->head != nullptr;
}

void Enter(Rendezvous* rendezvous) {
  uint32_t room_kib = 0;
  const auto own_kib = static_cast<uint32_t>(stub_setting("SIMCUDA_CONTENT_KB", 1024));
  if (rendezvous->head->room_kib.compare_exchange_strong(room_kib, own_kib)) room_kib = own_kib;
  rendezvous->room = static_cast<size_t>(room_kib) << 10;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rendezvous->rank;
  lock.l_len = 1;
  fcntl(rendezvous->file, F_SETLK, &lock);
  rendezvous->head->places[rendezvous->rank].process.store(static_cast<uint32_t>(getpid()));
  int here = 0;
  for (int i = 0; i < rendezvous->ranks; ++i) here += rendezvous->head->places[i].process.load() != 0;
  if (here == rendezvous->ranks) unlink(rendezvous->path);  // the last one; nobody else is to find it
}

void Release(Rendezvous* rendezvous) {
  if (rendezvous->head != nullptr) munmap(rendezvous->head, rendezvous->head_bytes);
  if (rendezvous->file >= 0) close(rendezvous->file);
  free(rendezvous);
}

}  // namespace

uint64_t NowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool NameRendezvous(char (&name)[kNameBytes]) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) return false;
  snprintf(name, sizeof(name), "%016llx", static_cast<unsigned long long>(number));
  return true;
}

void NameOfPart(const char* name, uint32_t number, int color, char (&part)[kNameBytes]) {
  char text[64];
  snprintf(text, sizeof(text), "%s.%u.%d", name, number, color);
  uint64_t hash = 0xcbf29ce484222325;
  for (const char* c = text; *c != '\0'; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3;
  snprintf(part, sizeof(part), "%016llx", static_cast<unsigned long long>(hash));
}

Rendezvous* JoinRendezvous(const char* name, int ranks, int rank) {
  const char* alone = getenv("SIMCUDA_NCCL_ALONE");
  if ((alone != nullptr && *alone != '\0' && *alone != '0') || *name == '\0' || ranks < 2 || ranks > kMaxRanks)
    return nullptr;
  auto* rendezvous = static_cast<Rendezvous*>(calloc(1, sizeof(Rendezvous)));
  if (rendezvous == nullptr) return nullptr;
  rendezvous->ranks = ranks;
  rendezvous->rank = rank;
  PathOf(name, rendezvous->path, sizeof(rendezvous->path));
  if (!Map(rendezvous)) {
    Release(rendezvous);
    return nullptr;
  }
  Enter(rendezvous);
  return rendezvous;
}

void LeaveRendezvous(Rendezvous* rendezvous) {
  if (rendezvous == nullptr) return;
  rendezvous->head->places[rendezvous->rank].left.store(1, std::memory_order_release);
  unlink(rendezvous->path);  // whoever did not come has nobody to meet
  Release(rendezvous);
}

size_t MostBytes(const Rendezvous* rendezvous) { return rendezvous->room; }
bool IsAlone(const Rendezvous* rendezvous) { return rendezvous == nullptr || rendezvous->alone; }

bool IsGone(const Rendezvous* rendezvous, int rank, uint64_t since_ns) {
  return HasEnded(rendezvous, rank) || NowNs() - since_ns > WaitNs();
}

void BeAlone(Rendezvous* rendezvous, int rank) {
  if (!rendezvous->alone) {
    fprintf(stderr, "simcuda: NCCL: rank %d of %d %s; for rank %d it holds the same data from here on\n", rank,
            rendezvous->ranks, HasEnded(rendezvous, rank) ? "has left" : "did not come (SIMCUDA_NCCL_WAIT)",
            rendezvous->rank);
  }
  rendezvous->alone = true;
  rendezvous->head->places[rendezvous->rank].left.store(1, std::memory_order_release);
}

bool GiveRound(Rendezvous* rendezvous, const void* bytes, size_t size) {
  if (rendezvous->alone) return false;
  const uint32_t round = rendezvous->round, at = round % kRounds;
  for (int i = 0; i < rendezvous->ranks; ++i) {  // the message of two rounds ago is to be overwritten
    if (!Await(rendezvous, i, &rendezvous->head->places[i].ended, round + 1 - kRounds)) return false;
  }
  if (bytes != nullptr && !Write(rendezvous, RoundMessage(rendezvous->rank, round), bytes, size)) bytes = nullptr;
  Place& own = rendezvous->head->places[rendezvous->rank];
  own.size[at] = static_cast<uint32_t>(size);
  own.has_bytes[at] = bytes != nullptr;
  own.given.store(round + 1, std::memory_order_release);
  Wake(&own.given);
  return true;
}

Taken TakeRound(Rendezvous* rendezvous, int rank, void* bytes, size_t size) {
  Place& place = rendezvous->head->places[rank];
  if (rendezvous->alone || !Await(rendezvous, rank, &place.given, rendezvous->round + 1)) return Taken::kAlone;
  const uint32_t at = rendezvous->round % kRounds;
  if (place.has_bytes[at] == 0 || place.size[at] != size) return Taken::kZeros;  // another size: not the same call
  return Read(rendezvous, RoundMessage(rank, rendezvous->round), bytes, size) ? Taken::kBytes : Taken::kZeros;
}

void EndRound(Rendezvous* rendezvous) {
  Word& ended = rendezvous->head->places[rendezvous->rank].ended;
  ended.store(++rendezvous->round, std::memory_order_release);
  Wake(&ended);
}

bool TrySend(Rendezvous* rendezvous, int to, const void* bytes, size_t size) {
  const size_t number = BoxOf(rendezvous, rendezvous->rank, to);
  Box& box = rendezvous->head->boxes[number];
  const uint32_t sent = box.sent.load(std::memory_order_relaxed);
  if (sent - box.received.load(std::memory_order_acquire) >= kLetters) return false;
  if (bytes != nullptr && !Write(rendezvous, LetterMessage(rendezvous, number, sent), bytes, size)) bytes = nullptr;
  box.size[sent % kLetters] = static_cast<uint32_t>(size);
  box.has_bytes[sent % kLetters] = bytes != nullptr;
  box.sent.store(sent + 1, std::memory_order_release);
  return true;
}

bool TryReceive(Rendezvous* rendezvous, int from, void* bytes, size_t size, Taken* taken) {
  const size_t number = BoxOf(rendezvous, from, rendezvous->rank);
  Box& box = rendezvous->head->boxes[number];
  const uint32_t received = box.received.load(std::memory_order_relaxed);
  if (box.sent.load(std::memory_order_acquire) == received) return false;
  const uint32_t at = received % kLetters;
  const bool has_bytes = box.has_bytes[at] != 0 && box.size[at] == size &&
                         Read(rendezvous, LetterMessage(rendezvous, number, received), bytes, size);
  *taken = has_bytes ? Taken::kBytes : Taken::kZeros;
  box.received.store(received + 1, std::memory_order_release);
  return true;
}

}  // namespace nccl
