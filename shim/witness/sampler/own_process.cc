// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/own_process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/apart.h"
#include "shim/base/descriptors.h"

namespace gpumemshim::sampler {
namespace {

// The number that Linux gives to the first process namespace, by include/linux/proc_ns.h.
constexpr const char kFirstNamespace[] = "pid:[4026531836]";

OwnProcess FindOwn(uint32_t own_pid, bool machine_ids, const ProcessUse* processes, uint32_t count, uint32_t* at) {
  for (*at = 0; *at < count; ++*at) {
    if (processes[*at].pid == own_pid) return machine_ids ? OwnProcess::kByPid : OwnProcess::kByPidInside;
  }
  *at = 0;
  return !machine_ids && count == 1 ? OwnProcess::kOnlyOne : OwnProcess::kNotFound;
}

bool IsLarger(const ProcessUse& a, const ProcessUse& b) {
  const uint64_t a_bytes = a.bytes == kUnknown ? 0 : a.bytes, b_bytes = b.bytes == kUnknown ? 0 : b.bytes;
  return a_bytes != b_bytes ? a_bytes > b_bytes : a.pid < b.pid;
}

}  // namespace

bool InMachinesNamespace() {
  char text[64];
  const ssize_t size = readlink("/proc/self/ns/pid", text, sizeof(text));
  return size == static_cast<ssize_t>(sizeof(kFirstNamespace)) - 1 &&
         memcmp(text, kFirstNamespace, sizeof(kFirstNamespace) - 1) == 0;
}

void ReadProcessName(uint32_t pid, char* out, uint32_t capacity) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%u/comm", pid);
  out[0] = '\0';
  apart::Do([&] {
    const int file = descriptors::Raise(open(path, O_RDONLY | O_CLOEXEC));
    if (file < 0) return;
    const ssize_t size = read(file, out, capacity - 1);
    close(file);
    out[size < 0 ? 0 : size] = '\0';
  });
  if (char* end = strchr(out, '\n'); end != nullptr) *end = '\0';
}

void SplitProcesses(uint32_t own_pid, bool machine_ids, ProcessUse* processes, uint32_t count, DeviceSample* out) {
  uint32_t own = 0;
  out->own_process = FindOwn(own_pid, machine_ids, processes, count, &own);
  if (out->own_process != OwnProcess::kNotFound) {
    out->own = processes[own].bytes;
    processes[own] = processes[--count];
  }
  out->others_known = true;
  out->other_count = count;
  out->others_kept = 0;
  // Where the list has our id, it speaks of our namespace.
  const bool names = machine_ids || out->own_process == OwnProcess::kByPidInside;
  while (out->others_kept < count && out->others_kept < kMaxOthers) {
    ProcessUse* largest = &processes[0];
    for (uint32_t i = 1; i < count - out->others_kept; i++) {
      if (IsLarger(processes[i], *largest)) largest = &processes[i];
    }
    ProcessUse& kept = out->others[out->others_kept++];
    kept = *largest;
    if (names) ReadProcessName(kept.pid, kept.name, sizeof(kept.name));
    *largest = processes[count - out->others_kept];
  }
}

}  // namespace gpumemshim::sampler
