// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Phrases: what is said to people, in another language than English. Answers are worded in English, once; where they
// are drawn, each text is looked for in the language's table (phrases_zh/), which has English phrases with holes for
// numbers, sizes and names, and how the language puts them. What no phrase fits stays English, so that a new sentence
// is understood before it is translated; a test over the corpus finds it (tests/e2e/chinese_test.py). Machines get no
// phrase: JSON, CSV and files are the same in all languages.
//
//   const Phrases* const phrases = Phrases::Of("zh");
//   phrases->In("Peak allocated: 17.51 GiB")     // "峰值已分配：17.51 GiB"
//
// The table has two lines a phrase, the second one indented; "#" begins a comment:
//
//   {n} block[s] of {b} at the peak
//     峰值时有 {n} 个内存块，共 {b}
//
//   {n} a number, {b} bytes with their unit, {p} a percentage, {d} a duration: as they stand. {w} any text without
//   colon or semicolon as it stands, {x} any text in the language, of one sentence and column at most. A digit tells
//   two of a kind apart: {b1}, {b2}. [s] may be there or not, [a|b] one of several.
//   @cells TITLE | TITLE: columns of tables whose cells are words of ours, and not names of the user's.
//
// Where the whole text is no phrase its sentences are looked up, then what stands between two blanks, colons,
// semicolons, commas and parentheses. What is padded with blanks keeps its width. Thread-safe once made.

#ifndef GPUMEM_ANALYZER_BASE_PHRASES_H_
#define GPUMEM_ANALYZER_BASE_PHRASES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

class Phrases {
 public:
  // The table of a language, "zh"; nullptr: English, or none is there.
  static const Phrases* Of(absl::string_view language);
  // What LC_ALL, LC_MESSAGES or LANG asks for: the first that is set.
  static const Phrases* OfEnvironment();

  explicit Phrases(absl::string_view table);
  ~Phrases();
  Phrases(const Phrases&) = delete;
  Phrases& operator=(const Phrases&) = delete;

  std::string In(absl::string_view text) const;
  // The same of several lines, each by itself.
  std::string InLines(absl::string_view text) const;
  // Of a cell that may be a name of the user's: only where a phrase of several words fits all of it.
  std::string InCell(absl::string_view text) const;
  // What stands for a phrase that is in the table as `english`, with the same holes; nullptr where none is. For
  // programs that fill the holes themselves: the scripts of the pages.
  const std::string* Whole(absl::string_view english) const;
  // Whether the cells of the column of that title (in English) are words.
  bool HasWords(absl::string_view title) const { return cells_.count(std::string(title)) != 0; }
  // Lines of the table that cannot be read, each with its number. For tests.
  const std::vector<std::string>& mistakes() const { return mistakes_; }

 private:
  struct Piece;
  struct Phrase;
  using Holes = std::map<std::string, std::string>;

  void Add(absl::string_view english, absl::string_view translated, size_t line);
  bool Match(const Phrase& phrase, size_t piece, absl::string_view text, Holes* holes) const;
  bool MatchHole(const Phrase& phrase, size_t piece, absl::string_view text, Holes* holes) const;
  // False where no phrase fits.
  bool Find(absl::string_view text, int depth, bool of_several_words, std::string* found) const;
  std::string Filled(const Phrase& phrase, Holes holes, int depth) const;
  std::string InDepth(absl::string_view text, int depth) const;

  std::map<std::string, std::vector<Phrase>, std::less<>> by_begin_;  // the first word; "" = it begins with a hole
  std::map<std::string, std::string, std::less<>> exact_;
  std::map<std::string, std::string, std::less<>> with_holes_;  // as they stand in the table
  std::set<std::string> cells_;
  std::vector<std::string> mistakes_;
};

// `text` in a language; nullptr: as it is.
inline std::string InWords(const Phrases* phrases, absl::string_view text) {
  return phrases == nullptr ? std::string(text) : phrases->In(text);
}

// "en", or the language of `phrases`, as pages name it.
inline absl::string_view LanguageOf(const Phrases* phrases) { return phrases == nullptr ? "en" : "zh"; }

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_PHRASES_H_
