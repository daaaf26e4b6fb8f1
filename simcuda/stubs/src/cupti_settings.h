/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * SIMCUDA_CUPTI, how the simulated CUPTI misbehaves: "late,drop=10" (simcuda/README.md).
 */
#ifndef SIMCUDA_STUBS_SRC_CUPTI_SETTINGS_H_
#define SIMCUDA_STUBS_SRC_CUPTI_SETTINGS_H_

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

/* The number behind "name="; 1 for the word alone, 0 where it is not in the list. */
inline uint32_t cupti_setting(const char* name) {
  const char* at = getenv("SIMCUDA_CUPTI");
  const size_t length = strlen(name);
  while (at != nullptr && *at != '\0') {
    if (strncmp(at, name, length) == 0) {
      if (at[length] == '=') return static_cast<uint32_t>(strtoul(at + length + 1, nullptr, 10));
      if (at[length] == '\0' || at[length] == ',') return 1;
    }
    at = strchr(at, ',');
    if (at != nullptr) ++at;
  }
  return 0;
}

/* 12.9 still counted by ones. */
inline uint32_t cupti_version() {
  const uint32_t set = cupti_setting("version");
  return set != 0 ? set : STUB_CUDA_MAJOR == 12 ? 28 : 130000;
}

/* As the real one, CUPTI ends in a destructor of its library, and what is called afterwards ends the program. */
void cupti_must_live();

#endif
