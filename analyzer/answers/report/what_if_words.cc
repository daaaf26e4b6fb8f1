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

void AddWhyEstimated(const WhatIfAnswer& answer, Page* page) {
  if (answer.is_replayed() && answer.is_exact) return;
  if (!answer.is_replayed()) {
    page->Paragraph("  ", absl::StrCat("An estimate, since nothing was replayed: ", answer.why_not), Tone::kAside);
    return;
  }
  std::string text = "The replay of the recorded settings does not give what was recorded";
  for (const std::string& doubt : answer.doubts) absl::StrAppend(&text, "; ", doubt);
  page->Paragraph("  ", absl::StrCat(text, ". gpumemshim replay shows the difference."), Tone::kAside);
}

void AddWhatIf(const WhatIfAnswer& answer, Page* page) {
  page->Gap();
  page->Line({{Tone::kHeading, "Other settings"}});
  if (!answer.is_replayed()) {
    page->Paragraph("  ", absl::StrCat("Not known, since nothing was replayed: ", answer.why_not), Tone::kAside);
    return;
  }
  const std::string& settings = answer.other.settings;
  page->Paragraph(
      "  ", absl::StrCat(settings.empty() ? "PyTorch's defaults" : settings, " would have reserved ",
                         answer.is_exact ? "" : "about ", FormatBytes(answer.other.peak_reserved), " at most, ",
                         Difference(answer.recorded.peak_reserved, answer.other.peak_reserved),
                         ", by replay in PyTorch ", answer.torch, "'s own allocator; gpumemshim replay tries more."));
  AddWhyEstimated(answer, page);
}

}  // namespace gpumem
