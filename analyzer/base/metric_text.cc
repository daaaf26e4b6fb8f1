// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/metric_text.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

// Control characters are shown first; so backslashes are doubled last.
std::string EscapedLabel(const std::string& text) {
  return absl::StrReplaceAll(EscapeControls(text), {{"\\", "\\\\"}, {"\"", "\\\""}});
}

}  // namespace

void MetricText::Begin(absl::string_view name, absl::string_view help) {
  name_ = std::string(name);
  absl::StrAppend(out_, "# TYPE ", name, " gauge\n");
  for (const absl::string_view unit : {"bytes", "seconds"}) {
    if (absl::EndsWith(name, absl::StrCat("_", unit))) absl::StrAppend(out_, "# UNIT ", name, " ", unit, "\n");
  }
  absl::StrAppend(out_, "# HELP ", name, " ", help, "\n");
}

void MetricText::Sample(const Labels& labels, absl::string_view value) {
  absl::StrAppend(out_, name_, "{");
  absl::string_view comma;
  for (const Labels* const part : {static_cast<const Labels*>(&common_), &labels}) {
    for (const auto& [label, text] : *part) {
      absl::StrAppend(out_, comma, label, "=\"", EscapedLabel(text), "\"");
      comma = ",";
    }
  }
  absl::StrAppend(out_, "} ", value, "\n");
}

void MetricText::Sample(const Labels& labels, uint64_t value) { Sample(labels, absl::StrCat(value)); }

void MetricText::End() { absl::StrAppend(out_, "# EOF\n"); }

}  // namespace gpumem
