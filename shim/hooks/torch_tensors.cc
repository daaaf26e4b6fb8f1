// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Tensors that get other data: at::TensorBase::set_data, which is `tensor.data = other`, and so Module.to, .cuda() and
// .half() of each parameter, offloading, and the shards of FSDP and ZeRO. The tensor stays the same object, so its name
// goes along to where its data lies from now on.
//
// Called through the PLT of PyTorch's libraries. Nothing here takes the GIL or calls into PyTorch, the function that we
// stand in front of excepted: where the data lies is read from the tensors (stack::DataOf).

#include <cstdint>
#include <cstring>

#include "shim/hooks/record.h"
#include "shim/hooks/torch_function.h"
#include "shim/ring/ring.h"
#include "shim/stack/autograd_nodes.h"

namespace gpumemshim::hooks {
namespace {

bool IsRecording() { return !session::IsOff() && ring::Active(); }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void GpumemSetData(const void* tensor,
                                                          const void* data) asm("_ZNK2at10TensorBase8set_dataERKS0_");

void GpumemSetData(const void* tensor, const void* data) {
  static constinit TorchFunction real{"libtorch_cpu.so", "_ZNK2at10TensorBase8set_dataERKS0_"};
  const uint64_t before = IsRecording() ? stack::DataOf(tensor) : 0;
  reinterpret_cast<void (*)(const void*, const void*)>(real.Find())(tensor, data);
  if (!IsRecording()) return;
  Event event{};
  event.kind = EventKind::kTensorData;
  event.device = kNoDevice;
  event.address = stack::DataOf(tensor);
  if ((before | event.address) == 0 || before == event.address) return;  // not on a GPU, or where it was
  std::memcpy(&event.handle, tensor, sizeof event.handle);               // the TensorImpl
  ring::Record(event);
}

}  // extern "C"

}  // namespace gpumemshim::hooks
