// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The files of Tiny Torch's memory tools (tools.memory): the status report as JSON, and the texts of its OOM warning,
// leak check and summary, with its keys, layout and Chinese texts. Where it polls nvidia-smi, usage is all CUDA memory
// that the trace has of the process, at every change; its averages are over time. Where it extrapolates two points, the
// forecast is that of `gpumemshim forecast`. Pure functions.
//
//   WriteTinyTorchStatus(log, *loaded, sink);   // {"timestamp": ..., "devices": {"0": ...}, "summary": ...}

#ifndef GPUMEM_ANALYZER_EXPORT_TINY_TORCH_H_
#define GPUMEM_ANALYZER_EXPORT_TINY_TORCH_H_

#include "absl/status/status.h"
#include "base/text_sink.h"
#include "export/moment_log.h"

namespace gpumem {

void WriteTinyTorchStatus(const MomentLog& log, const LoadedTrace& loaded, const TextSink& sink);
// Replays the trace for leaks and forecast; fails where it cannot be read again.
absl::Status WriteTinyTorchLog(const MomentLog& log, LoadedTrace* loaded, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_TINY_TORCH_H_
