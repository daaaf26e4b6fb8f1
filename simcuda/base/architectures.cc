// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/architectures.h"

#include <algorithm>

namespace simcuda {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool Skip(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// A number of one to four digits; -1 for anything else.
int LeadingNumber(std::string_view* text) {
  int value = 0;
  size_t length = 0;
  for (; length < text->size() && IsDigit((*text)[length]); ++length) {
    if (length == 4) return -1;
    value = value * 10 + ((*text)[length] - '0');
  }
  text->remove_prefix(length);
  return length == 0 ? -1 : value;
}

// What follows CUB_ or THRUST_: "300001_SM_750_800_NS", before CCCL 3 without "_SM".
std::vector<int> ParseList(std::string_view text) {
  while (!text.empty() && IsDigit(text.front())) text.remove_prefix(1);  // the version
  Skip(&text, "_SM");
  std::vector<int> found;
  while (Skip(&text, "_")) {
    if (text.substr(0, 2) == "NS") {
      std::sort(found.begin(), found.end());
      return found;
    }
    const int value = LeadingNumber(&text);  // __CUDA_ARCH__: major * 100 + minor * 10
    if (value < 100 || value % 10 != 0) return {};
    found.push_back(value / 10);
  }
  return {};
}

}  // namespace

std::vector<int> ArchitecturesIn(std::string_view mangled_name) {
  for (const std::string_view prefix : {"THRUST_", "CUB_"}) {
    for (size_t at = mangled_name.find(prefix); at != std::string_view::npos; at = mangled_name.find(prefix, at + 1)) {
      std::vector<int> found = ParseList(mangled_name.substr(at + prefix.size()));
      if (!found.empty()) return found;
    }
  }
  return {};
}

CodeVersion Choose(const std::vector<int>& architectures, int capability) {
  if (architectures.empty()) return {capability, capability};
  CodeVersion chosen;
  for (const int architecture : architectures) {
    if (architecture / 10 == capability / 10 && architecture <= capability) chosen = {architecture, architecture};
  }
  if (chosen.binary == 0 && architectures.back() <= capability) chosen = {architectures.back(), capability};
  return chosen;
}

}  // namespace simcuda
