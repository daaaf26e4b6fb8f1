// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// For which architectures a program's kernels were compiled, and which of these the driver takes for a device.
//
// The layout of fat binaries is not public, so they are not read. What is public: CUB and Thrust put the list of
// architectures of the translation unit into the names of their symbols (nvidia.github.io/cccl/cub/developer/
// visibility.html), as the inline namespaces CUB_300001_SM_750_800_NS or THRUST_200200_750_800_NS. These are also the
// kernels that ask: CUB has code for exactly those architectures.
//
// Thread-safety: pure functions. Failure mode: a name without a list gives an empty one: not known.
//
//   Choose(ArchitecturesIn("_ZN6thrust30THRUST_300001_SM_750_800_860_NS..."), 89);  // {.ptx = 86, .binary = 86}
#ifndef SIMCUDA_BASE_ARCHITECTURES_H_
#define SIMCUDA_BASE_ARCHITECTURES_H_

#include <string_view>
#include <vector>

namespace simcuda {

// Of a kernel: major * 10 + minor. Both 0: there is none that the device can run.
struct CodeVersion {
  int ptx = 0;     // what the PTX was made for, of which the code was made
  int binary = 0;  // what the code was made for
};

// Compute capabilities in ascending order; empty where the name tells none.
std::vector<int> ArchitecturesIn(std::string_view mangled_name);

// Code runs on devices of the same major number and no lower a minor one; PTX is compiled for any device that is not
// older. That there is PTX is not told: it is taken to be there for the last architecture alone, where nvcc's
// -arch=all-major and PyTorch's +PTX put it. Of an empty list: code made for the device.
CodeVersion Choose(const std::vector<int>& architectures, int capability);

}  // namespace simcuda

#endif  // SIMCUDA_BASE_ARCHITECTURES_H_
