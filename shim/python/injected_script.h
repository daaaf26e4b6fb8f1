// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A Python file that somebody wants to run in the program beside the helper (GPUMEMSHIM_INJECTED_SCRIPT): `gpumemshim
// plan` stops the program after its steps by it. It runs once in a process, in the main thread, with PyTorch loaded,
// behind the helper's first look. Its global `record` is what the helper has (inject.cc), with `record.end()` besides.
//
// Thread-safety: SetInjectedScript before helpers run; RunInjectedScript with the GIL held. Failure: told as the
// helper's are; the program goes on. What is not an Exception (SystemExit, KeyboardInterrupt) is raised in the program.

#ifndef GPUMEM_SHIM_PYTHON_INJECTED_SCRIPT_H_
#define GPUMEM_SHIM_PYTHON_INJECTED_SCRIPT_H_

#include "shim/python/api.h"

namespace gpumemshim::python {

// `path` lives as long as the process; empty: there is none. `end` ends the recording, as at the program's end.
void SetInjectedScript(const char* path, void (*end)());

// At most once in a process. What it returns is a pending call's result.
int RunInjectedScript(const Api* api, Object* record);

// record.end()
Object* EndRecording(Object*, Object*);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_INJECTED_SCRIPT_H_
