// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The one line that a traced program ends with on stderr.
//
//   gpumemshim: 17,904 events (17,800 torch, 96 runtime, 8 driver), 0 lost, in ./gpumemshim.train.123.gmtrace (61 KiB).
//   Next: gpumemshim report gpumemshim.train.123.gmtrace
//
// Thread-safety: pure. Failure: an empty line where there is nothing to tell.

#ifndef GPUMEM_SHIM_CONTROL_SUMMARY_LINE_H_
#define GPUMEM_SHIM_CONTROL_SUMMARY_LINE_H_

#include <cstddef>
#include <cstdint>

#include "shim/writer/writer.h"

namespace gpumemshim::control {

struct SummaryLineFacts {
  uint64_t failed_callbacks = 0;  // of the forecast (GPUMEMSHIM_FORECAST_EXEC and the like); named where there are any
  const char* directory = "";     // the working directory, so that a path inside it is shown short
  const char* summary_file = "";  // all that is kept of a rank (GPUMEMSHIM_RANKS); "" = its trace is
};

// Returns the line's length.
size_t SummaryLine(const writer::Summary& summary, const SummaryLineFacts& facts, char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SUMMARY_LINE_H_
