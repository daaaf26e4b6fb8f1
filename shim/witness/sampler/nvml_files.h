// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVML opens the driver's devices when it starts, nine on an H100, and keeps their numbers. Started by us it would take
// the lowest, which the program would get otherwise, and go on with them where the program has closed them and opened
// files of its own. So what the library opens is raised to 900 and more, like what we open ourselves (descriptors.h):
// its imports of open() and its kind lead to functions of ours. What they raise is known to be what was
// opened: a program may have closed the low number meanwhile and been given it for a file of its own.
//
// Where the program has started NVML before us its descriptors are the program's own, and stay where they are.
//
// Thread-safety: once, while nothing is loaded or unloaded. Failure: what is not found among the imports stays as it
// is.

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_NVML_FILES_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_NVML_FILES_H_

namespace gpumemshim::sampler {

// `library`: from dlopen.
void KeepFilesAway(void* library);

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_NVML_FILES_H_
