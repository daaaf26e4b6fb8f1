// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "tests/shim/witness/sampler/fake_nvml.h"

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

extern "C" {

FakeNvml g_fake_nvml;

nvmlReturn_t nvmlInit_v2() { return static_cast<nvmlReturn_t>(g_fake_nvml.init_result.load()); }
const char* nvmlErrorString(nvmlReturn_t) { return "as the test said"; }

nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  snprintf(version, length, "1.2.3");
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (strcmp(uuid, "MIG-5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a07") != 0) return NVML_ERROR_NOT_FOUND;
  *device = reinterpret_cast<nvmlDevice_t>(&g_fake_nvml);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t* out) {
  g_fake_nvml.questions++;
  while (g_fake_nvml.hold) {
    const timespec millisecond = {0, 1'000'000};
    nanosleep(&millisecond, nullptr);
  }
  if (g_fake_nvml.memory_result != 0) return static_cast<nvmlReturn_t>(g_fake_nvml.memory_result.load());
  out->total = g_fake_nvml.total;
  out->used = g_fake_nvml.used;
  out->reserved = g_fake_nvml.reserved;
  out->free = out->total - out->used - out->reserved;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t*) { return NVML_ERROR_NOT_SUPPORTED; }

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count, nvmlProcessInfo_t* infos) {
  const uint32_t wanted = g_fake_nvml.process_count;
  const unsigned room = *count;
  *count = wanted;
  if (room < wanted) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (uint32_t i = 0; i < wanted; i++) {
    nvmlProcessDetail_v1_t detail = {};
    detail.pid = g_fake_nvml.pids[i];
    detail.usedGpuMemory = g_fake_nvml.bytes[i];
    if (g_fake_nvml.long_elements) {
      memcpy(reinterpret_cast<char*>(infos) + i * sizeof(detail), &detail, sizeof(detail));
    } else {
      memcpy(&infos[i], &detail, sizeof(infos[i]));
    }
  }
  return NVML_SUCCESS;
}

}  // extern "C"
