// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Modules, libraries and kernels: a module holds a kernel of any name that is asked for. A CUkernel and the CUfunction
// of it are the same handle.
//
// Thread-safety: Function records are immutable but for their module's table, which module.cc locks. They live until
// the process ends, so launching a kernel of an unloaded module is harmless.
#ifndef SIMCUDA_DRIVER_MODULE_H_
#define SIMCUDA_DRIVER_MODULE_H_

#include <memory>
#include <string>
#include <unordered_map>

#include "simcuda/base/architectures.h"
#include "simcuda/driver/driver.h"
#include "simcuda/driver/results.h"

namespace simcuda {

struct Module;

struct Function {
  std::string name;
  Module* module = nullptr;
  CodeVersion code;
  Recipe recipe;             // of what it computes
  uint64_t local_bytes = 0;  // that a thread needs
};

struct Module {
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
  std::unordered_map<std::string, uint64_t> variables;    // device addresses
  std::unordered_map<std::string, uint64_t> local_bytes;  // of kernels, where the image says it (ptx.h)
  uint64_t code_bytes = 0;                                // that it takes of a device
};

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_MODULE_H_
