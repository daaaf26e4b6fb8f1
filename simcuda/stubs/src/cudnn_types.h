// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The few types of cuDNN 9's public API that the stub needs, declared from the public documentation.
#ifndef SIMCUDA_STUBS_CUDNN_TYPES_H_
#define SIMCUDA_STUBS_CUDNN_TYPES_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

namespace simcudnn {

// A line of text that grows in a buffer of the caller's; what does not fit is left out, but for a number that stands
// for all of it, so that two long lines differ where their texts do.
//
//   char text[256];
//   TextLine line(text, sizeof(text));
//   line.Add("%s x=", "f32");
//
// Thread-safety: one thread's. The buffer holds a terminated string at any time.
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

enum Status : int { kSuccess = 0, kBadParam = 2000, kBadParamNullPointer = 2002, kHostAllocationFailed = 4003 };

enum DataType : int {
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kInt8 = 3,
  kInt32 = 4,
  kUint8 = 6,
  kBfloat16 = 9,
  kInt64 = 10
};

constexpr int kDimMax = 8;

inline size_t SizeOf(int type) {
  switch (type) {
    case kDouble:
    case kInt64:
      return 8;
    case kFloat:
    case kInt32:
      return 4;
    case kHalf:
    case kBfloat16:
      return 2;
    default:
      return 1;
  }
}

// As the rows of the table of workspaces have it.
inline const char* TypeName(int type) {
  switch (type) {
    case kFloat:
      return "f32";
    case kDouble:
      return "f64";
    case kHalf:
      return "f16";
    case kBfloat16:
      return "bf16";
    default:
      return SizeOf(type) == 1 ? "8bit" : "other";
  }
}

// The bytes of an operation of this cuDNN: SIMCUDA_CUDNN_WS (or another setting), else as the table of workspaces has
// it.
size_t Workspace(const char* operation, const char* parameters, uint64_t bound,
                 const char* setting = "SIMCUDA_CUDNN_WS");

// The share that a dropout descriptor drops; null: none.
float DropoutOf(const void* descriptor);

// A tensor or filter descriptor; `format` is the filter's alone.
struct Tensor {
  int type;
  int format;
  int rank;
  int dims[kDimMax];
  int strides[kDimMax];
};
static_assert(sizeof(Tensor) <= 256, "must fit a stub handle");

// "nhwc" where channels lie beside each other, "nchw" where whole planes do; one of them where both are true.
inline const char* LayoutName(const Tensor& tensor) {
  if (tensor.rank < 3) return "plain";
  if (tensor.strides[1] == 1 && tensor.dims[1] > 1) return "nhwc";
  return tensor.strides[tensor.rank - 1] == 1 || tensor.dims[tensor.rank - 1] == 1 ? "nchw" : "strided";
}

}  // namespace simcudnn

#endif  // SIMCUDA_STUBS_CUDNN_TYPES_H_
