// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/phrases.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/utf8.h"

extern "C" {
extern const char gpumem_phrases_zh_begin[];
extern const char gpumem_phrases_zh_end[];
}

namespace gpumem {

// A part of an English phrase: a literal, one of several literals, or a hole.
struct Phrases::Piece {
  std::vector<std::string> literals;  // empty: a hole
  std::string hole;                   // its name, whose first letter is its kind
};

struct Phrases::Phrase {
  std::vector<Piece> pieces;
  std::string translated;
  size_t literal_bytes = 0;  // more of them fit more closely
  bool has_several_words = false, has_columns = false;
};

namespace {

constexpr int kDeepest = 10;
constexpr absl::string_view kKinds = "nbpdwx";

absl::string_view FirstWord(absl::string_view text) { return text.substr(0, text.find(' ')); }

size_t NumberBytes(absl::string_view text) {
  size_t end = !text.empty() && absl::StrContains("+-~<", text[0]) ? 1 : 0;
  const size_t digits = end;
  while (end < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[end]))) {
    ++end;
    // A comma or point only before another digit.
    if (end + 1 < text.size() && (text[end] == ',' || text[end] == '.') &&
        absl::ascii_isdigit(static_cast<unsigned char>(text[end + 1])))
      ++end;
  }
  return end == digits ? 0 : end;
}

// Of a number and one of `units` after a blank; 0 = none. The longer of two units that begin alike stands first.
size_t QuantityBytes(absl::string_view text, std::initializer_list<absl::string_view> units) {
  const size_t number = NumberBytes(text);
  if (number == 0 || number >= text.size() || text[number] != ' ') return 0;
  for (const absl::string_view unit : units) {
    const size_t end = number + 1 + unit.size();
    const bool is_whole =
        end == text.size() || (end < text.size() && !absl::ascii_isalnum(static_cast<unsigned char>(text[end])));
    if (absl::StartsWith(text.substr(number + 1), unit) && is_whole) return end;
  }
  return 0;
}

size_t DurationBytes(absl::string_view text) {
  size_t end = 0;
  for (;;) {
    const size_t more = QuantityBytes(text.substr(end), {"ns", "us", "µs", "ms", "min", "s", "h", "d", "days", "day"});
    if (more == 0) return end == 0 ? 0 : end - (text[end - 1] == ' ' ? 1 : 0);
    end += more;
    if (end < text.size() && text[end] == ' ') ++end;
  }
}

