// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A libcuda.so.1 for programs under MSan or TSan, where the simulated one cannot run: it has no heap, no C++ library
// and no address space of its own.

#include <stddef.h>

static unsigned long g_next = 1ul << 40;

int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuCtxGetDevice(int* device) { return *device = 0; }
int cuMemFree_v2(unsigned long address) { return address == 0; }

int cuMemAlloc_v2(unsigned long* address, size_t bytes) {
  *address = __atomic_fetch_add(&g_next, (bytes + 4095) / 4096 * 4096, __ATOMIC_RELAXED);
  return 0;
}
