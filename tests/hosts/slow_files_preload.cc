// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A shared file system on a bad day, for traces alone: from the SLOW_FILES_FROM'th write to a *.gmtrace on (1), each
// write does what SLOW_FILES says.
//
//   wait          blocks until the file SLOW_FILES_GATE is there
//   delay:MS      takes so many milliseconds
//   ERRNO         fails with this number; with SLOW_FILES_TO only up to that write
//   half:ERRNO    the same, after half of the bytes were written

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

using WriteFunction = ssize_t (*)(int, const void*, size_t);

std::atomic<int> g_writes;

int Setting(const char* name, int otherwise) {
  const char* value = getenv(name);
  return value == nullptr ? otherwise : atoi(value);
}

bool IsTrace(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  path[size < 0 ? 0 : size] = '\0';
  return strstr(path, ".gmtrace") != nullptr;
}

void Sleep(int milliseconds) {
  const timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  nanosleep(&pause, nullptr);
}

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t size) {
  static const auto real = reinterpret_cast<WriteFunction>(dlsym(RTLD_NEXT, "write"));
  const char* mode = getenv("SLOW_FILES");
  if (mode == nullptr || !IsTrace(fd)) return real(fd, data, size);
  const int number = ++g_writes;
  if (number < Setting("SLOW_FILES_FROM", 1) || number > Setting("SLOW_FILES_TO", 1 << 30)) return real(fd, data, size);
  if (strcmp(mode, "wait") == 0) {
    while (access(getenv("SLOW_FILES_GATE"), F_OK) != 0) Sleep(5);
    return real(fd, data, size);
  }
  if (strncmp(mode, "delay:", 6) == 0) {
    Sleep(atoi(mode + 6));
    return real(fd, data, size);
  }
  const bool is_half = strncmp(mode, "half:", 5) == 0;
  // The rest of a half write comes as a write of its own, and fails.
  static std::atomic<bool> was_half;
  if (is_half && !was_half.exchange(true) && size > 1) return real(fd, data, size / 2);
  was_half = false;
  errno = atoi(is_half ? mode + 5 : mode);
  return -1;
}
