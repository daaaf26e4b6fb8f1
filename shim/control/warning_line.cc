// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/warning_line.h"

#include "shim/settings/text.h"

namespace gpumemshim::control {

size_t WarningLine(const sampler::Crossing& crossing, char* out, size_t capacity) {
  Text line(out, capacity);
  line.Add("gpumemshim: GPU ").Add(static_cast<uint64_t>(crossing.device));
  if (crossing.total != 0) {
    line.Add(" is ").Add(crossing.used * 100 / crossing.total).Add(" % full (");
  } else {
    line.Add(" is filling up (");
  }
  line.AddBytes(crossing.used);
  if (crossing.total != 0) line.Add(" of ").AddBytes(crossing.total);
  if (crossing.own != sampler::kUnknown) line.Add(", ").AddBytes(crossing.own).Add(" by this process");
  line.Add("): reached ");
  if (crossing.percent != 0) {
    line.Add(uint64_t{crossing.percent}).Add(" %");
  } else {
    line.AddBytes(crossing.bytes);
  }
  line.Add('\n');
  return line.size();
}

}  // namespace gpumemshim::control
