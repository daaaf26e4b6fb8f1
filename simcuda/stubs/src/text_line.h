// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A line of text that grows in a buffer of the caller's; what does not fit is left out, but for a number that stands
// for all of it, so that two long lines differ where their texts do.
//
//   char text[256];
//   TextLine line(text, sizeof(text));
//   line.Add("%s x=", "f32");
//
// Thread-safety: one thread's. The buffer holds a terminated string at any time.
#ifndef SIMCUDA_STUBS_TEXT_LINE_H_
#define SIMCUDA_STUBS_TEXT_LINE_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

namespace simcudnn {

class TextLine {
 public:
  TextLine(char* text, size_t size) : text_(text), size_(size) { text_[0] = '\0'; }

  __attribute__((format(printf, 2, 3))) void Add(const char* format, ...) {
    char part[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof(part), format, arguments);
    va_end(arguments);
    for (const char* c = part; *c != '\0'; ++c) {
      hash_ = (hash_ ^ static_cast<unsigned char>(*c)) * 1099511628211u;  // FNV-1a
      if (used_ + kHashBytes < size_) text_[used_++] = *c;
    }
    text_[used_] = '\0';
    if (used_ + kHashBytes >= size_)
      snprintf(text_ + used_, size_ - used_, "#%016llx", static_cast<unsigned long long>(hash_));
  }

  template <typename Number>
  void AddNumbers(const Number* numbers, int count) {
    for (int i = 0; i < count; ++i) Add(i == 0 ? "%lld" : ",%lld", static_cast<long long>(numbers[i]));
  }

 private:
  static constexpr size_t kHashBytes = 18;  // with '#' and the final zero
  char* const text_;
  const size_t size_;
  size_t used_ = 0;
  uint64_t hash_ = 14695981039346656037u;
};

}  // namespace simcudnn

#endif  // SIMCUDA_STUBS_TEXT_LINE_H_
