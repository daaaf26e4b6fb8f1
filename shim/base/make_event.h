// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// MakeEvent: an empty event of one call.
//
// Thread-safety: pure. Failure: none.

#ifndef GPUMEM_SHIM_BASE_MAKE_EVENT_H_
#define GPUMEM_SHIM_BASE_MAKE_EVENT_H_

#include <cstdint>

#include "shim/base/api.h"
#include "shim/base/event.h"

namespace gpumemshim {

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

#endif  // GPUMEM_SHIM_BASE_MAKE_EVENT_H_
