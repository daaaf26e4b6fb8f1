/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors */
#define _GNU_SOURCE
#include "standin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { kHandleBytes = 256 };

void* standin_handle(void) { return calloc(1, kHandleBytes); }

void standin_release(void* handle) { free(handle); }

size_t standin_setting(const char* variable, size_t otherwise) {
  const char* text = getenv(variable);
  if (text == NULL || *text < '0' || *text > '9') return otherwise;
  char* end = NULL;
  size_t value = strtoull(text, &end, 10);
  if (*end == 'K' || *end == 'k') return value << 10;
  if (*end == 'M' || *end == 'm') return value << 20;
  if (*end == 'G' || *end == 'g') return value << 30;
  return value;
}

void standin_note(const char* function) {
  static int wanted = -1;
  if (wanted < 0) {
    const char* text = getenv("SIMCUDA_VERBOSE");
    wanted = text != NULL && *text != '\0' && *text != '0';
  }
  if (wanted) fprintf(stderr, "simcuda: %s (stand-in)\n", function);
}

void* standin_driver_if_loaded(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == NULL) return NULL;
  void* address = dlsym(driver, name);
  dlclose(driver);
  return address;
}

void* standin_driver(const char* name) {
  /* Kept open on purpose: a driver is never unloaded. */
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  return driver == NULL ? NULL : dlsym(driver, name);
}

int standin_copy(void* to, const void* from, size_t bytes, void* stream) {
  static int (*copy)(uint64_t, uint64_t, size_t, void*) = NULL;
  if (to == from || to == NULL || from == NULL || bytes == 0) return 0;
  if (copy == NULL) *(void**)&copy = standin_driver("cuMemcpyAsync");
  return copy == NULL ? 0 : copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, stream);
}
