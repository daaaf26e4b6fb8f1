// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/calls/own_symbols.h"

#include "shim/base/plain_text.h"

// Declared by name only: prototypes are checked where each wrapper is defined, against cuda.h and cuda_runtime_api.h.
extern "C" {
#define GPUMEM_TORCH_CALL(name, text)
#define GPUMEM_RUNTIME_SYMBOL(name) __attribute__((visibility("default"))) void name();
#define GPUMEM_DRIVER_SYMBOL(name) __attribute__((visibility("default"))) void name();
#include "shim/base/api.def"
#undef GPUMEM_TORCH_CALL
#undef GPUMEM_RUNTIME_SYMBOL
#undef GPUMEM_DRIVER_SYMBOL
}

namespace gpumemshim::calls {
namespace {

constexpr uint32_t kSlots = 512;  // power of two, several times kApiCount
static_assert(kSlots >= 3 * kApiCount);

constexpr uint32_t Hash(const char* name) {
  uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return hash ^ (hash >> 15);
}

struct Index {
  uint16_t slots[kSlots] = {};
};

constexpr Index BuildIndex() {
  Index index;
  for (uint16_t id = 1; id < kApiCount; ++id) {
    if (kApis[id].layer == Layer::kTorch) continue;
    uint32_t slot = Hash(kApis[id].name) % kSlots;
    while (index.slots[slot] != 0) slot = (slot + 1) % kSlots;
    index.slots[slot] = id;
  }
  return index;
}

constexpr Index kIndex = BuildIndex();

}  // namespace

ApiId FindOwnSymbol(const char* name) {
  if (name == nullptr || !LooksLikeCuda(name)) return ApiId::kNone;
  for (uint32_t slot = Hash(name) % kSlots; kIndex.slots[slot] != 0; slot = (slot + 1) % kSlots) {
    const uint16_t id = kIndex.slots[slot];
    if (plain::Equal(kApis[id].name, name)) return static_cast<ApiId>(id);
  }
  return ApiId::kNone;
}

void* OwnAddress(ApiId id) {
  switch (id) {
#define GPUMEM_TORCH_CALL(name, text)
#define GPUMEM_RUNTIME_SYMBOL(name) \
  case ApiId::k##name:              \
    return reinterpret_cast<void*>(&::name);
#define GPUMEM_DRIVER_SYMBOL(name) GPUMEM_RUNTIME_SYMBOL(name)
#include "shim/base/api.def"
#undef GPUMEM_TORCH_CALL
#undef GPUMEM_RUNTIME_SYMBOL
#undef GPUMEM_DRIVER_SYMBOL
    default:
      return nullptr;
  }
}

}  // namespace gpumemshim::calls
