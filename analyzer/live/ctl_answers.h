// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim ctl` prints of the answers of a recorded process (ctl_client.h), for people and as JSON. Nothing
// that comes back is trusted. Pure functions.

#ifndef GPUMEM_ANALYZER_LIVE_CTL_ANSWERS_H_
#define GPUMEM_ANALYZER_LIVE_CTL_ANSWERS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "live/ctl_client.h"

namespace gpumem {

// To "status" and "start": some lines.
std::string StatusText(const ControlAnswer& answer);
// The fields of the open object.
void WriteJsonStatus(const ControlAnswer& answer, JsonWriter* json);

// To "settings" and "set": one setting a line, with what of them can be changed.
bool IsOfSettings(absl::string_view asked);
std::string SettingsText(const ControlAnswer& answer);
// A member of the object that is open.
void WriteJsonSettings(const ControlAnswer& answer, JsonWriter* json);

// To "gc", "backtrace" and "eval".
//
//   if (IsConsole("gc")) console->Print(ConsoleText("gc", answer));

bool IsConsole(absl::string_view asked);

std::string ConsoleText(absl::string_view asked, const ControlAnswer& answer);

// Members of the object that is open.
void WriteConsole(absl::string_view asked, const ControlAnswer& answer, JsonWriter* json);

// False where what was evaluated raised an exception.
bool WasEvaluated(const ControlAnswer& answer);

// To "tensors" and "gradients": rows that the process sent as "NUMBER.FIELD VALUE".
//
//   if (IsLive(asked)) Print(LiveText(asked, answer));

bool IsLive(absl::string_view asked);
std::string LiveText(absl::string_view asked, const ControlAnswer& answer);
// Members of the object that is open.
void WriteLive(const ControlAnswer& answer, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_CTL_ANSWERS_H_
