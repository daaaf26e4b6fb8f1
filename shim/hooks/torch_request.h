// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What PyTorch's allocator was asked for, which its report does not say: the size before it was rounded, and the
// stream.
//
//   torch_request::Describe(device, &event);   // inside of the report: requested_size, stream, handle
//
// The size: while the allocator rounds a request of 512 bytes or more, under its mutex and on the reporting thread, it
// asks its settings for roundup_power2_divisions, through a function that we stand in front of. The stream: the one
// that is current on this thread, asked for by PyTorch's own function, which reads a thread-local and takes no lock.
// Where a CUDA graph is captured, which capture, as the event's handle: its blocks come from a private pool. The
// functions are the same in PyTorch 2.1 to 2.11; where a function is missing, its field stays 0.
//
// Thread-safety: any thread. Failure: fields that cannot be known stay 0. A request that names another stream than the
// current one (raw_alloc_with_stream) is recorded with the current one.

#ifndef GPUMEM_SHIM_HOOKS_TORCH_REQUEST_H_
#define GPUMEM_SHIM_HOOKS_TORCH_REQUEST_H_

#include <cstdint>

#include "shim/base/event.h"

namespace gpumemshim::hooks::torch_request {

void Describe(int8_t device, Event* event);

}  // namespace gpumemshim::hooks::torch_request

#endif  // GPUMEM_SHIM_HOOKS_TORCH_REQUEST_H_
