// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "format/secret_pairs.h"

#include <initializer_list>

#include "format/secret_values.h"

namespace gpumem::format {
namespace {

constexpr size_t kMaxName = 256;
constexpr size_t kMaxBlanks = 8, kMaxBackslashes = 8;

bool IsNameChar(char c) { return IsAlnum(c) || c == '_' || c == '-' || c == '.'; }
bool IsSpace(char c) { return c == ' ' || c == '\t'; }

size_t SkipSpaces(Slice text, size_t at) { return at + Span(text.Part(at, kMaxBlanks), IsSpace); }

// What opens a string: backslashes where it is within another one, and the quote. size 0: none.
struct Quote {
  size_t backslashes = 0;
  char quote = '\0';
  size_t size() const { return quote == '\0' ? 0 : backslashes + 1; }
};

Quote QuoteAt(Slice text, size_t at) {
  const size_t backslashes = Span(text.Part(at, kMaxBackslashes), [](char c) { return c == '\\'; });
  const char c = text[at + backslashes];
  return IsQuote(c) ? Quote{backslashes, c} : Quote{};
}

// Where the string that `open` began ends: the same quote behind as many backslashes. The text's end where it is open.
size_t QuotedEnd(Slice text, size_t from, Quote open) {
  size_t backslashes = 0;
  for (size_t i = from; i < text.size; ++i) {
    if (text[i] == '\\') {
      ++backslashes;
      continue;
    }
    const bool is_same = open.backslashes == 0 ? backslashes % 2 == 0 : backslashes == open.backslashes;
    if (text[i] == open.quote && is_same) return i - (open.backslashes == 0 ? 0 : backslashes);
    backslashes = 0;
  }
  return text.size;
}

// Behind the bracket that closes the one at `at`; brackets in strings do not count.
size_t BracketEnd(Slice text, size_t at) {
  size_t depth = 0;
  for (size_t i = at; i < text.size; ++i) {
    const char c = text[i];
    if (const Quote quote = QuoteAt(text, i); quote.size() > 0 && c != '`') {
      i = QuotedEnd(text, i + quote.size(), quote) + quote.backslashes;
    } else if (c == '{' || c == '[' || c == '(') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ')') {
      if (--depth == 0) return i + 1;
    }
  }
  return text.size;
}

// Whether a value ends in front of this comma or ampersand: another pair, a blank or nothing follows.
bool EndsBefore(Slice text, size_t at) {
  const char next = text[at + 1];
  if (at + 1 >= text.size || IsBlank(next) || IsQuote(next) || next == '\\' || next == text[at]) return true;
  const size_t name = Span(text.Part(at + 1, kMaxName), IsNameChar);
  const char behind = text[at + 1 + name];
  return name > 0 && (behind == '=' || behind == ':');
}

bool EndsValue(Slice text, size_t i, NamePlace place) {
  const char c = text[i];
  if (IsBlank(c) || IsQuote(c)) return true;
  const char next = text[i + 1];
  switch (c) {
    case '\\':
      return IsQuote(next) || next == '\\' || next == 'n';
    case ';':
      return true;
    case ',':
    case '&':
      return EndsBefore(text, i);
    case '|':
    case '>':
      return IsBlank(next) || next == c;
    case ')':
    case ']':
    case '}':
      return !IsAlnum(next);
    case '#':
      return place == NamePlace::kQuery;
    default:
      return false;
  }
}

size_t UnquotedEnd(Slice text, size_t from, NamePlace place) {
  size_t end = from;
  while (end < text.size && !EndsValue(text, end, place)) ++end;
  const size_t next = SkipSpaces(text, end);
  if (next == end || !IsScheme(text.Part(from, end - from))) return end;
  return next + Span(text.From(next), [](char c) { return !IsBlank(c) && !IsQuote(c) && c != '\\'; });
}

// What Python and shells compute: token=args.token, key=lambda x: x, password=getpass(). Says what, but not which.
bool IsCode(Slice name, Slice value) {
  constexpr const char* kObjects[] = {"args.",   "opt.",      "opts.", "self.",   "cfg.",
                                      "config.", "settings.", "os.",   "params.", "conf."};
  for (const char* object : kObjects) {
    if (value.StartsWith(object)) return true;
  }
  const size_t word = Span(value, [](char c) { return IsAlnum(c) || c == '_' || c == '.'; });
  for (const char* type : {"str", "bytes", "Optional", "int"}) {
    if (value.Until(word).IsIgnoringCase(type)) return true;
  }
  if (word > 0 && IsLetter(value[0]) && (value[word] == '(' || value[word] == '[')) return true;
  if (value.StartsWith("lambda ") || value.StartsWith("lambda:")) return true;
  return name.size <= value.size && value.Until(name.size).data != name.data &&
         std::memcmp(value.data, name.data, name.size) == 0 && !IsNameChar(value[name.size]);
}

struct Name {
  Slice text;
  size_t end = 0;  // behind its quote or bracket
  bool quoted = false;
};

Name NameAt(Slice text, size_t at) {
  const size_t size = Span(text.Part(at, kMaxName + 1), IsNameChar);
  if (size == 0 || size > kMaxName) return {};
  Name name{text.Part(at, size), at + size};
  if (const Quote quote = QuoteAt(text, name.end); quote.size() > 0) {
    name.end += quote.size();
    name.quoted = true;
  }
  if (text[name.end] == ']' || (text[name.end] == ')' && name.quoted)) ++name.end;
  return name;
}

// Behind = : := => ==, or `at` where there is none of them.
size_t SeparatorEnd(Slice text, const Name& name) {
  const size_t at = SkipSpaces(text, name.end);
  if (text[at] == ':') {
    if (text[at + 1] == ':' || (text[at + 1] == '/' && text[at + 2] == '/')) return 0;
    return text[at + 1] == '=' ? at + 2 : at + 1;
  }
  if (text[at] != '=') return 0;
  const size_t end = at + Span(text.Part(at, 3), [](char c) { return c == '=' || c == '>' || c == '~'; });
  const bool is_empty = at == name.end && !name.quoted && IsBlank(text[end]);  // TOKEN= python
  return is_empty ? 0 : end;
}

// putenv("HF_TOKEN", ...), {"name": "HF_TOKEN", "value": ...}
bool IsVariable(const Name& name) {
  return name.quoted && name.text.size > 2 && Count(name.text, IsLower) == 0 && Count(name.text, IsUpper) > 2;
}

// Behind --name: a blank, or the next string of a list. 0 where nothing that is its value follows.
size_t OptionValueAt(Slice text, const Name& name) {
  const size_t at = SkipSpaces(text, name.end);
  const bool is_option = name.text[0] == '-';
  if ((!is_option && !IsVariable(name)) || at >= text.size) return 0;
  if (name.quoted) {
    const size_t next = text[at] == ',' ? SkipSpaces(text, at + 1) : 0;
    const Quote open = QuoteAt(text, next);
    if (next == 0 || open.size() == 0) return 0;
    const Name field = NameAt(text, next + open.size());
    const size_t value = field.text.IsIgnoringCase("value") ? SeparatorEnd(text, field) : 0;
    return value == 0 ? next : SkipSpaces(text, value);
  }
  if (at == name.end || !is_option) return 0;
  const Slice word = text.Part(at, Span(text.From(at), [](char c) { return !IsBlank(c); }));
  return LooksLikeOption(word) ? 0 : at;
}

// Behind the type of "token: str = ...".
size_t SkipType(Slice text, size_t at) {
  const size_t type = Span(text.Part(at, kMaxName), [](char c) {
    return IsAlnum(c) || c == '_' || c == '.' || c == '[' || c == ']' || c == '|';
  });
  const size_t equals = SkipSpaces(text, at + type);
  const bool assigns = type > 0 && equals > at + type && text[equals] == '=' && text[equals + 1] == ' ';
  return assigns ? SkipSpaces(text, equals + 1) : at;
}

NamePlace PlaceOf(Slice text, size_t at) {
  while (at > 0 && text[at - 1] == ' ') --at;
  const char c = at == 0 ? '\0' : text[at - 1];
  return c == '?' || c == '&' || c == ';' ? NamePlace::kQuery : NamePlace::kOption;
}

size_t HeaderEnd(Slice text, size_t from) {
  return from +
         Span(text.From(from), [](char c) { return c != '"' && c != '\'' && c != '\n' && c != '\r' && c != '\\'; });
}

Pair WithValue(Slice text, const Name& name, NameKind kind, size_t value, NamePlace place) {
  size_t prefix = Span(text.Part(value, 2), [](char c) { return std::strchr("rbfuRBFU", c) != nullptr && c != '\0'; });
  if (QuoteAt(text, value + prefix).size() == 0) prefix = 0;
  if (const Quote open = QuoteAt(text, value + prefix); open.size() > 0) {
    const size_t from = value + prefix + open.size();
    return {kind, from, QuotedEnd(text, from, open)};
  }
  const char first = text[value];
  if (kind == NameKind::kHeader && name.text[0] != '-') return {kind, value, HeaderEnd(text, value)};
  if (kind != NameKind::kIdentifier && (first == '{' || first == '[' || first == '('))
    return {kind, value, BracketEnd(text, value)};
  if (first == '$' && (text[value + 1] == '{' || text[value + 1] == '('))
    return {kind, value, BracketEnd(text, value + 1)};
  if (IsCode(name.text, text.From(value))) return {};
  return {kind, value, UnquotedEnd(text, value, place)};
}

}  // namespace

