// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ExportPyTorch: a trace as the snapshot that torch.cuda.memory._dump_snapshot writes, for torch/cuda/_memory_viz.py
// and the viewers that read it: the history of PyTorch's allocator, one replay a device, and the segments with their
// blocks at the end of the window. Memory: what is alive, and the stacks. Memory outside of PyTorch's allocator has no
// place in that format. Not thread-safe. Errors: those of RunExport.

#ifndef GPUMEM_ANALYZER_EXPORT_PYTORCH_H_
#define GPUMEM_ANALYZER_EXPORT_PYTORCH_H_

#include <functional>

#include "absl/status/statusor.h"
#include "export/exporter.h"

namespace gpumem {

absl::StatusOr<ExportResult> ExportPyTorch(const ExportRequest& request, LoadedTrace* loaded, const TextSink& sink,
                                           const std::function<bool()>& more);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_PYTORCH_H_
