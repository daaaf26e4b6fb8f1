// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim ctl PID tensors` and `gradients` say: rows that the process sent as "NUMBER.FIELD VALUE". Nothing of
// it is trusted. Pure functions.
//
//   if (IsLive(asked)) Print(LiveText(asked, answer));

#ifndef GPUMEM_ANALYZER_LIVE_CTL_LIVE_H_
#define GPUMEM_ANALYZER_LIVE_CTL_LIVE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "live/ctl_client.h"

namespace gpumem {

bool IsLive(absl::string_view asked);
std::string LiveText(absl::string_view asked, const ControlAnswer& answer);
// Members of the object that is open.
void WriteLive(const ControlAnswer& answer, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_CTL_LIVE_H_
