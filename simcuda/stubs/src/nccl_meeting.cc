// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "nccl_meeting.h"

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

constexpr int kMostRanks = 64;
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
  Place places[kMostRanks];
  Box boxes[];  // ranks * ranks
};

}  // namespace

struct Meeting {
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

void Wake(Word* word) { syscall(SYS_futex, word, FUTEX_WAKE, kMostRanks, nullptr, nullptr, 0); }

// Each rank holds a lock on its byte of the file, which the system takes away when its process ends, however that is.
bool HasEnded(const Meeting* meeting, int rank) {
  const Place& place = meeting->head->places[rank];
  const uint32_t process = place.process.load(std::memory_order_acquire);
  if (process == 0) return false;
  if (place.left.load(std::memory_order_acquire) != 0) return true;
  if (process == static_cast<uint32_t>(getpid())) return false;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return fcntl(meeting->file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

// Waits until `word`, which is `rank`'s, has reached `wanted`.
bool Await(Meeting* meeting, int rank, Word* word, uint32_t wanted) {
  const uint64_t since = NowNs();
  for (int tries = 0;; ++tries) {
    const bool gone =
        tries >= kSpins && IsGone(meeting, rank, since);  // asked before the look that is the last one then
    const uint32_t seen = word->load(std::memory_order_acquire);
    if (!IsBefore(seen, wanted)) return true;
    if (gone) {
      BeAlone(meeting, rank);
      return false;
    }
    if (tries < kSpins) {
      sched_yield();
    } else {
      Sleep(word, seen);
    }
  }
}

off_t PlaceOf(const Meeting* meeting, size_t message) {
  return static_cast<off_t>(meeting->head_bytes + message * meeting->room);
}
size_t RoundMessage(int rank, uint32_t round) { return static_cast<size_t>(rank) * kRounds + round % kRounds; }
size_t BoxOf(const Meeting* meeting, int from, int to) { return static_cast<size_t>(from) * meeting->ranks + to; }
size_t LetterMessage(const Meeting* meeting, size_t box, uint32_t number) {
  return static_cast<size_t>(meeting->ranks) * kRounds + box * kLetters + number % kLetters;
}

// By calls and not through the mapping: a full file system must be an error, and no signal.
bool Write(const Meeting* meeting, size_t message, const void* bytes, size_t size) {
  return pwrite(meeting->file, bytes, size, PlaceOf(meeting, message)) == static_cast<ssize_t>(size);
}
bool Read(const Meeting* meeting, size_t message, void* bytes, size_t size) {
  return pread(meeting->file, bytes, size, PlaceOf(meeting, message)) == static_cast<ssize_t>(size);
}

// The file, mapped; its size is the same whoever sets it.
bool Map(Meeting* meeting) {
  meeting->file = open(meeting->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT, 0600);
  struct stat found = {};
  if (meeting->file < 0 || fstat(meeting->file, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid())
    return false;
  const auto ranks = static_cast<size_t>(meeting->ranks);
  const size_t bytes = sizeof(Head) + ranks * ranks * sizeof(Box);
  meeting->head_bytes = (bytes + kPage - 1) / kPage * kPage;
  if (posix_fallocate(meeting->file, 0, static_cast<off_t>(meeting->head_bytes)) != 0) return false;
  void* at = mmap(nullptr, meeting->head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, meeting->file, 0);
  meeting->head = at == MAP_FAILED ? nullptr : static_cast<Head*>(at);
  return meeting->head != nullptr;
}

void Enter(Meeting* meeting) {
  uint32_t room_kib = 0;
  const auto own_kib = static_cast<uint32_t>(stub_setting("SIMCUDA_CONTENT_KB", 1024));
  if (meeting->head->room_kib.compare_exchange_strong(room_kib, own_kib)) room_kib = own_kib;
  meeting->room = static_cast<size_t>(room_kib) << 10;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = meeting->rank;
  lock.l_len = 1;
  fcntl(meeting->file, F_SETLK, &lock);
  meeting->head->places[meeting->rank].process.store(static_cast<uint32_t>(getpid()));
  int here = 0;
  for (int i = 0; i < meeting->ranks; ++i) here += meeting->head->places[i].process.load() != 0;
  if (here == meeting->ranks) unlink(meeting->path);  // the last one; nobody else is to find it
}

void Release(Meeting* meeting) {
  if (meeting->head != nullptr) munmap(meeting->head, meeting->head_bytes);
  if (meeting->file >= 0) close(meeting->file);
  free(meeting);
}

}  // namespace

uint64_t NowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool NameMeeting(char (&name)[kNameBytes]) {
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

Meeting* JoinMeeting(const char* name, int ranks, int rank) {
  const char* alone = getenv("SIMCUDA_NCCL_ALONE");
  if ((alone != nullptr && *alone != '\0' && *alone != '0') || *name == '\0' || ranks < 2 || ranks > kMostRanks)
    return nullptr;
  auto* meeting = static_cast<Meeting*>(calloc(1, sizeof(Meeting)));
  if (meeting == nullptr) return nullptr;
  meeting->ranks = ranks;
  meeting->rank = rank;
  PathOf(name, meeting->path, sizeof(meeting->path));
  if (!Map(meeting)) {
    Release(meeting);
    return nullptr;
  }
  Enter(meeting);
  return meeting;
}

void LeaveMeeting(Meeting* meeting) {
  if (meeting == nullptr) return;
  meeting->head->places[meeting->rank].left.store(1, std::memory_order_release);
  unlink(meeting->path);  // whoever did not come has nobody to meet
  Release(meeting);
}

size_t MostBytes(const Meeting* meeting) { return meeting->room; }
bool IsAlone(const Meeting* meeting) { return meeting == nullptr || meeting->alone; }

bool IsGone(const Meeting* meeting, int rank, uint64_t since_ns) {
  return HasEnded(meeting, rank) || NowNs() - since_ns > WaitNs();
}

void BeAlone(Meeting* meeting, int rank) {
  if (!meeting->alone) {
    fprintf(stderr, "simcuda: NCCL: rank %d of %d %s; for rank %d it holds the same data from here on\n", rank,
            meeting->ranks, HasEnded(meeting, rank) ? "has left" : "did not come (SIMCUDA_NCCL_WAIT)", meeting->rank);
  }
  meeting->alone = true;
  meeting->head->places[meeting->rank].left.store(1, std::memory_order_release);
}

bool GiveRound(Meeting* meeting, const void* bytes, size_t size) {
  if (meeting->alone) return false;
  const uint32_t round = meeting->round, at = round % kRounds;
  for (int i = 0; i < meeting->ranks; ++i) {  // the message of two rounds ago is to be overwritten
    if (!Await(meeting, i, &meeting->head->places[i].ended, round + 1 - kRounds)) return false;
  }
  if (bytes != nullptr && !Write(meeting, RoundMessage(meeting->rank, round), bytes, size)) bytes = nullptr;
  Place& own = meeting->head->places[meeting->rank];
  own.size[at] = static_cast<uint32_t>(size);
  own.has_bytes[at] = bytes != nullptr;
  own.given.store(round + 1, std::memory_order_release);
  Wake(&own.given);
  return true;
}

Taken TakeRound(Meeting* meeting, int rank, void* bytes, size_t size) {
  Place& place = meeting->head->places[rank];
  if (meeting->alone || !Await(meeting, rank, &place.given, meeting->round + 1)) return Taken::kAlone;
  const uint32_t at = meeting->round % kRounds;
  if (place.has_bytes[at] == 0 || place.size[at] != size) return Taken::kZeros;  // another size: not the same call
  return Read(meeting, RoundMessage(rank, meeting->round), bytes, size) ? Taken::kBytes : Taken::kZeros;
}

void EndRound(Meeting* meeting) {
  Word& ended = meeting->head->places[meeting->rank].ended;
  ended.store(++meeting->round, std::memory_order_release);
  Wake(&ended);
}

bool TrySend(Meeting* meeting, int to, const void* bytes, size_t size) {
  const size_t number = BoxOf(meeting, meeting->rank, to);
  Box& box = meeting->head->boxes[number];
  const uint32_t sent = box.sent.load(std::memory_order_relaxed);
  if (sent - box.received.load(std::memory_order_acquire) >= kLetters) return false;
  if (bytes != nullptr && !Write(meeting, LetterMessage(meeting, number, sent), bytes, size)) bytes = nullptr;
  box.size[sent % kLetters] = static_cast<uint32_t>(size);
  box.has_bytes[sent % kLetters] = bytes != nullptr;
  box.sent.store(sent + 1, std::memory_order_release);
  return true;
}

bool TryReceive(Meeting* meeting, int from, void* bytes, size_t size, Taken* taken) {
  const size_t number = BoxOf(meeting, from, meeting->rank);
  Box& box = meeting->head->boxes[number];
  const uint32_t received = box.received.load(std::memory_order_relaxed);
  if (box.sent.load(std::memory_order_acquire) == received) return false;
  const uint32_t at = received % kLetters;
  const bool has_bytes = box.has_bytes[at] != 0 && box.size[at] == size &&
                         Read(meeting, LetterMessage(meeting, number, received), bytes, size);
  *taken = has_bytes ? Taken::kBytes : Taken::kZeros;
  box.received.store(received + 1, std::memory_order_release);
  return true;
}

}  // namespace nccl
