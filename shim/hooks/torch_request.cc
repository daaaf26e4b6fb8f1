// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/torch_request.h"

#include <cstddef>

#include "shim/hooks/capture.h"
#include "shim/hooks/torch_function.h"

namespace gpumemshim::hooks::torch_request {
namespace {

// Set while a request is rounded, taken by the report that follows on this thread.
constinit thread_local uint64_t t_requested __attribute__((tls_model("initial-exec"))) = 0;

// c10::cuda::CUDAStream as it is returned: a c10::Stream, in two registers.
struct CudaStream {
  uint64_t device;
  int64_t id;
};
using GetCurrentStream = CudaStream (*)(int8_t device);
using Divisions = size_t (*)(size_t size);

constinit TorchFunction g_current_stream{"libc10_cuda.so", "_ZN3c104cuda20getCurrentCUDAStreamEa"};

}  // namespace

void Describe(int8_t device, Event* event) {
  // A request that was given up before its report leaves its size behind; a smaller block cannot come of it.
  if (t_requested <= event->size) event->requested_size = t_requested;
  t_requested = 0;
  if (auto current = reinterpret_cast<GetCurrentStream>(g_current_stream.Find()); current != nullptr)
    event->stream = static_cast<uint64_t>(current(device).id);
  // What is captured is never captured on the default stream, and comes from a private pool of the capture.
  if (capture::AnyActive() && event->stream != 0) event->handle = capture::g_begun.load(std::memory_order_relaxed);
}

// `name` must be a literal: it is both the exported symbol and the one looked for behind us.
#define GPUMEM_DIVISIONS(function, library, name)                                           \
  extern "C" __attribute__((visibility("default"))) size_t function(size_t size) asm(name); \
  size_t function(size_t size) {                                                            \
    static constinit TorchFunction real{library, name};                                     \
    t_requested = size;                                                                     \
    auto divisions = reinterpret_cast<Divisions>(real.Find());                              \
    return divisions != nullptr ? divisions(size) : 0;                                      \
  }

// Since PyTorch 2.9, and before.
GPUMEM_DIVISIONS(DivisionsOfAccelerators, "libc10.so",
                 "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig24roundup_power2_divisionsEm")
GPUMEM_DIVISIONS(DivisionsOfCuda, "libc10_cuda.so",
                 "_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig24roundup_power2_divisionsEm")

}  // namespace gpumemshim::hooks::torch_request
