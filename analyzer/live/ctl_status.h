// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a recorded process answers to "status" and "start" (ctl_client.h), for people and as JSON. Pure functions.

#ifndef GPUMEM_ANALYZER_LIVE_CTL_STATUS_H_
#define GPUMEM_ANALYZER_LIVE_CTL_STATUS_H_

#include <string>

#include "base/json_writer.h"
#include "live/ctl_client.h"

namespace gpumem {

// Some lines.
std::string StatusText(const ControlAnswer& answer);
// The fields of the open object.
void WriteJsonStatus(const ControlAnswer& answer, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_CTL_STATUS_H_
