// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a program asks of PyTorch's caching allocator beside blocks, as far as it decides where free memory can be used
// again: a stream of its own (each has a cache), Tensor.record_stream (which puts off when a freed block can be used),
// and a MemPool (a private pool). Rare calls, each an event of no layer behind the real call.
//
// All of these functions are called through the PLT of PyTorch's libraries, so the real one is there. Nothing here
// takes the GIL or calls into PyTorch, the function that we stand in front of excepted.

#include <cstdint>

#include "shim/hooks/record.h"
#include "shim/hooks/torch_function.h"
#include "shim/ring/ring.h"
#include "shim/stack/autograd_nodes.h"

namespace gpumemshim::hooks {
namespace {

// c10::Stream and c10::cuda::CUDAStream as they are passed and returned: in two registers. The device's type is the
// first byte, its index the second.
struct TorchStream {
  uint64_t device;
  int64_t id;
};

constexpr uint8_t kCudaType = 1;

void RecordUse(uint64_t use, uint64_t device, uint64_t address, int64_t stream) {
  if (session::IsOff() || !ring::Active()) return;
  const Scope scope;
  Event event = MakeEvent(ApiId::kNone, EventKind::kAllocatorUse, Memory::kDevice);
  event.device = static_cast<int8_t>(device >> 8);  // NOLINT(bugprone-signed-char-misuse): -1 is "no device"
  event.handle = use;
  event.address = address;
  event.stream = static_cast<uint64_t>(stream);
  Emit(event);
}

}  // namespace

// `name` must be a literal: it is both the exported symbol and the one looked for behind us.
#define GPUMEM_STREAM_FROM_POOL(function, priority_type, name)                                     \
  extern "C" __attribute__((visibility("default"))) TorchStream function(priority_type priority,   \
                                                                         int8_t device) asm(name); \
  TorchStream function(priority_type priority, int8_t device) {                                    \
    static constinit TorchFunction real{"libc10_cuda.so", name};                                   \
    const TorchStream stream =                                                                     \
        reinterpret_cast<TorchStream (*)(priority_type, int8_t)>(real.Find())(priority, device);   \
    RecordUse(kUseOfStream, stream.device, 0, stream.id);                                          \
    return stream;                                                                                 \
  }

GPUMEM_STREAM_FROM_POOL(StreamOfPriority, int, "_ZN3c104cuda17getStreamFromPoolEia")
GPUMEM_STREAM_FROM_POOL(StreamOfHighPriority, bool, "_ZN3c104cuda17getStreamFromPoolEba")

extern "C" {

// at::_ops::record_stream::call(at::Tensor&, c10::Stream)
__attribute__((visibility("default"))) void GpumemRecordStream(void* tensor, TorchStream stream) asm(
    "_ZN2at4_ops13record_stream4callERNS_6TensorEN3c106StreamE");

void GpumemRecordStream(void* tensor, TorchStream stream) {
  static constinit TorchFunction real{"libtorch_cpu.so", "_ZN2at4_ops13record_stream4callERNS_6TensorEN3c106StreamE"};
  reinterpret_cast<void (*)(void*, TorchStream)>(real.Find())(tensor, stream);
  if (static_cast<uint8_t>(stream.device) != kCudaType) return;
  RecordUse(kUseOfRecordStream, stream.device, stack::DataOf(tensor), stream.id);
}

// at::cuda::MemPool::MemPool(std::shared_ptr<CUDAAllocator>, bool is_user_created, bool use_on_oom, bool symmetric): a
// shared_ptr is passed by its address.
__attribute__((visibility("default"))) void GpumemMemPool(
    void* pool, void* allocator, bool is_users, bool on_oom,
    bool is_symmetric) asm("_ZN2at4cuda7MemPoolC1ESt10shared_ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEEbbb");

void GpumemMemPool(void* pool, void* allocator, bool is_users, bool on_oom, bool is_symmetric) {
  static constinit TorchFunction real{
      "libtorch_cuda.so", "_ZN2at4cuda7MemPoolC1ESt10shared_ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEEbbb"};
  reinterpret_cast<void (*)(void*, void*, bool, bool, bool)>(real.Find())(pool, allocator, is_users, on_oom,
                                                                          is_symmetric);
  constexpr uint64_t kNoIndex = 0xff00;
  RecordUse(kUseOfMemPool, kNoIndex, 0, 0);
}

}  // extern "C"

}  // namespace gpumemshim::hooks
