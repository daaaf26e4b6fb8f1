// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/text_formats.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

// Programs that fold wide forms take those of = + - @ for the same.
constexpr absl::string_view kBeginFormulas[] = {
    "=", "+", "-", "@", "\t", "\r", "\n", "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"};

// With a unit or without: "-3", "+1.5e9", "-1.50 KiB", "-12 %". Letters alone after a number are no formula.
bool IsNumber(absl::string_view text) {
  double ignored = 0;
  while (!text.empty() && (absl::ascii_isalpha(text.back()) || text.back() == '%')) text.remove_suffix(1);
  absl::ConsumeSuffix(&text, " ");
  return text.find_first_not_of("0123456789.eE+-") == absl::string_view::npos && absl::SimpleAtod(text, &ignored);
}

bool BeginsFormula(absl::string_view text) {
  for (const absl::string_view begin : kBeginFormulas) {
    if (absl::StartsWith(text, begin)) return !IsNumber(text);
  }
  return false;
}

}  // namespace

std::string CsvCell(absl::string_view text) {
  const std::string cell = absl::StrCat(BeginsFormula(text) ? "'" : "", text);
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  return absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"");
}

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
