// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/trace_link.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/base/kernel.h"
#include "shim/ring/ring.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

// A kill in the middle leaves a ring that does not know its trace, never one that knows a wrong one.
void SetTrace(RingHeader* header, const char* path, uint64_t device, uint64_t inode) {
  const size_t length = strlen(path);
  Atomic(header->trace_path_bytes).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (path[0] != '/' || length >= kTracePathBytes) return;
  memcpy(header->trace_path, path, length + 1);
  header->trace_device = device;
  header->trace_inode = inode;
  Atomic(header->trace_path_bytes).store(static_cast<uint32_t>(length), std::memory_order_release);
}

}  // namespace

void WantTrace(RingHeader* header, const char* path) {
  struct stat mounts;
  if (kernel::Stat("/proc/self/ns/mnt", &mounts) == 0) header->mount_namespace = mounts.st_ino;
  if (path != nullptr) SetTrace(header, path, 0, 0);
}

void NameTrace(const char* path) {
  if (GetStats().size_bytes == 0) return;
  const int saved = errno;
  struct stat trace;
  if (kernel::Lstat(path, &trace) == 0) SetTrace(g_state.header, path, trace.st_dev, trace.st_ino);
  errno = saved;
}

void MarkWritten(uint64_t packet_sequence) {
  if (GetStats().size_bytes == 0) return;
  Atomic(g_state.header->written_sequence).store(packet_sequence, std::memory_order_release);
}

}  // namespace gpumemshim::ring