Pair FindPair(Slice text, size_t at) {
  if (at > 0 && IsNameChar(text[at - 1])) return {};
  const Name name = NameAt(text, at);
  if (name.text.empty()) return {};
  if (at > 0 && text[at - 1] == '<' && text[name.end] == '>') {  // <password>...</password>
    const size_t from = name.end + 1;
    const NameKind kind = ClassifyName(name.text, NamePlace::kOption);
    return IsSecretKind(kind) ? Pair{kind, from, text.Find('<', from)} : Pair{};
  }
  const size_t separated = SeparatorEnd(text, name);
  const size_t value = separated != 0 ? SkipType(text, SkipSpaces(text, separated)) : OptionValueAt(text, name);
  if (value == 0 || value >= text.size) return {};
  const NamePlace place = PlaceOf(text, at);
  const NameKind kind = ClassifyName(name.text, place);
  const bool says_nothing = kind == NameKind::kPlain || (kind == NameKind::kUser && name.text[0] != '-');
  return says_nothing ? Pair{} : WithValue(text, name, kind, value, place);
}

bool IsScheme(Slice word) {
  for (const char* scheme : {"bearer", "basic", "token", "digest", "apikey"}) {
    if (word.IsIgnoringCase(scheme)) return true;
  }
  return false;
}

bool LooksLikeOption(Slice argument) {
  if (argument[0] != '-' || argument.size < 2) return false;
  const size_t dashes = argument[1] == '-' ? 2 : 1;
  if (argument.size == dashes) return true;  // --
  const Slice name = argument.From(dashes).Until(Span(argument.From(dashes), IsNameChar));
  const char behind = argument[dashes + name.size];
  const bool is_name = IsLetter(name[0]) && (behind == '\0' || behind == '=');
  if (!is_name) return false;
  // Digits between letters are no words of an option.
  if (dashes == 2 || behind == '=') return Count(name, IsDigit) * 4 <= name.size;
  const size_t digits = Count(name, IsDigit);
  if (name.size == 1 || (digits + 1 == name.size && digits <= 3)) return true;  // -x, -n4
  return digits == 0 && (Count(name, IsUpper) == 0 || name.size <= 3);
}

}  // namespace gpumem::format
