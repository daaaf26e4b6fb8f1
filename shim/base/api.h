// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Numbers and names of the hooked functions, generated from api.def. Event.api holds such a number; the trace holds the
// name.
//
// Thread-safety: constant data. Failure: an unknown number has the name "".
//
//   event.api = static_cast<uint16_t>(ApiId::kcudaMalloc);
//   ApiName(event.api);                                       // "cudaMalloc"

#ifndef GPUMEM_SHIM_BASE_API_H_
#define GPUMEM_SHIM_BASE_API_H_

#include <cstdint>

#include "shim/base/event.h"

namespace gpumemshim {

enum class ApiId : uint16_t {
  kNone = 0,
#define GPUMEM_TORCH_CALL(name, text) k##name,
#define GPUMEM_RUNTIME_SYMBOL(name) k##name,
#define GPUMEM_DRIVER_SYMBOL(name) k##name,
#include "shim/base/api.def"
#undef GPUMEM_TORCH_CALL
#undef GPUMEM_RUNTIME_SYMBOL
#undef GPUMEM_DRIVER_SYMBOL
  kCount
};

inline constexpr uint16_t kApiCount = static_cast<uint16_t>(ApiId::kCount);

struct ApiInfo {
  const char* name;
  Layer layer;
};

inline constexpr ApiInfo kApis[kApiCount] = {
    {"", Layer::kUnspecified},
#define GPUMEM_TORCH_CALL(name, text) {text, Layer::kTorch},
#define GPUMEM_RUNTIME_SYMBOL(name) {#name, Layer::kRuntime},
#define GPUMEM_DRIVER_SYMBOL(name) {#name, Layer::kDriver},
#include "shim/base/api.def"
#undef GPUMEM_TORCH_CALL
#undef GPUMEM_RUNTIME_SYMBOL
#undef GPUMEM_DRIVER_SYMBOL
};

constexpr const char* ApiName(uint16_t api) { return api < kApiCount ? kApis[api].name : ""; }

constexpr Layer ApiLayer(ApiId api) { return kApis[static_cast<uint16_t>(api)].layer; }

// MakeEvent: an empty event of one call.

// Of the layer that `api` is of. No device is known yet; everything else is 0.
inline Event MakeEvent(ApiId api, EventKind kind, Memory memory) {
  Event event;
  // Not `event{}`, for which gcc takes a string instruction of twenty cycles.
  auto* words = reinterpret_cast<unsigned char*>(&event);
  for (unsigned i = 0; i < sizeof event; i += 16) __builtin_memset(words + i, 0, 16);
  event.kind = kind;
  event.layer = ApiLayer(api);
  event.memory = memory;
  event.device = kNoDevice;
  event.api = static_cast<uint16_t>(api);
  return event;
}

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_API_H_
