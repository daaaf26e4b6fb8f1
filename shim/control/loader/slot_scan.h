// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Hooks for a process that was under way when we came: every place in the loaded objects that holds the address of a
// function that we wrap gets the wrapper's. Those are the tables that each copy of the runtime keeps of the driver's
// functions (in its .bss), relocated GOT entries, and, by name, GOT entries that are not bound yet; PyTorch's reports
// to its profiler, by which we see its blocks; and dlsym, for whatever is looked up later. No code is changed and no
// thread stopped: a slot is one aligned word.
//
// What it misses: pointers on the heap (Python's ctypes, for example), and what libraries that are loaded later do
// until we have looked again.
//
// Thread-safety: any thread that holds no lock; nothing is loaded, relocated or unloaded meanwhile.
// Failure: a page that cannot be made writable is left as it is.
//
//   const SlotCounts counts = PatchSlots();
//   if (AreSlotsStale()) PatchSlots();      // about once a second

#ifndef GPUMEM_SHIM_CONTROL_LOADER_SLOT_SCAN_H_
#define GPUMEM_SHIM_CONTROL_LOADER_SLOT_SCAN_H_

#include <cstdint>

namespace gpumemshim::control {

struct SlotCounts {
  uint32_t objects = 0;
  uint32_t driver = 0;  // slots exchanged
  uint32_t runtime = 0;
  uint32_t torch = 0;
  uint32_t lookups = 0;  // of dlsym and dlvsym
};

SlotCounts PatchSlots();

// True where PatchSlots has run, and something was loaded since.
bool AreSlotsStale();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_LOADER_SLOT_SCAN_H_
