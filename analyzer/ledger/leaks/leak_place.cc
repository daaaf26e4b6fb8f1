// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/leak_place.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace gpumem {

bool IsConcatenation(const LeakPlace& place) {
  return std::any_of(place.names.begin(), place.names.end(),
                     [](const std::string& name) { return absl::StrContains(name, "_ops::cat::"); });
}

bool IsOfTensors(const LeakPlace& place) {
  return std::any_of(place.names.begin(), place.names.end(), [](const std::string& name) {
    return absl::StartsWith(name, "c10::") || absl::StartsWith(name, "at::");
  });
}

}  // namespace gpumem
