/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors */
#define _GNU_SOURCE
#include "stub.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { kHandleBytes = 256, kParameterBytes = 256 };

void* stub_handle(void) { return calloc(1, kHandleBytes); }

void stub_release(void* handle) { free(handle); }

size_t stub_setting(const char* variable, size_t otherwise) {
  const char* text = getenv(variable);
  if (text == NULL || *text < '0' || *text > '9') return otherwise;
  char* end = NULL;
  size_t value = strtoull(text, &end, 10);
  if (*end == 'K' || *end == 'k') return value << 10;
  if (*end == 'M' || *end == 'm') return value << 20;
  if (*end == 'G' || *end == 'g') return value << 30;
  return value;
}

size_t stub_workspace(const char* variable, const char* library, const char* version, const char* operation,
                      const char* parameters, uint64_t bound) {
  static uint64_t (*sizes)(const struct simcuda_ask*) = NULL;
  const struct simcuda_ask ask = {library,    version, operation,
                                  parameters, bound,   stub_setting(variable, SIMCUDA_NOT_SET)};
  if (sizes == NULL) *(void**)&sizes = stub_driver("simcuda_workspace");
  if (sizes != NULL) return sizes(&ask);
  return ask.set == SIMCUDA_NOT_SET ? 0 : ask.set; /* another driver: it has no table */
}

size_t stub_sized(const char* variable, const char* library, const char* operation, const long* values, int count,
                  uint64_t bound) {
  char parameters[kParameterBytes] = "";
  int used = 0;
  for (int i = 0; i < count && used < kParameterBytes; ++i)
    used += snprintf(parameters + used, (size_t)(kParameterBytes - used), i == 0 ? "%ld" : " %ld", values[i]);
  return stub_workspace(variable, library, NULL, operation, parameters, bound);
}

int stub_elements(const char* variable, const char* library, const char* operation, const long* values, int count,
                  uint64_t bound, size_t unit) {
  const size_t set = stub_setting(variable, SIMCUDA_NOT_SET);
  const uint64_t bound_bytes = bound == SIMCUDA_NO_BOUND ? bound : bound * unit;
  const size_t bytes = stub_sized("", library, operation, values, count, bound_bytes);
  const size_t elements = set != SIMCUDA_NOT_SET ? set : (bytes + unit - 1) / unit;
  return elements > INT32_MAX ? INT32_MAX : (int)elements;
}

size_t stub_type_bytes(long type) {
  /* cudaDataType: R_32F, R_64F, R_16F, then C_32F, C_64F, C_16F behind the integers */
  static const size_t kBytes[] = {4, 8, 2, 1, 8, 16, 4};
  return type >= 0 && type < (long)(sizeof(kBytes) / sizeof(kBytes[0])) ? kBytes[type] : 16;
}

void stub_note(const char* function) {
  static int wanted = -1;
  if (wanted < 0) {
    const char* text = getenv("SIMCUDA_VERBOSE");
    wanted = text != NULL && *text != '\0' && *text != '0';
  }
  if (wanted) fprintf(stderr, "simcuda: %s (stub)\n", function);
}

void* stub_driver_if_loaded(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == NULL) return NULL;
  void* address = dlsym(driver, name);
  dlclose(driver);
  return address;
}

void* stub_driver(const char* name) {
  /* Kept open on purpose: a driver is never unloaded. */
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  return driver == NULL ? NULL : dlsym(driver, name);
}

int stub_copy(void* to, const void* from, size_t bytes, void* stream) {
  static int (*copy)(uint64_t, uint64_t, size_t, void*) = NULL;
  if (to == from || to == NULL || from == NULL || bytes == 0) return 0;
  if (copy == NULL) *(void**)&copy = stub_driver("cuMemcpyAsync");
  return copy == NULL ? 0 : copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, stream);
}
