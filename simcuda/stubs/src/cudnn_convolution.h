// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How much workspace a convolution may want: the largest of the algorithms that cuDNN's documentation describes with a
// workspace and that its conditions admit for this shape (docs/workspaces.md derives each).
//
// Thread-safety: pure functions. Failure: a shape that makes no sense has no bound.
#ifndef SIMCUDA_STUBS_CUDNN_CONVOLUTION_H_
#define SIMCUDA_STUBS_CUDNN_CONVOLUTION_H_

#include "cudnn_types.h"

namespace simcudnn {

enum class Direction { kForward, kBackwardData, kBackwardFilter };

constexpr int kSpatialMax = 3;

struct Convolution {
  Direction direction;
  Tensor x, w, y;  // 3 to 5 dimensions: batch or output channels, channels, space
  int64_t padding[kSpatialMax], stride[kSpatialMax], dilation[kSpatialMax];
};

uint64_t WorkspaceBound(const Convolution& convolution);

// "convolution_forward" and the like.
const char* OperationName(Direction direction);

// All that the workspace depends on, as one line.
void Describe(const Convolution& convolution, char* text, size_t size);

}  // namespace simcudnn

#endif  // SIMCUDA_STUBS_CUDNN_CONVOLUTION_H_
