// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Settings that `gpumemshim attach` brings along, since a program that runs has its environment already. They come
// before the environment's.
//
// Thread-safety: Give once, before any reader; Given from any thread. What is too long is cut.
//
//   GiveSettings("GPUMEMSHIM_OUTPUT=/tmp/x.gmtrace\nGPUMEMSHIM_QUIET=1\n");
//   GivenSetting("GPUMEMSHIM_QUIET");     // "1"; nullptr for what was not given

#ifndef GPUMEM_SHIM_SETTINGS_GIVEN_SETTINGS_H_
#define GPUMEM_SHIM_SETTINGS_GIVEN_SETTINGS_H_

namespace gpumemshim::control {

void GiveSettings(const char* lines);

const char* GivenSetting(const char* name);

// As it was given, else of the environment; nullptr where it is in neither.
const char* SettingOf(const char* name);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_GIVEN_SETTINGS_H_
