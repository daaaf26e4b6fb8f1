// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/mapping.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/ring/stale_rings.h"

namespace gpumemshim::ring {
namespace {

// A name may be left over from a process that had our pid and start time in another container, so numbers are tried.
int CreateFile(const char* directory, char* path, size_t capacity) {
  unsigned long long ticks = ProcessStartTicks();
  for (int attempt = 0; attempt < 16; attempt++) {
    char suffix[16] = "";
    if (attempt != 0) snprintf(suffix, sizeof(suffix), ".%d", attempt);
    int size =
        snprintf(path, capacity, "%s/gpumem.%d.%llu%s.ring", directory, static_cast<int>(getpid()), ticks, suffix);
    if (size < 0 || static_cast<size_t>(size) >= capacity) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
  }
  return -1;
}

// Growing a file past the limit raises SIGXFSZ on the program's own thread.
bool MayGrowTo(size_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

// The lock belongs to the open file, which the mapping keeps open: it goes with the process, or with its exec, and can
// be asked for from another PID namespace.
void* MapFile(const char* directory, size_t bytes, char* path, size_t capacity, bool* locked) {
  if (!MayGrowTo(bytes)) return MAP_FAILED;
  RemoveStaleRings(directory, static_cast<time_t>(ClockNs(CLOCK_REALTIME) / 1'000'000'000));
  int fd = CreateFile(directory, path, capacity);
  if (fd < 0) return MAP_FAILED;
  void* memory = MAP_FAILED;
  if (posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
  }
  close(fd);
  if (memory == MAP_FAILED) unlink(path);
  return memory;
}

}  // namespace

void* MapRing(const char* directory, size_t bytes, char* path, size_t path_capacity, bool* locked) {
  *locked = false;
  void* memory = directory != nullptr ? MapFile(directory, bytes, path, path_capacity, locked) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    path[0] = '\0';
    *locked = false;
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
  }
  madvise(memory, bytes, MADV_DONTFORK);  // a child must not scribble in it, nor pay for it
  return memory;
}

uint64_t ProcessStartTicks() {
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (size <= 0) return 0;
  text[size] = '\0';
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
