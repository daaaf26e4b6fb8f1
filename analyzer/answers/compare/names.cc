// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace gpumem {
namespace {

constexpr absl::string_view kWrappers[] = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"};

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

bool IsWrapper(absl::string_view part) {
  return std::find(std::begin(kWrappers), std::end(kWrappers), part) != std::end(kWrappers);
}

}  // namespace

CodePlace ParsePlace(const std::string& text) {
  CodePlace place;
  for (size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    const size_t end = std::min(text.find(' ', colon), text.size());
    if (!absl::SimpleAtoi(absl::string_view(text).substr(colon + 1, end - colon - 1), &place.line)) continue;
    place.file = text.substr(0, colon);
    if (end < text.size()) place.function = text.substr(end + 1);
    return place;
  }
  place.line = 0;
  place.function = text;
  return place;
}

std::string WithoutLines(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
    if (text[i] == ':' && end > i + 1) {
      i = end;
    } else {
      result += text[i++];
    }
  }
  return result;
}

std::string WithoutWrappers(absl::string_view fqn) {
  std::vector<absl::string_view> kept;
  for (const absl::string_view part : absl::StrSplit(fqn, '.')) {
    if (IsWrapper(part) || (kept.empty() && part == "module")) continue;
    kept.push_back(part);
  }
  return absl::StrJoin(kept, ".");
}

std::string FoldNumbers(absl::string_view fqn) {
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(fqn, '.')) parts.push_back(IsNumber(part) ? "*" : part);
  return absl::StrJoin(parts, ".");
}

std::vector<std::string> Prefixes(const std::string& folded) {
  std::vector<std::string> result;
  for (size_t dot = folded.find('.'); dot != std::string::npos; dot = folded.find('.', dot + 1)) {
    // "layers" alone is only the list of "layers.*".
    if (folded.compare(dot, 2, ".*") != 0) result.push_back(folded.substr(0, dot));
  }
  if (!folded.empty()) result.push_back(folded);
  return result;
}

}  // namespace gpumem
