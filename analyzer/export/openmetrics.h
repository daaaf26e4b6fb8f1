// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A trace's numbers as text exposition (base/text_formats.h): peaks, what was alive at the end, the peak by category,
// events and losses, with the device, the program and the rank as labels. docs/commands/export.md names them. Not
// thread-safe.
//
//   GPUMEM_RETURN_IF_ERROR(WriteOpenMetrics(loaded, sink));
//   // gpumemshim_peak_allocated_bytes{program="train",device="0"} 8589934592

#ifndef GPUMEM_ANALYZER_EXPORT_OPENMETRICS_H_
#define GPUMEM_ANALYZER_EXPORT_OPENMETRICS_H_

#include "absl/status/status.h"
#include "base/text_sink.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

// Fails where the trace cannot be read a second time.
absl::Status WriteOpenMetrics(LoadedTrace* loaded, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_OPENMETRICS_H_
