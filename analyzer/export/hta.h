// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One GPU's memory timeline as PyTorch's profiler exports it to *.raw.json.gz (export_memory_timeline) and Holistic
// Trace Analysis reads it (hta.memory_analysis.MemoryAnalysis): [time in ns, action, bytes, category] for each block,
// bytes negative where it is freed, gzipped. At each instant the entries before add up to what was allocated.
//
//   ExportRequest request;
//   GPUMEM_ASSIGN_OR_RETURN(const ExportResult result, ExportHta(request, loaded, sink, more));
//
// Not thread-safe. Memory: what is alive, and one byte an event. Fails where the trace cannot be read again.

#ifndef GPUMEM_ANALYZER_EXPORT_HTA_H_
#define GPUMEM_ANALYZER_EXPORT_HTA_H_

#include <functional>

#include "export/exporter.h"

namespace gpumem {

// Of `request.device`, or, where that is -1, of the one with the largest peak.
absl::StatusOr<ExportResult> ExportHta(const ExportRequest& request, LoadedTrace* loaded, TextSink sink,
                                       const std::function<bool()>& more);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_HTA_H_
