// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim ctl` prints of the answers to "gc", "backtrace" and "eval". Pure functions.
//
//   if (IsConsole("gc")) console->Print(ConsoleText("gc", answer));

#ifndef GPUMEM_ANALYZER_LIVE_CTL_CONSOLE_H_
#define GPUMEM_ANALYZER_LIVE_CTL_CONSOLE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "live/ctl_client.h"

namespace gpumem {

bool IsConsole(absl::string_view asked);

std::string ConsoleText(absl::string_view asked, const ControlAnswer& answer);

// Members of the object that is open.
void WriteConsole(absl::string_view asked, const ControlAnswer& answer, JsonWriter* json);

// False where what was evaluated raised an exception.
bool WasEvaluated(const ControlAnswer& answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_CTL_CONSOLE_H_
