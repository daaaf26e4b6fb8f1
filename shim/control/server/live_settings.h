// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Settings of a program that runs: which it was started with, and the few that can be changed without disturbing what
// is recorded. `gpumemshim ctl PID settings` and `set NAME=VALUE` ask for it.
//
// Thread-safety: the control thread's. Failure: SetLiveSetting says why not.
//
//   if (const char* why = SetLiveSetting("GPUMEMSHIM_LOG=debug", 20); why != nullptr) answer.Error(why);
//   LiveValues values;
//   GetLiveSettings(&values);

#ifndef GPUMEM_SHIM_CONTROL_SERVER_LIVE_SETTINGS_H_
#define GPUMEM_SHIM_CONTROL_SERVER_LIVE_SETTINGS_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::control {

struct SettingNow {
  const char* name;
  const char* value;
  bool can_change;  // while the program runs
};

// nullptr: done. Else why it is not; the text holds until the next call.
const char* SetLiveSetting(const char* text, size_t size);

inline constexpr uint32_t kLiveSettings = 3;

// Those that can be changed, as they are now. `room` has their values.
struct LiveValues {
  SettingNow settings[kLiveSettings];
  char room[kLiveSettings][24];
};
void GetLiveSettings(LiveValues* out);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SERVER_LIVE_SETTINGS_H_
