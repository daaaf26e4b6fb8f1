// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/base/apart.h"
#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/ring/dead_rings.h"
#include "shim/ring/room.h"
#include "shim/ring/shape.h"
#include "shim/ring/state.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace gpumemshim::ring {
namespace {

constexpr int kLockAttempts = 1000;

// The name is new to everybody who knew an earlier ring of this process id: an exec keeps that and the start time.
int CreateFile(const char* directory, Mapping* mapping) {
  const unsigned long long ticks = ProcessStartTicks();
  for (int attempt = 0; attempt < 16; attempt++) {
    mapping->id = MonotonicNs();
    const int size = snprintf(mapping->path, sizeof(mapping->path), "%s/gpumemshim.%d.%llu.%llx.ring", directory,
                              static_cast<int>(getpid()), ticks, static_cast<unsigned long long>(mapping->id));
    if (size < 0 || static_cast<size_t>(size) >= sizeof(mapping->path)) return -1;
    const int fd = open(mapping->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) continue;
    const int raised = descriptors::Raise(fd);
    if (raised < 0) unlink(mapping->path);
    return raised;
  }
  return -1;
}

// Growing a file past the limit raises SIGXFSZ on the program's own thread.
size_t LongestFile() {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : limit.rlim_cur;
}

// The lock belongs to the open file, which the mapping keeps open: it goes with the process, or with its exec, and can
// be asked for from another PID namespace. Whoever asks just now holds it for an instant.
bool Lock(int fd) {
  for (int attempt = 0; attempt < kLockAttempts; attempt++) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK) return false;
    sched_yield();
  }
  return false;
}

// Whether blocks that are had through the mapping are counted as the file's at once: so on a tmpfs since Linux 5.14.
bool Populates(int fd, uint8_t* memory, size_t bytes) {
  struct stat before, after;
  if (kernel::Fstat(fd, &before) != 0 || madvise(memory, bytes, MADV_POPULATE_WRITE) != 0) return false;
  if (kernel::Fstat(fd, &after) != 0) return false;
  return static_cast<size_t>(after.st_blocks - before.st_blocks) * 512 >= bytes;
}

// Blocks for the first part: by fallocate, but for the last chunk, which shows how others can be had later.
bool AllocateFirst(int fd, Mapping* mapping) {
  const size_t last = mapping->present_bytes - kChunkBytes;
  if (posix_fallocate(fd, 0, static_cast<off_t>(last)) != 0) return false;
  mapping->populates = Populates(fd, static_cast<uint8_t*>(mapping->memory) + last, kChunkBytes);
  return mapping->populates || posix_fallocate(fd, static_cast<off_t>(last), kChunkBytes) == 0;
}

// After a claim: whether all rings together keep to `share` of the file system. Of two who claim at once, at least one
// sees both.
bool Fits(const char* directory, uint64_t share) {
  RoomFacts facts;
  return ReadRoomFacts(directory, &facts) && (facts.mount_bytes == 0 || facts.rings_bytes <= facts.mount_bytes / share);
}

