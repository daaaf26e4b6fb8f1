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

namespace gpumemshim::python {

// Before the first request. Off: requests do nothing.
void Enable(bool on);

bool IsEnabled();

// Something new may be said about the program's objects.
void RequestLook();

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_INJECT_H_
