// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/ring_names.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpumemshim::ring {
namespace {

// As the kernel lays it out for getdents64; opendir would take the heap.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

}  // namespace

void ForEachRing(int directory, bool (*visit)(void* context, int directory, const char* name), void* context) {
  alignas(DirectoryEntry) char buffer[4096];
  lseek(directory, 0, SEEK_SET);
  for (long size; (size = syscall(SYS_getdents64, directory, buffer, sizeof(buffer))) > 0;) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      if (PidOfRing(entry->name) != 0 && !visit(context, directory, entry->name)) return;
    }
  }
}

bool IsHeld(int ring) {
  if (flock(ring, LOCK_SH | LOCK_NB) != 0) return true;
  flock(ring, LOCK_UN);
  return false;
}

pid_t PidOfRing(const char* name) {
  constexpr char kPrefix[] = "gpumemshim.", kSuffix[] = ".ring";
  const size_t length = strlen(name);
  if (strncmp(name, kPrefix, sizeof(kPrefix) - 1) != 0 || length < sizeof(kPrefix) + sizeof(kSuffix)) return 0;
  if (strcmp(name + length - (sizeof(kSuffix) - 1), kSuffix) != 0) return 0;
  const char* digit = name + sizeof(kPrefix) - 1;
  int64_t pid = 0;
  for (; *digit >= '0' && *digit <= '9' && pid < INT32_MAX; digit++) pid = pid * 10 + (*digit - '0');
  return *digit == '.' && pid > 0 && pid <= INT32_MAX ? static_cast<pid_t>(pid) : 0;
}

}  // namespace gpumemshim::ring
