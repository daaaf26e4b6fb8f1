// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Text: builds a string in memory of the caller, for code that may not allocate. What does not fit is cut, and the
// string stays terminated.
//
// Thread-safety: one thread. Failure: overflowed() tells.
//
//   char line[256]; Text text(line, sizeof line); text.Add("pid ").Add(uint64_t{42}); write(2, line, text.size());

#ifndef GPUMEM_SHIM_SETTINGS_TEXT_H_
#define GPUMEM_SHIM_SETTINGS_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpumemshim::control {

// Bytes of the character at `text`, which is terminated; 0 where it is not fit for a terminal.
inline size_t PrintableSize(const char* text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (first < 0xc2 || first > 0xf4) return 0;
  uint32_t code = first & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  const bool is_control = code < 0xa0 || code == 0xad || code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
                          (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
                          (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code < 0xe1000);
  return code < kLeast[size] || code > 0x10ffff || is_surrogate || is_control ? 0 : size;
}

inline bool IsPrintable(const char* text) {
  for (size_t size = 0; *text != '\0'; text += size) {
    size = PrintableSize(text);
    if (size == 0) return false;
  }
  return true;
}

class Text {
 public:
  Text(char* out, size_t capacity) : out_(out), capacity_(capacity) {
    if (capacity_ > 0) out_[0] = '\0';
  }

  Text& Add(const char* text, size_t size) {
    const size_t room = capacity_ > size_ + 1 ? capacity_ - size_ - 1 : 0;
    overflowed_ = overflowed_ || size > room;
    const size_t taken = size < room ? size : room;
    std::memcpy(out_ + size_, text, taken);
    size_ += taken;
    if (capacity_ > 0) out_[size_] = '\0';
    return *this;
  }
  Text& Add(const char* text) { return Add(text, std::strlen(text)); }
  Text& Add(char c) { return Add(&c, 1); }
  Text& Add(uint64_t value) { return AddNumber(value, '\0'); }
  // What a terminal would obey, or show in another order or place than it stands, becomes "?": control characters,
  // bytes that are no UTF-8, marks of direction, and what is as wide as nothing.
  Text& AddPrintable(const char* text) {
    for (const char* at = text; *at != '\0';) {
      const size_t size = PrintableSize(at);
      if (size == 0) {
        Add('?');
        ++at;
      } else {
        Add(at, size);
        at += size;
      }
    }
    return *this;
  }
  // 17904 -> "17,904"
  Text& AddGrouped(uint64_t value) { return AddNumber(value, ','); }
  // Binary units: "61 KiB", "1.5 MiB".
  Text& AddBytes(uint64_t bytes) {
    constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    int unit = 0;
    uint64_t tenths = bytes < ~uint64_t{0} / 10 ? bytes * 10 : bytes;
    while (tenths >= 10240 && unit < 4) {
      tenths = (tenths + 512) / 1024;
      ++unit;
    }
    Add(tenths / 10);
    if (unit > 0 && tenths < 100 && tenths % 10 != 0) Add('.').Add(tenths % 10);
    return Add(kUnits[unit]);
  }

  size_t size() const { return size_; }
  bool overflowed() const { return overflowed_; }

 private:
  Text& AddNumber(uint64_t value, char separator) {
    char digits[32];
    size_t at = sizeof digits;
    int count = 0;
    do {
      if (separator != '\0' && count > 0 && count % 3 == 0) digits[--at] = separator;
      digits[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
      ++count;
    } while (value != 0);
    return Add(digits + at, sizeof digits - at);
  }

  char* out_;
  size_t capacity_;
  size_t size_ = 0;
  bool overflowed_ = false;
};

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_TEXT_H_