// Bytes that a hole of a kind with one form takes at the beginning of `text`.
size_t HoleBytes(char kind, absl::string_view text) {
  switch (kind) {
    case 'n':
      return NumberBytes(text);
    case 'b':
      return QuantityBytes(text, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
    case 'p':
      return QuantityBytes(text, {"%"});
    default:
      return DurationBytes(text);
  }
}

bool IsFree(char kind) { return kind == 'w' || kind == 'x'; }

// The end of the first sentence of `text`, with its stop; npos where it is the only one.
size_t EndOfSentence(absl::string_view text) {
  for (size_t at = text.find_first_of(".?"); at != absl::string_view::npos; at = text.find_first_of(".?", at + 1)) {
    if (at + 1 >= text.size() || text[at + 1] != ' ' || (at != 0 && text[at - 1] == ' ')) continue;
    const char next = at + 2 < text.size() ? text[at + 2] : ' ';
    // What answers a question may begin with a small letter.
    if ((text[at] == '?' || !absl::ascii_islower(static_cast<unsigned char>(next))) && next != ' ') return at + 1;
  }
  return absl::string_view::npos;
}

// Blanks behind `now`, which stands for `before` and `blanks` of them: the column behind stays where it was.
std::string Padding(absl::string_view before, absl::string_view now, size_t blanks) {
  const int width = DisplayWidth(before) + static_cast<int>(blanks) - DisplayWidth(now);
  return std::string(blanks == 0 ? 0 : static_cast<size_t>(std::max(width, 1)), ' ');
}

bool EndsWide(absl::string_view text) { return !text.empty() && static_cast<unsigned char>(text.back()) >= 0x80; }

// Chinese characters, and not its punctuation: three bytes from U+4E00 on.
bool IsHan(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xE4 && byte <= 0xE9;
}
bool BeginsInHan(absl::string_view text) { return text.size() >= 3 && IsHan(text[0]); }
bool EndsInHan(absl::string_view text) { return text.size() >= 3 && IsHan(text[text.size() - 3]); }
bool BeginsInLatin(absl::string_view text) {
  return !text.empty() && absl::ascii_isgraph(static_cast<unsigned char>(text[0]));
}
bool EndsInLatin(absl::string_view text) {
  return !text.empty() && absl::ascii_isgraph(static_cast<unsigned char>(text.back()));
}

// `text` with what is in `holes` in place of their names, and a blank between Chinese and Latin writing where the table
// has none: what fills a hole may be of either.
std::string WithHoles(absl::string_view text, const std::map<std::string, std::string>& holes) {
  std::string all;
  for (size_t at = text.find('{'); at != absl::string_view::npos; at = text.find('{')) {
    const size_t end = std::min(text.find('}', at), text.size() - 1);
    const auto hole = holes.find(std::string(text.substr(at + 1, end - at - 1)));
    absl::StrAppend(&all, text.substr(0, at));
    text.remove_prefix(end + 1);
    if (hole == holes.end()) continue;
    const std::string& filled = hole->second;
    absl::StrAppend(&all, EndsInHan(all) && BeginsInLatin(filled) ? " " : "", filled,
                    BeginsInHan(text) && EndsInLatin(filled) ? " " : "");
  }
  return absl::StrCat(all, text);
}

}  // namespace

Phrases::~Phrases() = default;

const Phrases* Phrases::Of(absl::string_view language) {
  if (language != "zh") return nullptr;
  static const Phrases chinese(
      absl::string_view(gpumem_phrases_zh_begin, static_cast<size_t>(gpumem_phrases_zh_end - gpumem_phrases_zh_begin)));
  return &chinese;
}

const Phrases* Phrases::OfEnvironment() {
  for (const char* const name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    const std::string locale = absl::AsciiStrToLower(value);
    const bool is_utf8 = absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
    return is_utf8 ? Of(absl::string_view(locale).substr(0, locale.find_first_of("_.@"))) : nullptr;
  }
  return nullptr;
}

Phrases::Phrases(absl::string_view table) {
  size_t number = 0;
  std::string english;
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    absl::string_view titles = line;
    if (absl::ConsumePrefix(&titles, "@cells ")) {
      for (const absl::string_view title : absl::StrSplit(titles, " | ")) cells_.emplace(title);
    } else if (line[0] != ' ') {
      if (!english.empty()) mistakes_.push_back(absl::StrCat(number, ": ", english, " is not translated"));
      english = std::string(line);
    } else if (english.empty()) {
      mistakes_.push_back(absl::StrCat(number, ": a translation of nothing"));
    } else {
      Add(english, absl::StripAsciiWhitespace(line), number);
      english.clear();
    }
  }
}

