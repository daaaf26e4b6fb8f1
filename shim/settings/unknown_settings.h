// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Warns of GPUMEMSHIM_* variables that nobody reads: a misspelt one would be ignored in silence.
//
// Thread-safety: reads the environment as getenv does. Failure: none; what does not fit a line is cut.
//
//   UnknownSettingsLine(environ, line, sizeof line);
//   // "gpumemshim: GPUMEMSHIM_OUPUT is not a setting of this version (GPUMEMSHIM_OUTPUT is). docs/environment.md ..."

#ifndef GPUMEM_SHIM_SETTINGS_UNKNOWN_SETTINGS_H_
#define GPUMEM_SHIM_SETTINGS_UNKNOWN_SETTINGS_H_

#include <cstddef>

namespace gpumemshim::control {

// The line for stderr that names all of them, and for each the known name that it is nearest to. Returns its size, 0
// where there is nothing to say.
size_t UnknownSettingsLine(const char* const* environment, char* out, size_t capacity);

// The known name that most likely was meant, or nullptr where none is near.
const char* NearestSetting(const char* name, size_t size);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_UNKNOWN_SETTINGS_H_
