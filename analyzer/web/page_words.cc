// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/page_words.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "base/json_reader.h"

namespace gpumem {
namespace {

// Members of answers that are said to people. Whatever else is text in them is a name, or is for machines.
constexpr absl::string_view kSaid[] = {"problem", "peak",  "mostly", "action", "headline", "leaks_headline", "status",
                                       "remark",  "stage", "kind",   "change", "sentence", "lead",           "text"};

bool IsSaid(absl::string_view key) { return std::find(std::begin(kSaid), std::end(kSaid), key) != std::end(kSaid); }

void AddTexts(const nlohmann::json& value, PageWords* words) {
  if (value.is_object()) {
    for (auto each = value.begin(); each != value.end(); ++each) {
      if (each->is_string() && IsSaid(each.key())) words->Add(each->get_ref<const std::string&>());
      AddTexts(*each, words);
    }
  } else if (value.is_array()) {
    for (const nlohmann::json& each : value) AddTexts(each, words);
  }
}

}  // namespace

// Every mark that may open a text is tried as one: so it is of no matter what an apostrophe in a comment seems to open.
PageWords::PageWords(absl::string_view page) : chinese_(Phrases::Of("zh")) {
  constexpr absl::string_view kOpens = "'\">", kCloses = "'\"<";
  for (size_t at = page.find_first_of(kOpens); at != absl::string_view::npos; at = page.find_first_of(kOpens, at + 1)) {
    const char closes = kCloses[kOpens.find(page[at])];
    size_t end = at + 1;
    while (end < page.size() && page[end] != closes && page[end] != '\n') end += page[end] == '\\' ? 2 : 1;
    if (end < page.size() && page[end] == closes) AddOwn(page.substr(at + 1, end - at - 1));
  }
}

void PageWords::AddOwn(absl::string_view text) {
  const std::string plain = absl::StrReplaceAll(absl::StripAsciiWhitespace(text),
                                                {{"\\'", "'"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}});
  if (const std::string* const whole = chinese_->Whole(plain); whole != nullptr) found_.emplace(plain, *whole);
}

void PageWords::Add(absl::string_view text) {
  std::string said = chinese_->In(text);
  if (said != text) found_.emplace(text, std::move(said));
}

void PageWords::AddCell(absl::string_view text) {
  if (text.find(' ') == absl::string_view::npos) return;
  std::string said = chinese_->InCell(text);
  if (said != text) found_.emplace(text, std::move(said));
}

void PageWords::AddAnswer(absl::string_view json) {
  const absl::StatusOr<nlohmann::json> root = ParseJson(json);
  if (root.ok()) AddTexts(*root, this);
}

void PageWords::Write(JsonWriter* json) const {
  json->Key("words");
  json->BeginObject();
  json->Key("zh");
  json->BeginObject();
  for (const auto& [english, said] : found_) json->Field(english, said);
  json->EndObject();
  json->EndObject();
}

}  // namespace gpumem