void Phrases::Add(absl::string_view english, absl::string_view translated, size_t line) {
  Phrase phrase;
  phrase.translated = std::string(translated);
  std::string literal;
  std::set<std::string> holes;
  const auto end_literal = [&] {
    phrase.literal_bytes += literal.size();
    phrase.has_several_words |= absl::StrContains(absl::StripAsciiWhitespace(literal), ' ');
    phrase.has_columns |= absl::StrContains(literal, "  ");
    if (!literal.empty()) phrase.pieces.push_back({{std::exchange(literal, "")}, ""});
  };
  for (size_t i = 0; i < english.size(); ++i) {
    const char opens = english[i];
    if (opens != '{' && opens != '[') {
      literal += opens;
      continue;
    }
    const size_t end = english.find(opens == '{' ? '}' : ']', i);
    if (end == absl::string_view::npos)
      return mistakes_.push_back(absl::StrCat(line, ": ", english.substr(i), " does not end"));
    const std::string inner(english.substr(i + 1, end - i - 1));
    end_literal();
    i = end;
    if (opens == '[') {
      Piece piece{absl::StrSplit(inner, '|'), ""};
      if (piece.literals.size() == 1) piece.literals.emplace_back();
      phrase.pieces.push_back(std::move(piece));
    } else {
      if (inner.empty() || !absl::StrContains(kKinds, inner[0]) || !holes.insert(inner).second)
        return mistakes_.push_back(absl::StrCat(line, ": {", inner, "} is no hole, or there twice"));
      phrase.pieces.push_back({{}, inner});
    }
  }
  end_literal();
  for (size_t at = translated.find('{'); at != absl::string_view::npos; at = translated.find('{', at + 1)) {
    const std::string name(translated.substr(at + 1, translated.find('}', at) - at - 1));
    if (holes.count(name) == 0) mistakes_.push_back(absl::StrCat(line, ": {", name, "} is not in the English phrase"));
  }
  const bool is_exact = phrase.pieces.size() == 1 && holes.empty() && phrase.pieces[0].literals.size() == 1;
  if (!(is_exact ? exact_ : with_holes_).emplace(english, translated).second)
    mistakes_.push_back(absl::StrCat(line, ": ", english, " is there twice"));
  if (is_exact) return;
  const bool begins_open = phrase.pieces.front().literals.size() != 1;
  const absl::string_view begin = begins_open ? "" : FirstWord(phrase.pieces.front().literals[0]);
  // A word that goes on in a hole is none.
  const bool is_cut = !begins_open && begin.size() == phrase.pieces.front().literals[0].size();
  std::vector<Phrase>& list = by_begin_[is_cut ? "" : std::string(begin)];
  const auto place = std::find_if(list.begin(), list.end(),
                                  [&](const Phrase& each) { return each.literal_bytes < phrase.literal_bytes; });
  list.insert(place, std::move(phrase));
}

bool Phrases::MatchHole(const Phrase& phrase, size_t piece, absl::string_view text, Holes* holes) const {
  const std::string& hole = phrase.pieces[piece].hole;
  if (!IsFree(hole[0])) {
    const size_t bytes = HoleBytes(hole[0], text);
    if (bytes == 0 || !Match(phrase, piece + 1, text.substr(bytes), holes)) return false;
    (*holes)[hole] = std::string(text.substr(0, bytes));
    return true;
  }
  const bool is_last = piece + 1 == phrase.pieces.size();
  // Never more than a sentence: the next one is looked up by itself.
  size_t most = std::min(text.size(), EndOfSentence(text));
  // Nor more than a column, and no name holds what says more of another.
  if (!phrase.has_columns) most = std::min(most, text.find("  "));
  if (hole[0] == 'w') most = std::min({most, text.find(": "), text.find("; ")});
  for (size_t bytes = is_last ? text.size() : 1; bytes != 0 && bytes <= most; ++bytes) {
    if (!Match(phrase, piece + 1, text.substr(bytes), holes)) continue;
    (*holes)[hole] = std::string(text.substr(0, bytes));
    return true;
  }
  return false;
}

bool Phrases::Match(const Phrase& phrase, size_t piece, absl::string_view text, Holes* holes) const {
  if (piece == phrase.pieces.size()) return text.empty();
  const Piece& next = phrase.pieces[piece];
  if (next.literals.empty()) return MatchHole(phrase, piece, text, holes);
  return std::any_of(next.literals.begin(), next.literals.end(), [&](const std::string& literal) {
    return absl::StartsWith(text, literal) && Match(phrase, piece + 1, text.substr(literal.size()), holes);
  });
}

