// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How the instants of one page are written: as FormatTime does, but never two of them alike. A program's peaks of
// allocated and of all memory may lie microseconds apart, with gigabytes between them.
//
//   AtPeak(peak.time_ns, input)   // "at 809.12 ms" where another peak of the trace lies at 809.31 ms, else "at 809 ms"

#ifndef GPUMEM_ANALYZER_RENDER_INSTANTS_H_
#define GPUMEM_ANALYZER_RENDER_INSTANTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ledger/load/input.h"

namespace gpumem {

// `ns` with as many digits as tell it from those of `others` that are not the same nanosecond.
std::string FormatTimeApart(uint64_t ns, const std::vector<uint64_t>& others);

// Of an instant as in the analysis: "at 1.26 s", since the trace's origin, told from the peaks of all devices; "at
// event 12" where times only keep the order; "when the snapshot was taken" where there is one moment alone.
std::string AtPeak(uint64_t time_ns, const ReportInput& input);

// How many events in which time: "22,192 events in 1.38 s"; "22,192 events" where times only keep the order.
std::string EventsText(const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_INSTANTS_H_
