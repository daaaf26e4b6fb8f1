/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * What the simulated driver tells the simulated CUPTI of each call that changes memory, through its export
 * simcuda_observe(). C and C++. Called under the machine's lock: the observer must not call the driver. The values are
 * those of the event log (event_log.h) and valid during the call only.
 */
#ifndef SIMCUDA_BASE_MEMORY_OBSERVER_H_
#define SIMCUDA_BASE_MEMORY_OBSERVER_H_

#include <stdint.h>

struct simcuda_memory_event {
  const char* api;
  const char* kind;
  int device; /* -1: the host's */
  uint64_t address;
  uint64_t size;
  uint64_t handle; /* pool or array */
  uint64_t stream;
};

typedef void (*simcuda_observer)(const struct simcuda_memory_event* event);

#endif
