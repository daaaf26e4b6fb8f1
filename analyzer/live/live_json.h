// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A LiveFrame as JSON (docs/json.md): the answer of `gpumemshim live --json`. Pure.
//
//   LiveJson(frame, JsonLayout::kOneLine)   // for JSON lines

#ifndef GPUMEM_ANALYZER_LIVE_LIVE_JSON_H_
#define GPUMEM_ANALYZER_LIVE_LIVE_JSON_H_

#include <string>

#include "base/json_writer.h"
#include "live/live_frame.h"

namespace gpumem {

// With a line end.
std::string LiveJson(const LiveFrame& frame, JsonLayout layout);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_LIVE_JSON_H_
