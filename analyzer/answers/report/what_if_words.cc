// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/what_if_words.h"

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem {
namespace {

std::string Difference(uint64_t from, uint64_t to) {
  if (from == to) return "as much";
  return to < from ? absl::StrCat(FormatBytes(from - to), " less") : absl::StrCat(FormatBytes(to - from), " more");
}

}  // namespace

void AddWhyEstimated(const WhatIfAnswer& what_if, Document* answer) {
  if (what_if.is_replayed() && what_if.is_exact) return;
  if (!what_if.is_replayed()) {
    answer->Paragraph("  ", absl::StrCat("An estimate, since nothing was replayed: ", what_if.why_not), Tone::kAside);
    return;
  }
  std::string text = "The replay of the recorded settings does not give what was recorded";
  for (const std::string& doubt : what_if.doubts) absl::StrAppend(&text, "; ", doubt);
  answer->Paragraph("  ", absl::StrCat(text, ". gpumemshim replay shows the difference."), Tone::kAside);
}

void AddWhatIf(const WhatIfAnswer& what_if, Document* answer) {
  answer->Gap();
  answer->Line({{Tone::kHeading, "Other settings"}});
  if (!what_if.is_replayed()) {
    answer->Paragraph("  ", absl::StrCat("Not known, since nothing was replayed: ", what_if.why_not), Tone::kAside);
    return;
  }
  const std::string& settings = what_if.other.settings;
  answer->Paragraph(
      "  ", absl::StrCat(settings.empty() ? "PyTorch's defaults" : settings, " would have reserved ",
                         what_if.is_exact ? "" : "about ", FormatBytes(what_if.other.peak_reserved), " at most, ",
                         Difference(what_if.recorded.peak_reserved, what_if.other.peak_reserved),
                         ", by replay in PyTorch ", what_if.torch, "'s own allocator; gpumemshim replay tries more."));
  AddWhyEstimated(what_if, answer);
}

}  // namespace gpumem
