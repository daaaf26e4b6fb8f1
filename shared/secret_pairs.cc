// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/secret_pairs.h"

#include <initializer_list>

#include "shared/secret_programs.h"
#include "shared/secret_values.h"

namespace gpumem::format {
namespace {

constexpr size_t kMaxName = 256;
constexpr size_t kMaxBlanks = 8, kMaxBackslashes = 8;

bool IsNameChar(char c) { return IsNameLetter(c) || c == '_' || c == '-' || c == '.'; }
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

// self.token -> token
Slice LastPart(Slice name) {
  size_t start = name.size;
  while (start > 0 && name[start - 1] != '.') --start;
  return name.From(start);
}

// What Python and shells compute: token=args.token, key=lambda x: x, password=getpass(). Says what, but not which.
bool IsCode(Slice name, Slice value, bool is_quoted) {
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
  // {"key": k}, sorted(x, key=len): in quotes it would be a text.
  if (is_quoted && word > 0 && Count(value.Until(word), IsDigit) == 0) return true;
  if (name.IsIgnoringCase("key") && word > 0 && Count(value.Until(word), IsLower) == word && value[word] == ')')
    return true;
  const Slice last = LastPart(name);
  return last.size <= value.size && std::memcmp(value.data, last.data, last.size) == 0 && !IsNameChar(value[last.size]);
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
  if (text[at] == '-' && text[at + 1] == '>' && at > name.end) return at + 2;
  if (text[at] == '%' && text[at + 1] == '3' && at == name.end) {  // = and : in a URL
    const char c = ToLower(text[at + 2]);
    return c == 'd' || c == 'a' ? at + (text.Part(at + 3, 3).StartsWith("%20") ? 6 : 3) : 0;
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

// name: NAME, value: ... and <add key="NAME" value="..."/>: where the value begins, 0 where none follows.
size_t ValueFieldAt(Slice text, size_t from) {
  const size_t at =
      from + Span(text.Part(from, 32), [](char c) { return IsBlank(c) || c == ',' || c == ';' || c == '/'; });
  const Quote open = QuoteAt(text, at);
  const Name field = NameAt(text, at + open.size());
  const size_t value = at > from && field.text.IsIgnoringCase("value") ? SeparatorEnd(text, field) : 0;
  return value == 0 ? 0 : SkipSpaces(text, value);
}

// The word that ends in front of `at`, behind blanks.
Slice WordBefore(Slice text, size_t at) {
  while (at > 0 && IsSpace(text[at - 1])) --at;
  size_t start = at;
  while (start > 0 && at - start < kMaxName && !IsBlank(text[start - 1])) --start;
  return text.Part(start, at - start);
}

// ENV HF_TOKEN x, setx HF_TOKEN x; of a .netrc: login me password x; said: the password is x1.
size_t WordValueAt(Slice text, const Name& name, size_t begin) {
  const size_t at = SkipSpaces(text, name.end);
  if (name.quoted || at == name.end) return 0;
  const Slice before = WordBefore(text, begin);
  const bool is_upper = name.text.size > 2 && Count(name.text, IsLower) == 0 && Count(name.text, IsUpper) > 2;
  if (is_upper && IntroducesSetting(before)) return at;
  if (!IsBarePasswordWord(name.text) && !name.text.IsIgnoringCase("token")) return 0;
  if (WordBefore(text, begin - (begin > 0) - before.size).IsIgnoringCase("login")) return at;
  if (!text.From(at).StartsWithIgnoringCase("is ")) return 0;
  const size_t value = SkipSpaces(text, at + 2);
  const Slice word = text.Part(value, Span(text.From(value), [](char c) { return !IsBlank(c); }));
  return Count(word, IsDigit) > 0 && Count(word, IsLetter) > 0 ? value : 0;
}

// setattr(x, "token", "..."), monkeypatch.setenv("API_KEY", "..."): whether the string at `at` is an argument of one.
bool IsInSetter(Slice text, size_t at) {
  constexpr size_t kMaxArguments = 64;
  size_t open = at;
  while (open > 0 && at - open < kMaxArguments && text[open - 1] != '(' && text[open - 1] != ')') --open;
  if (open == 0 || text[open - 1] != '(') return false;
  size_t start = open - 1;
  while (start > 0 && IsAlnum(text[start - 1])) --start;
  const Slice function = text.Part(start, open - 1 - start);
  return function.StartsWithIgnoringCase("set") || function.StartsWithIgnoringCase("put");
}

// Behind --name: a blank, or the next string of a list. 0 where nothing that is its value follows.
size_t OptionValueAt(Slice text, const Name& name, size_t begin) {
  const size_t at = SkipSpaces(text, name.end);
  if (const size_t value = ValueFieldAt(text, name.end); value != 0 && name.text[0] != '-') return value;
  if (const size_t value = WordValueAt(text, name, begin); value != 0) return value;
  const bool is_option = name.text[0] == '-';
  const bool is_set = name.quoted && !is_option && IsInSetter(text, begin);
  if ((!is_option && !IsVariable(name) && !is_set) || at >= text.size) return 0;
  if (name.quoted) {
    const size_t next = text[at] == ',' ? SkipSpaces(text, at + 1) : 0;
    const Quote open = QuoteAt(text, next);
    if (next == 0 || open.size() == 0) return 0;
    return next;
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
  size_t prefix = Span(text.Part(value, 2), [](char c) { return std::strchr("rbfuRBFU$", c) != nullptr && c != '\0'; });
  if (QuoteAt(text, value + prefix).size() == 0) prefix = 0;
  if (const Quote open = QuoteAt(text, value + prefix); open.size() > 0) {
    const char triple[] = {open.quote, open.quote, open.quote, '\0'};
    if (open.backslashes == 0 && text.From(value + prefix).StartsWith(triple))
      return {kind, value + prefix + 3, text.Find(triple, value + prefix + 3)};
    const size_t from = value + prefix + open.size();
    return {kind, from, QuotedEnd(text, from, open)};
  }
  const char first = text[value];
  if (kind == NameKind::kHeader && text.From(value).StartsWith("***")) return {kind, value, value + 3};
  const bool is_bracket = first == '{' || first == '[' || first == '(';
  if (kind == NameKind::kHeader && name.text[0] != '-' && !is_bracket) return {kind, value, HeaderEnd(text, value)};
  if (kind != NameKind::kIdentifier && is_bracket) return {kind, value, BracketEnd(text, value)};
  if (first == '$' && (text[value + 1] == '{' || text[value + 1] == '('))
    return {kind, value, BracketEnd(text, value + 1)};
  if (IsCode(name.text, text.From(value), name.quoted)) return {};
  return {kind, value, UnquotedEnd(text, value, place)};
}

// {"key": "password", "value": ...}: a field that says which, and not what it is.
bool NamesSecret(Slice text, const Name& name, size_t value) {
  if (!name.text.IsIgnoringCase("key")) return false;
  const Quote open = QuoteAt(text, value);
  const Name named = NameAt(text, value + open.size());
  const bool is_word = open.size() > 0 && named.quoted && Count(named.text, IsDigit) == 0;
  return is_word && ValueFieldAt(text, named.end) != 0;
}

// keyring.set_password
bool IsSetterOfSecret(Slice function) {
  const Slice last = LastPart(function);
  return last.StartsWithIgnoringCase("set_") && ClassifyName(last, NamePlace::kOption) == NameKind::kSecret;
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
  if (text[name.end] == '(' && IsSetterOfSecret(name.text)) {
    constexpr size_t kMostArguments = 512;
    const size_t end = BracketEnd(text.Until(name.end + kMostArguments), name.end);
    const Slice arguments = text.Part(name.end, end - name.end);
    if (arguments.Contains('"') || arguments.Contains('\'')) return {NameKind::kSecret, name.end + 1, end - 1};
  }
  const size_t separated = SeparatorEnd(text, name);
  if (separated != 0 && NamesSecret(text, name, SkipSpaces(text, separated))) return {};
  const size_t value = separated != 0 ? SkipType(text, SkipSpaces(text, separated)) : OptionValueAt(text, name, at);
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
