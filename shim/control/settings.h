// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The GPUMEMSHIM_* environment, read once at set-up. docs/environment.md is the table for people; kSettingNames is the
// same list for the trace's header.
//
// Thread-safety: ReadSettings reads the environment, so it may race with a setenv of the host, as every getenv may.
// Failure: a value that makes no sense counts as absent.

#ifndef GPUMEM_SHIM_CONTROL_SETTINGS_H_
#define GPUMEM_SHIM_CONTROL_SETTINGS_H_

#include <cstddef>
#include <cstdint>

#include "shim/stack/native_unwind.h"

namespace gpumemshim::control {

inline constexpr const char* kSettingNames[] = {
    "GPUMEMSHIM_OUTPUT", "GPUMEMSHIM_QUIET",     "GPUMEMSHIM_DISABLE",        "GPUMEMSHIM_NATIVE",
    "GPUMEMSHIM_PYTHON", "GPUMEMSHIM_RING_SIZE", "GPUMEMSHIM_RING_DIRECTORY", "GPUMEMSHIM_OOM_REPORT",
    "GPUMEMSHIM_GPUMEM", "GPUMEMSHIM_SAMPLE_MS", "GPUMEMSHIM_WARN_AT",
};

struct Settings {
  char output[1024] = "";  // pattern; empty = the default name
  bool quiet = false;
  bool disabled = false;
  stack::Unwinder native = stack::Unwinder::kLibunwind;
  bool python = true;
  bool oom_report = false;
  uint64_t ring_size_bytes = 0;           // 0 = the ring's default
  char ring_directory[512] = "/dev/shm";  // empty = anonymous memory
  uint32_t sample_ms = 1000;              // between samples of the devices; 0 = none
  char warn_at[256] = "";                 // sampler/thresholds.h; empty = never
};

Settings ReadSettings();

// "8388608", "8M", "8MiB", "512k"; 0 where it is none of these.
uint64_t ParseSize(const char* text);

// "1000"; `otherwise` where the text is no number, or one beyond a day.
uint32_t ParseMilliseconds(const char* text, uint32_t otherwise);

// "1", "true", "yes", "on" in any case; `otherwise` where the text is absent or empty; all else is false.
bool ParseSwitch(const char* text, bool otherwise);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SETTINGS_H_
