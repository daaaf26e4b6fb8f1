// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A LiveFrame as text exposition for Prometheus (base/text_formats.h): what each program holds now, its peak, steps and
// losses. docs/commands/serve.md names the metrics. Pure.
//
//   LiveMetrics(frame)   // gpumemshim_allocated_bytes{program="train",trace="train.4242.gmtrace",device="0"}
//   8589934592

#ifndef GPUMEM_ANALYZER_LIVE_SERVE_LIVE_METRICS_H_
#define GPUMEM_ANALYZER_LIVE_SERVE_LIVE_METRICS_H_

#include <string>

#include "live/live_frame.h"

namespace gpumem {

std::string LiveMetrics(const LiveFrame& frame);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_LIVE_METRICS_H_
