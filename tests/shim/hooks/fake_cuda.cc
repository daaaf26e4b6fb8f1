// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A libcuda.so.1 of a few functions for the interception tests: addresses count up, nothing is checked. Like the real
// one it binds its own calls inside.

#include <atomic>
#include <cstddef>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
std::atomic<unsigned long long> g_next{0x7000'0000'0000};
constexpr int kOutOfMemory = 2;
constexpr size_t kTooMuch = size_t{1} << 40;
}  // namespace

EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
EXPORT int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
EXPORT int cuMemAlloc(unsigned* out, unsigned) {
  *out = 4096;
  return 0;
}
EXPORT int cuMemAlloc_v2(unsigned long long* out, size_t bytes) {
  if (bytes >= kTooMuch) return kOutOfMemory;
  if (out != nullptr) *out = g_next.fetch_add(2 << 20);
  return 0;
}
EXPORT int cuMemFree_v2(unsigned long long) { return 0; }
EXPORT int cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (free != nullptr) *free = 1;
  if (total != nullptr) *total = 2;
  return 0;
}

EXPORT int cuGetProcAddress(const char* name, void** out, int version, unsigned long long);
EXPORT int cuGetProcAddress_v2(const char* name, void** out, int version, unsigned long long, int* status) {
  *out = nullptr;
  if (status != nullptr) *status = 0;
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("cuInit")) *out = reinterpret_cast<void*>(&cuInit);
  if (is("cuMemAlloc")) {
    *out = version >= 3020 ? reinterpret_cast<void*>(&cuMemAlloc_v2) : reinterpret_cast<void*>(&cuMemAlloc);
  }
  if (is("cuMemFree")) *out = reinterpret_cast<void*>(&cuMemFree_v2);
  if (is("cuMemGetInfo")) *out = reinterpret_cast<void*>(&cuMemGetInfo_v2);
  if (is("cuGetProcAddress")) {
    *out =
        version >= 12000 ? reinterpret_cast<void*>(&cuGetProcAddress_v2) : reinterpret_cast<void*>(&cuGetProcAddress);
  }
  if (*out == nullptr && status != nullptr) *status = 1;
  return 0;
}
EXPORT int cuGetProcAddress(const char* name, void** out, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}
