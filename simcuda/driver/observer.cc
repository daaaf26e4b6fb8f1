// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The simulated CUPTI's way to what the driver does with memory (base/memory_observer.h).
#include "simcuda/base/memory_observer.h"
#include "simcuda/device/machine.h"

extern "C" {

// One observer a process; null for none any more.
__attribute__((visibility("default"))) void simcuda_observe(simcuda_observer observer) {
  simcuda::Machine::Observe(observer);
}

}  // extern "C"
