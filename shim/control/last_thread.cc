// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/last_thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/base/descriptors.h"

namespace gpumemshim::control {
namespace {

constexpr char kOurs[] = "gpumemshim-";

struct Entry {  // linux_dirent64, as the kernel writes it
  uint64_t inode;
  int64_t next;
  uint16_t size;
  uint8_t type;
  char name[1];
};

size_t ReadText(const char* path, char* out, size_t capacity) {
  const int fd = descriptors::Raise(open(path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  const ssize_t size = read(fd, out, capacity - 1);
  close(fd);
  out[size > 0 ? size : 0] = '\0';
  return size > 0 ? static_cast<size_t>(size) : 0;
}

// The state follows the name, which may hold anything, a bracket too.
bool HasEnded(const char* stat_path) {
  char text[512];
  if (ReadText(stat_path, text, sizeof text) == 0) return false;
  const char* bracket = strrchr(text, ')');
  return bracket != nullptr && (bracket[2] == 'Z' || bracket[2] == 'X');
}

bool IsOursOrEnded(const char* thread) {
  char path[64], name[32];
  snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", thread);
  if (ReadText(path, name, sizeof name) == 0) return true;  // gone meanwhile
  if (strncmp(name, kOurs, sizeof kOurs - 1) == 0) return true;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
  return HasEnded(path);
}

// Of a thread that has ended nothing is left to ask for, and /proc/self is the first one. Asked about every second, so
// without a descriptor, which another thread may see.
bool HasFirstEnded() {
  char any;
  return readlink("/proc/self/exe", &any, 1) < 0 && readlink("/proc/thread-self/exe", &any, 1) > 0;
}

bool OnlyOursAreLeft() {
  const int folder = descriptors::Raise(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder < 0) return false;
  bool only_ours = true;
  alignas(Entry) char entries[2048];
  long size = 0;
  while (only_ours && (size = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; only_ours && at < size;) {
      const auto* entry = reinterpret_cast<const Entry*>(entries + at);
      if (entry->name[0] != '.') only_ours = IsOursOrEnded(entry->name);
      at += entry->size;
    }
  }
  close(folder);
  return only_ours && size == 0;
}

// Not one of ours that exit() waits for. Handlers of the program run here, with the stack and the signals of its
// threads.
void* Exit(void*) {
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  std::exit(0);
}

}  // namespace

void ExitIfOnlyOursAreLeft() {
  static bool leaves = false;
  if (leaves || !HasFirstEnded() || !OnlyOursAreLeft()) return;
  pthread_t thread;
  leaves = pthread_create(&thread, nullptr, &Exit, nullptr) == 0;
}

}  // namespace gpumemshim::control
