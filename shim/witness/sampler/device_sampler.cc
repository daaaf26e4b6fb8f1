// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/device_sampler.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/apart.h"
#include "shim/base/clock.h"
#include "shim/base/descriptors.h"

namespace gpumemshim::sampler {

void DeviceSampler::AddDevice(int16_t device, const uint8_t (&uuid)[16]) {
  const uint32_t count = count_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++) {
    if (devices_[i].device == device) return;
  }
  if (count == kMaxDevices) return;
  devices_[count].device = device;
  memcpy(devices_[count].uuid, uuid, sizeof(uuid));
  count_.store(count + 1, std::memory_order_release);  // with the loads of Take and UsesPool
}

void DeviceSampler::UsesPool(int16_t device) {
  const uint32_t count = count_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++) {
    if (devices_[i].device == device) devices_[i].uses_pool.store(true, std::memory_order_relaxed);
  }
}

bool DeviceSampler::Open() {
  machine_ids_ = InMachinesNamespace();
  open_ = nvml_.Open(error_, sizeof(error_));
  return open_;
}

void DeviceSampler::ReadDevice(PoolReader read_pool, Device* device, Sample* out) {
  DeviceSample& sample = out->devices[out->device_count];
  sample.Reset(device->device);
  if (!device->found) device->found = nvml_.FindDevice(device->uuid, &device->handle);
  if (!device->found || !nvml_.ReadMemory(device->handle, &sample)) {
    snprintf(error_, sizeof(error_), "NVML %s GPU %d", device->found ? "does not tell the memory of" : "does not know",
             device->device);
    device->failures++;
    return;
  }
  device->failures = 0;
  uint32_t count = 0;
  if (nvml_.ListProcesses(device->handle, processes_, &count)) {
    SplitProcesses(static_cast<uint32_t>(getpid()), machine_ids_, processes_, count, &sample);
  }
  if (read_pool != nullptr && device->uses_pool.load(std::memory_order_relaxed) &&
      !read_pool(device->device, &sample.pool_reserved, &sample.pool_used)) {
    sample.pool_reserved = sample.pool_used = kUnknown;
  }
  out->device_count++;
}

void DeviceSampler::Take(PoolReader read_pool, Sample* out) {
  const uint64_t start_ns = MonotonicNs();
  out->device_count = 0;
  out->crossing_count = 0;
  const uint32_t count = open_ ? count_.load(std::memory_order_acquire) : 0;
  for (uint32_t i = 0; i < count; i++) {
    if (devices_[i].failures < kMaxFailures) ReadDevice(read_pool, &devices_[i], out);
  }
  out->time_ns = MonotonicNs();
  out->took_ns = out->time_ns - start_ns;
  out->rss = ResidentBytes();
  out->process_cpu_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID);
  ReadMachineMemory(&out->system_total, &out->system_available);
  memcpy(out->source, nvml_.version(), sizeof(out->source));
  memcpy(out->error, error_, sizeof(out->error));
}

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
  apart::Do([&] { descriptors::ReadText(path, out, capacity); });
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

namespace {

bool ReadFile(const char* path, char* out, size_t capacity) {
  bool read = false;
  apart::Do([&] { read = descriptors::ReadText(path, out, capacity) != 0; });
  return read;
}

uint64_t ParseNumber(const char* text) {
  uint64_t value = 0;
  while (*text == ' ' || *text == '\t') text++;
  for (; *text >= '0' && *text <= '9'; text++) value = value * 10 + static_cast<uint64_t>(*text - '0');
  return value;
}

}  // namespace

uint64_t FindKilobytes(const char* text, const char* name) {
  const size_t size = strlen(name);
  for (const char* line = text; line != nullptr; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, name, size) == 0 && line[size] == ':') return ParseNumber(line + size + 1) * 1024;
  }
  return 0;
}

uint64_t ResidentBytes() {
  char text[128];
  if (!ReadFile("/proc/self/statm", text, sizeof(text))) return 0;
  const char* second = strchr(text, ' ');
  return second == nullptr ? 0 : ParseNumber(second) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void ReadMachineMemory(uint64_t* total, uint64_t* available) {
  char text[1024];  // both stand in the first three lines
  *total = *available = 0;
  if (!ReadFile("/proc/meminfo", text, sizeof(text))) return;
  *total = FindKilobytes(text, "MemTotal");
  *available = FindKilobytes(text, "MemAvailable");
}

}  // namespace gpumemshim::sampler
