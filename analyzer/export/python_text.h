// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Values as Python programs write them, as text, for the files of tools that are written in Python.

#ifndef GPUMEM_ANALYZER_EXPORT_PYTHON_TEXT_H_
#define GPUMEM_ANALYZER_EXPORT_PYTHON_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"

namespace gpumem {

// repr() of a float; "null" where it is not finite, since these files are JSON.
std::string PythonFloat(double value);
void WriteFloat(absl::string_view key, double value, JsonWriter* json);

// datetime.isoformat(): no fraction where it is zero.
std::string PythonIsoTime(uint64_t realtime_ns);
// datetime.strftime with "%Y-%m-%d %H:%M:%S", "%Y%m%d_%H%M%S".
std::string PythonTime(uint64_t realtime_ns, const char* format);

// Mebibytes, which these tools call MB; exact, since a double has 53 bits.
inline double MegaBytes(uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_PYTHON_TEXT_H_
