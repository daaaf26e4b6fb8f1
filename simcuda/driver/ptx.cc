// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/driver/ptx.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

namespace simcuda {
namespace {

// Words and single signs of the text, without comments. A directive is one word with its dot, and so is an instruction
// with its suffixes: ld.local.u32.
class PtxWords {
 public:
  explicit PtxWords(std::string_view text) : text_(text) {}

  std::string_view Next() {
    SkipBlanks();
    if (at_ == text_.size()) return {};
    const size_t begin = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    if (at_ == begin) ++at_;
    return text_.substr(begin, at_ - begin);
  }

 private:
  static bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.'; }

  void SkipBlanks() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.substr(at_, 2) == "/*") {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

// PTX begins with a .version, behind comments. Not a byte behind the first that differs is read.
// "b8", ".f64": bytes of one element; 0 where it is no type.
uint64_t BytesOfType(std::string_view word) {
  if (word.size() < 3 || word[0] != '.' || std::string_view("bfsu").find(word[1]) == std::string_view::npos) return 0;
  const int bits = std::atoi(std::string(word.substr(2)).c_str());
  return bits > 0 ? static_cast<uint64_t>(bits) / 8 : 0;
}

// Behind ".local": `.align 16 .b8 name[64];` or `.u32 name;`.
uint64_t BytesOfVariable(PtxWords* words) {
  uint64_t bytes = 0;
  for (std::string_view word = words->Next(); !word.empty() && word != ";"; word = words->Next()) {
    if (const uint64_t type = BytesOfType(word); type != 0) bytes = type;
    if (word == "[") bytes *= std::strtoull(std::string(words->Next()).c_str(), nullptr, 0);
  }
  return bytes;
}

uint64_t BytesOfBody(PtxWords* words) {
  uint64_t bytes = 0;
  int depth = 0;
  for (std::string_view word = words->Next(); !word.empty(); word = words->Next()) {
    if (word == ";" && depth == 0) return 0;  // a declaration, without a body
    if (word == "{") ++depth;
    if (word == "}" && --depth == 0) return bytes;
    if (word == ".local" && depth > 0) bytes += BytesOfVariable(words);
  }
  return bytes;
}

}  // namespace

bool IsPtx(const char* image) {
  if (image == nullptr) return false;
  while (std::isspace(static_cast<unsigned char>(*image))) ++image;
  for (const std::string_view beginning : {"//", "/*", ".version"}) {
    size_t same = 0;
    while (same < beginning.size() && image[same] == beginning[same]) ++same;
    if (same == beginning.size()) return true;
  }
  return false;
}

std::unordered_map<std::string, uint64_t> LocalBytesInPtx(const void* image) {
  std::unordered_map<std::string, uint64_t> bytes;
  const auto* const text = static_cast<const char*>(image);
  if (!IsPtx(text)) return bytes;
  PtxWords words{std::string_view(text)};
  for (std::string_view word = words.Next(); !word.empty(); word = words.Next()) {
    if (word != ".entry") continue;
    const std::string name(words.Next());
    bytes[name] = BytesOfBody(&words);
  }
  return bytes;
}

}  // namespace simcuda
