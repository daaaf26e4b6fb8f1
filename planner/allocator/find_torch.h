// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FindTorch: a Python of this machine that has PyTorch, whose allocator a history is replayed through.
//
//   GPUMEM_ASSIGN_OR_RETURN(const TorchPython torch, FindTorch("", analysis.path, analysis.process));
//   torch.python;    // "/home/me/.venv/bin/python"
//   torch.version;   // "2.11.0+cu130"
//
// Looked at in this order: the one that is named; GPUMEMSHIM_INTERPRETER; the one that ran the recorded program, if
// `trace`, its file, is the user's own (ledger/load/own_trace.h: a trace is data, and does not say what is run) and
// nobody else may write that Python; VIRTUAL_ENV; python3 on PATH. PyTorch is not imported. Each candidate is started
// once for a moment.
//
// Thread-safety: pure but for the processes. Failure: InvalidArgument where the named one has no PyTorch for CUDA,
// NotFound where nobody has; both say what to do.

#ifndef GPUMEM_PLANNER_ALLOCATOR_FIND_TORCH_H_
#define GPUMEM_PLANNER_ALLOCATOR_FIND_TORCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "replay/analysis.h"

namespace gpumem::plan {

struct TorchPython {
  std::string python;
  std::string version;  // of PyTorch
};

absl::StatusOr<TorchPython> FindTorch(const std::string& named, const std::string& trace, const ProcessInfo& process);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_FIND_TORCH_H_