// With mapping->bytes, claimed_bytes and present_bytes as they are to be.
bool MapFile(const char* directory, Mapping* mapping) {
  const int fd = CreateFile(directory, mapping);
  if (fd < 0) return false;
  mapping->locked = Lock(fd);
  struct stat file;
  bool good = ftruncate(fd, static_cast<off_t>(mapping->claimed_bytes)) == 0 && kernel::Fstat(fd, &file) == 0 &&
              Fits(directory, kShareOfMount);
  if (good) {
    mapping->device = file.st_dev;
    mapping->inode = file.st_ino;
    mapping->memory = mmap(nullptr, mapping->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    good = mapping->memory != MAP_FAILED && AllocateFirst(fd, mapping);
    if (!good && mapping->memory != MAP_FAILED) munmap(mapping->memory, mapping->bytes);
  }
  if (!good) {
    unlink(mapping->path);
    *mapping = {.bytes = mapping->bytes};
  }
  close(fd);
  return good;
}

// Halves the address space until it is to be had.
bool MapIn(const char* directory, const Config& config, size_t wanted, Mapping* mapping) {
  Room room = RoomIn(directory);
  const auto first = [&](size_t bytes) {
    const Shape shape = ShapeOf(config, bytes);
    return shape.BytesOf(config.first_chunks < shape.chunk_count ? config.first_chunks : shape.chunk_count);
  };
  if (room.most_bytes < wanted) wanted = room.most_bytes & ~(kPageBytes - 1);
  if (wanted >= kMinSizeBytes && room.free_bytes < first(wanted)) {  // what dead processes left may go first
    ClearDeadRings(directory);
    room = RoomIn(directory);
  }
  const size_t longest = LongestFile();
  for (; wanted >= kMinSizeBytes; wanted = (wanted / 2) & ~(kPageBytes - 1)) {
    const Shape shape = ShapeOf(config, wanted);
    mapping->bytes = wanted;
    mapping->present_bytes = first(wanted);
    if (room.free_bytes < mapping->present_bytes || longest < mapping->present_bytes) continue;
    size_t claim = mapping->present_bytes;
    if (room.growth_bytes > claim) claim += (room.growth_bytes - claim) / kShareOfFree;
    if (claim > longest) claim = longest;
    const uint32_t chunks = shape.ChunksIn(claim);
    mapping->claimed_bytes = shape.BytesOf(chunks);
    if (MapFile(directory, mapping)) return true;
    if (errno != ENOMEM) return false;
  }
  return false;
}

bool MapBeside(const char* trace_path, const Config& config, size_t wanted, Mapping* mapping) {
  char directory[sizeof(mapping->path)];
  const char* slash = trace_path != nullptr ? strrchr(trace_path, '/') : nullptr;
  const size_t length = slash != nullptr ? static_cast<size_t>(slash - trace_path) : sizeof(directory);
  if (length == 0 || length >= sizeof(directory)) return false;
  memcpy(directory, trace_path, length);
  directory[length] = '\0';
  return IsGoodForRings(directory) && MapIn(directory, config, wanted, mapping);
}

bool MapAnonymous(size_t wanted, Mapping* mapping) {
  *mapping = {};
  for (; wanted >= kMinSizeBytes; wanted = (wanted / 2) & ~(kPageBytes - 1)) {
    void* memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    mapping->memory = memory;
    mapping->bytes = mapping->claimed_bytes = mapping->present_bytes = wanted;
    return true;
  }
  return false;
}

// The active ring's file, where its path still leads to it; else -1.
int OpenOwn() {
  if (g_state.path[0] == '\0') return -1;
  const int fd = descriptors::Raise(open(g_state.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  struct stat file;
  if (fd >= 0 && kernel::Fstat(fd, &file) == 0 && file.st_dev == g_state.device && file.st_ino == g_state.inode)
    return fd;
  if (fd >= 0) close(fd);
  return -1;
}

bool Map(const Config& config, size_t bytes, Mapping* mapping) {
  return (config.directory != nullptr &&
          (MapIn(config.directory, config, bytes, mapping) || MapBeside(config.trace_path, config, bytes, mapping))) ||
         MapAnonymous(bytes, mapping);
}

// Returns the file's length then.
size_t Claim(size_t bytes) {
  const int fd = OpenOwn();
  struct stat file;
  if (fd < 0 || kernel::Fstat(fd, &file) != 0) return 0;
  auto length = static_cast<size_t>(file.st_size);
  char directory[sizeof(g_state.path)];
  memcpy(directory, g_state.path, sizeof(directory));
  *strrchr(directory, '/') = '\0';
  const size_t before = length;
  if (bytes > before && bytes <= LongestFile() && RoomIn(directory).growth_bytes >= bytes - before &&
      ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    if (Fits(directory, 2 * kShareOfMount) || ftruncate(fd, static_cast<off_t>(before)) != 0) length = bytes;
  }
  close(fd);
  return length;
}

bool AllocateInFile(size_t offset, size_t bytes) {
  const int fd = OpenOwn();
  if (fd < 0) return false;
  const bool good = fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
  close(fd);
  return good;
}

}  // namespace

Mapping MapRing(const Config& config, size_t bytes) {
  Mapping mapping;
  bool mapped = false;
  apart::Do([&] { mapped = Map(config, bytes, &mapping); });
  // A child must not scribble in it, nor pay for it.
  if (mapped) madvise(mapping.memory, mapping.bytes, MADV_DONTFORK);
  return mapping;
}

size_t ClaimBytes(size_t bytes) {
  size_t length = 0;
  apart::Do([&] { length = Claim(bytes); });
  return length;
}

bool AllocateBlocks(size_t offset, size_t bytes) {
  uint8_t* memory = reinterpret_cast<uint8_t*>(g_state.header) + offset;
  if (g_state.populates) {
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
    madvise(memory, bytes, MADV_REMOVE);  // what was had of it
    return false;
  }
  bool good = false;
  apart::Do([&] { good = AllocateInFile(offset, bytes); });
  return good;
}

void FreeBlocks(size_t offset, size_t bytes) {
  madvise(reinterpret_cast<uint8_t*>(g_state.header) + offset, bytes, MADV_REMOVE);
}

uint64_t ProcessStartTicks() {
  char text[1024];
  if (descriptors::ReadText("/proc/self/stat", text, sizeof(text)) == 0) return 0;
  // Field 2 is the program's name in parentheses and may hold anything, so fields are counted from the last
  // parenthesis.
  const char* p = strrchr(text, ')');
  for (int field = 2; p != nullptr && field < 22; field++) {
    p = strchr(p + 1, ' ');
  }
  uint64_t ticks = 0;
  if (p != nullptr) {
    for (p++; *p >= '0' && *p <= '9'; p++) ticks = ticks * 10 + static_cast<uint64_t>(*p - '0');
  }
  return ticks;
}

}  // namespace gpumemshim::ring
