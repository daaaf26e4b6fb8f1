// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The one line that a traced program ends with on stderr.
//
//   gpumem: 17,904 events (17,800 torch, 96 runtime, 8 driver), 0 lost, in ./gpumem.train.123.gmtrace (61 KiB). Next:
//   gpumem report gpumem.train.123.gmtrace
//
// Thread-safety: pure. Failure: an empty line where there is nothing to tell.

#ifndef GPUMEM_SHIM_CONTROL_SUMMARY_LINE_H_
#define GPUMEM_SHIM_CONTROL_SUMMARY_LINE_H_

#include <cstddef>
#include <cstdint>

#include "shim/writer/writer.h"

namespace gpumemshim::control {

// `directory`: the working directory, so that a path inside it is shown short. Returns the line's length.
// `failed_callbacks`: of the forecast (GPUMEMSHIM_FORECAST_EXEC and the like); named where there are any.
size_t SummaryLine(const writer::Summary& summary, uint64_t failed_callbacks, const char* directory, char* out,
                   size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SUMMARY_LINE_H_
