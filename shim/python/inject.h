// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Brings helper.py into the program's Python: a pending call, which the main thread makes between two bytecodes, with
// the GIL held. No file, no import hook, no thread.
//
// Thread-safety: RequestLook from any thread, with or without the GIL; it takes the interpreter's short lock of pending
// calls. Failure: without a trace; the program goes on with less attribution.

#ifndef GPUMEM_SHIM_PYTHON_INJECT_H_
#define GPUMEM_SHIM_PYTHON_INJECT_H_

#include <cstddef>
#include <cstdint>

#include "shim/python/api.h"

namespace gpumemshim::python {

// Before the first request. Off: requests do nothing.
void Enable(bool on);

bool IsEnabled();

// Something new may be said about the program's objects.
void RequestLook();

// With the GIL held: the helper reports who owns GPU memory now. A pending call's result.
int TellOwners(uint32_t cause);

// What went wrong in the part of the recorder that runs in the program's Python, for the trace's versions: the first
// failure, as text, and how many there were.
//
// Thread-safety: AddFailure by one thread at a time (the GIL); the others from any. Failure: none.

// `is_last`: the helper is switched off.
void AddFailure(const char* text, size_t size, bool is_last);

uint32_t CountFailures();

// "ValueError in named_modules: no (3 times; switched off)". False where nothing failed.
bool DescribeFailures(char* out, size_t capacity);

// A Python file that somebody wants to run in the program beside the helper (GPUMEMSHIM_INJECTED_SCRIPT): `gpumemshim
// plan` stops the program after its steps by it. It runs once in a process, in the main thread, with PyTorch loaded,
// behind the helper's first look. Its global `record` is what the helper has (inject.cc), with `record.end()` besides.
//
// Thread-safety: SetInjectedScript before helpers run; RunInjectedScript with the GIL held. Failure: told as the
// helper's are; the program goes on. What is not an Exception (SystemExit, KeyboardInterrupt) is raised in the program.

// `path` lives as long as the process; empty: there is none. `end` ends the recording, as at the program's end.
void SetInjectedScript(const char* path, void (*end)());

// At most once in a process. What it returns is a pending call's result.
int RunInjectedScript(const Api* api, Object* record);

// GPUMEMSHIM_LIMIT: bytes that the helper leaves to PyTorch's allocator on each device that comes in use, by PyTorch's
// own switch; 0 = none. Any thread.
void SetTorchLimit(uint64_t bytes);

// record.end()
Object* EndRecording(Object*, Object*);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_INJECT_H_
