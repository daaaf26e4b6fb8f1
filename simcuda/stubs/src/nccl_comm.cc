// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "nccl_comm.h"

#include <stdint.h>

namespace nccl {
namespace {

enum Operation { kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kAverage = 4 };

// Integers wrap, as they do on a GPU.
template <typename Number, typename Wide>
Number Combine(Number a, Number b, int operation) {
  switch (operation) {
    case kProduct:
      return static_cast<Number>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case kMax:
      return a > b ? a : b;
    case kMin:
      return a < b ? a : b;
    default:
      return static_cast<Number>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

template <typename Number, typename Wide>
struct Of {
  static void Reduce(void* sum, const void* other, size_t count, int operation) {
    auto* to = static_cast<Number*>(sum);
    const auto* from = static_cast<const Number*>(other);
    for (size_t i = 0; i < count; ++i) to[i] = Combine<Number, Wide>(to[i], from[i], operation);
  }
  static void Divide(void* sum, size_t count, int ranks) {
    auto* to = static_cast<Number*>(sum);
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<Number>(to[i] / static_cast<Number>(ranks));
  }
};

struct Type {
  size_t size;
  void (*reduce)(void*, const void*, size_t, int);
  void (*divide)(void*, size_t, int);
};

template <typename Number, typename Wide>
constexpr Type kTypeOf{sizeof(Number), &Of<Number, Wide>::Reduce, &Of<Number, Wide>::Divide};

// By ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16 and two of 8 bits.
constexpr Type kTypes[] = {kTypeOf<int8_t, uint64_t>,   kTypeOf<uint8_t, uint64_t>, kTypeOf<int32_t, uint64_t>,
                           kTypeOf<uint32_t, uint64_t>, kTypeOf<int64_t, uint64_t>, kTypeOf<uint64_t, uint64_t>,
                           {2, nullptr, nullptr},       kTypeOf<float, float>,      kTypeOf<double, double>,
                           {2, nullptr, nullptr},       {1, nullptr, nullptr},      {1, nullptr, nullptr}};
constexpr int kTypeCount = sizeof(kTypes) / sizeof(kTypes[0]);

}  // namespace

size_t SizeOf(int type) { return type >= 0 && type < kTypeCount ? kTypes[type].size : 0; }

void Reduce(void* sum, const void* other, size_t count, int type, int op) {
  if (SizeOf(type) != 0 && kTypes[type].reduce != nullptr) kTypes[type].reduce(sum, other, count, op);
}

void Average(void* sum, size_t count, int type, int op, int ranks) {
  if (op == kAverage && SizeOf(type) != 0 && kTypes[type].divide != nullptr) kTypes[type].divide(sum, count, ranks);
}

}  // namespace nccl
