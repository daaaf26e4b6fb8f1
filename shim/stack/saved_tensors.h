// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where the data of a tensor that autograd keeps lies, read from the tensor itself without calling PyTorch. Which words
// to read is learned from one tensor whose data is known.
//
// Thread-safety: any thread. Failure: 0, no address: nothing was learned, the tensor has no data, or not on a CUDA
// device.

#ifndef GPUMEM_SHIM_STACK_SAVED_TENSORS_H_
#define GPUMEM_SHIM_STACK_SAVED_TENSORS_H_

#include <cstdint>

namespace gpumemshim::stack {

// `tensor`: a TensorImpl on a CUDA device; `data`: where its storage's data begins.
void LearnTensorLayout(const void* tensor, const void* data);

// `tensor`: an at::Tensor, which is a pointer to a TensorImpl.
uint64_t DataOf(const void* tensor);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_SAVED_TENSORS_H_
