// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Slice: bytes of somebody else, for code that may neither allocate nor throw (std::string_view's members may). Every
// access is within bounds: what lies outside reads as '\0', and a part that would reach beyond the end is cut.
//
// Thread-safety: a value. Ownership: none; the bytes must outlive it.
//
//   const Slice text{argument, size};
//   if (text.StartsWith("--")) name = text.From(2);

#ifndef GPUMEM_SHARED_SLICE_H_
#define GPUMEM_SHARED_SLICE_H_

#include <cstddef>
#include <cstring>

namespace gpumem::format {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool IsLetter(char c) { return IsLower(c) || IsUpper(c); }
constexpr bool IsAlnum(char c) { return IsLetter(c) || IsDigit(c); }
constexpr bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
constexpr bool IsWordChar(char c) { return IsAlnum(c) || c == '_'; }
// Of a name: also what UTF-8 has beyond ASCII.
constexpr bool IsNameLetter(char c) { return IsAlnum(c) || (static_cast<unsigned char>(c) & 0x80) != 0; }
constexpr bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
constexpr bool IsQuote(char c) { return c == '"' || c == '\'' || c == '`'; }
constexpr char ToLower(char c) { return IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

struct Slice {
  const char* data = "";
  size_t size = 0;

  static Slice Of(const char* text) { return {text, std::strlen(text)}; }

  bool empty() const { return size == 0; }
  char operator[](size_t i) const { return i < size ? data[i] : '\0'; }
  char back() const { return size == 0 ? '\0' : data[size - 1]; }
  Slice From(size_t at) const { return at < size ? Slice{data + at, size - at} : Slice{data + size, 0}; }
  Slice Until(size_t end) const { return {data, end < size ? end : size}; }
  Slice Part(size_t at, size_t length) const { return From(at).Until(length); }

  bool StartsWith(const char* text) const {
    const size_t length = std::strlen(text);
    return size >= length && std::memcmp(data, text, length) == 0;
  }
  bool StartsWithIgnoringCase(const char* text) const {
    size_t i = 0;
    for (; text[i] != '\0'; ++i) {
      if (i >= size || ToLower(data[i]) != ToLower(text[i])) return false;
    }
    return true;
  }
  bool EndsWithIgnoringCase(const char* text) const {
    const size_t length = std::strlen(text);
    return length <= size && From(size - length).StartsWithIgnoringCase(text);
  }
  bool IsIgnoringCase(const char* text) const { return std::strlen(text) == size && StartsWithIgnoringCase(text); }

  // Where `text` begins, `size` where it does not occur.
  size_t Find(const char* text, size_t from = 0) const {
    for (size_t i = from; i < size; ++i) {
      if (data[i] == text[0] && From(i).StartsWith(text)) return i;
    }
    return size;
  }
  size_t Find(char c, size_t from = 0) const {
    while (from < size && data[from] != c) ++from;
    return from < size ? from : size;
  }
  bool Contains(char c) const { return Find(c) < size; }
};

// How many bytes at the beginning of `text` hold `test`.
template <typename Test>
size_t Span(Slice text, Test test) {
  size_t i = 0;
  while (i < text.size && test(text.data[i])) ++i;
  return i;
}

template <typename Test>
size_t Count(Slice text, Test test) {
  size_t count = 0;
  for (size_t i = 0; i < text.size; ++i) count += test(text.data[i]) ? 1 : 0;
  return count;
}

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_SLICE_H_
