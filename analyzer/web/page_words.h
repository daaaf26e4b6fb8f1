// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PageWords: what a page says, in the languages that there are beside English. A page is read by people whom nobody
// asked for their language when it was made, so it brings the words of all along, and its script looks each text up
// (flame_page/language.js). They come from the one table (base/phrases.h): the page's own texts, which are the literals
// in its source, and those that are worded here. What the table does not know is not in them and stays English.
// Not thread-safe.
//
//   PageWords words(ReportPageSource());
//   words.Add("none: every event is in the trace");
//   words.AddAnswer(R"({"headline": "Nothing grows."})");
//   words.Write(&json);              // "words": {"zh": {"Nothing grows.": "…"}}

#ifndef GPUMEM_ANALYZER_WEB_PAGE_WORDS_H_
#define GPUMEM_ANALYZER_WEB_PAGE_WORDS_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "base/phrases.h"

namespace gpumem {

class PageWords {
 public:
  // `page`: as it was built. A text of it is a literal in single quotes on one line, a text between two tags, or the
  // value of an attribute.
  explicit PageWords(absl::string_view page);

  // A text that the page shows as it is. Names of the program's are left as they are: they are no phrases.
  void Add(absl::string_view text);
  // A text that may be a name of the program's, as of lines and frames: some are ours ("cuBLAS workspace").
  void AddCell(absl::string_view text);
  // The texts for people in what a command's --json says: headlines, remarks, states. What is no JSON has none.
  void AddAnswer(absl::string_view json);
  // English -> Chinese, of what there is so far.
  const std::map<std::string, std::string>& chinese() const { return found_; }
  // The member "words" of the object that is open.
  void Write(JsonWriter* json) const;

 private:
  void AddOwn(absl::string_view text);

  const Phrases* const chinese_;
  std::map<std::string, std::string> found_;  // English -> Chinese
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_PAGE_WORDS_H_