bool Phrases::Find(absl::string_view text, int depth, bool of_several_words, std::string* found) const {
  const bool may_be_exact = !of_several_words || absl::StrContains(text, ' ');
  if (const auto it = exact_.find(text); may_be_exact && it != exact_.end()) {
    *found = it->second;
    return true;
  }
  static const std::vector<Phrase> kNone;
  const auto list_of = [&](absl::string_view begin) -> const std::vector<Phrase>& {
    const auto it = by_begin_.find(begin);
    return it == by_begin_.end() ? kNone : it->second;
  };
  // Both lists as one: what fits more closely comes first.
  const std::vector<Phrase>&closed = list_of(FirstWord(text)), &open = list_of("");
  for (size_t i = 0, j = 0; i < closed.size() || j < open.size();) {
    const bool is_open = i == closed.size() || (j < open.size() && open[j].literal_bytes > closed[i].literal_bytes);
    const Phrase& phrase = is_open ? open[j++] : closed[i++];
    if (of_several_words && !phrase.has_several_words) continue;
    Holes holes;
    if (!Match(phrase, 0, text, &holes)) continue;
    *found = Filled(phrase, std::move(holes), depth);
    return true;
  }
  return false;
}

std::string Phrases::Filled(const Phrase& phrase, Holes holes, int depth) const {
  for (auto& [name, value] : holes) {
    if (name[0] == 'x') value = InDepth(value, depth + 1);
  }
  return WithHoles(phrase.translated, holes);
}

std::string Phrases::InDepth(absl::string_view text, int depth) const {
  const absl::string_view bare = absl::StripAsciiWhitespace(text);
  if (bare.empty() || depth > kDeepest) return std::string(text);
  const auto before = static_cast<size_t>(bare.data() - text.data());
  const absl::string_view after = text.substr(before + bare.size());
  const auto whole = [&](absl::string_view inner) {
    return absl::StrCat(text.substr(0, before), inner, Padding(bare, inner, after.size()));
  };
  std::string found;
  if (Find(bare, depth, /*of_several_words=*/false, &found)) return whole(found);
  if (const size_t end = EndOfSentence(bare); end != absl::string_view::npos) {
    const std::string first = InDepth(bare.substr(0, end), depth);
    return whole(absl::StrCat(first, EndsWide(first) ? "" : " ", InDepth(bare.substr(end + 1), depth)));
  }
  for (const auto& [between, joined] : {std::pair<absl::string_view, absl::string_view>{"  ", "  "},
                                        {"; ", "；"},
                                        {": ", "："},
                                        {" (", " ("},
                                        {", ", "，"}}) {
    const size_t at = bare.find(between);
    if (at == absl::string_view::npos || at == 0) continue;
    absl::string_view rest = bare.substr(at + between.size());
    const bool in_parentheses = between == " (" && rest.find(')') + 1 == rest.size() && absl::ConsumeSuffix(&rest, ")");
    if (between == " (" && !in_parentheses) continue;
    const std::string first = InDepth(bare.substr(0, at), depth + 1), second = InDepth(rest, depth + 1);
    // Punctuation of the language only where there are words of it.
    const bool is_translated = first != bare.substr(0, at);
    if (between == "  ") return whole(absl::StrCat(first, Padding(bare.substr(0, at), first, between.size()), second));
    return whole(absl::StrCat(first, is_translated ? joined : between, second, in_parentheses ? ")" : ""));
  }
  return std::string(text);
}

std::string Phrases::InCell(absl::string_view text) const {
  std::string found;
  return Find(text, 0, /*of_several_words=*/true, &found) ? found : std::string(text);
}

const std::string* Phrases::Whole(absl::string_view english) const {
  for (const auto* const table : {&exact_, &with_holes_}) {
    if (const auto it = table->find(english); it != table->end()) return &it->second;
  }
  return nullptr;
}

std::string Phrases::In(absl::string_view text) const { return InDepth(text, 0); }

std::string Phrases::InLines(absl::string_view text) const {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) lines.push_back(In(line));
  return absl::StrJoin(lines, "\n");
}

}  // namespace gpumem
