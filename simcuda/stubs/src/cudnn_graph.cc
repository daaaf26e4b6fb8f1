// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a graph of cuDNN's backend API computes, as far as its workspace depends on it: one convolution, or all that its
// operations and tensors say.
#include <string.h>

#include "cudnn_backend.h"
#include "cudnn_convolution.h"
#include "cudnn_types.h"
#include "stub.h"

namespace simcudnn {
namespace {

// Numbers of cudnnBackendDescriptorType_t.
enum { kForwardOp = 10, kFilterOp = 11, kDataOp = 12, kTensorDescriptor = 17, kMatmulOp = 19 };
// Numbers of cudnnBackendAttributeName_t.
enum {
  kDilations = 102,
  kStrides = 103,
  kPaddings = 105,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorVirtual = 907,
};

// Where an operation keeps its convolution, image, filter and result (or their gradients).
struct Places {
  int type;
  Direction direction;
  int convolution, x, w, y;
};
constexpr Places kPlaces[] = {{kForwardOp, Direction::kForward, 702, 704, 703, 705},
                              {kDataOp, Direction::kBackwardData, 708, 710, 709, 711},
                              {kFilterOp, Direction::kBackwardFilter, 714, 716, 715, 717}};

const Descriptor* Pointed(const Descriptor* from, int name) {
  const Attribute* attribute = Find(from, name);
  if (attribute == nullptr || attribute->type != kDescriptor || attribute->count < 1) return nullptr;
  const Descriptor* descriptor = nullptr;
  memcpy(&descriptor, attribute->bytes, sizeof(void*));
  return descriptor;
}

// Copies at most `most` numbers out; how many there are.
int Numbers(const Descriptor* from, int name, int64_t* numbers, int most) {
  const Attribute* attribute = Find(from, name);
  if (attribute == nullptr || attribute->type != kInt64Type) return 0;
  const int count = attribute->count < most ? static_cast<int>(attribute->count) : most;
  memcpy(numbers, attribute->bytes, static_cast<size_t>(count) * sizeof(int64_t));
  return count;
}

int Number(const Descriptor* from, int name, size_t bytes) {
  const Attribute* attribute = Find(from, name);
  int number = 0;
  if (attribute != nullptr && attribute->count > 0) memcpy(&number, attribute->bytes, bytes);
  return number;
}

bool ReadTensor(const Descriptor* from, Tensor* tensor) {
  if (from == nullptr) return false;
  int64_t dims[kDimMax] = {}, strides[kDimMax] = {};
  *tensor = Tensor{Number(from, kTensorType, sizeof(int)), 0, Numbers(from, kTensorDims, dims, kDimMax), {}, {}};
  Numbers(from, kTensorStrides, strides, kDimMax);
  for (int i = 0; i < tensor->rank; ++i) {
    tensor->dims[i] = static_cast<int>(dims[i]);
    tensor->strides[i] = static_cast<int>(strides[i]);
  }
  return tensor->rank > 0;
}

bool ReadConvolution(const Descriptor* operation, Convolution* read) {
  for (const Places& places : kPlaces) {
    if (places.type != operation->type) continue;
    const Descriptor* convolution = Pointed(operation, places.convolution);
    *read = Convolution{places.direction, {}, {}, {}, {}, {1, 1, 1}, {1, 1, 1}};
    if (convolution == nullptr || !ReadTensor(Pointed(operation, places.x), &read->x) ||
        !ReadTensor(Pointed(operation, places.w), &read->w) || !ReadTensor(Pointed(operation, places.y), &read->y)) {
      return false;
    }
    Numbers(convolution, kPaddings, read->padding, kSpatialMax);
    Numbers(convolution, kStrides, read->stride, kSpatialMax);
    Numbers(convolution, kDilations, read->dilation, kSpatialMax);
    return true;
  }
  return false;
}

// Adds what an operation reads and writes to the line; the bytes of one copy of all that in 32 bits or more. Tensors
// within a graph take nothing.
uint64_t AddTensors(const Descriptor* operation, TextLine* line) {
  uint64_t bytes = 0;
  for (const Attribute* a = operation->first; a != nullptr; a = a->next) {
    const Descriptor* pointed = a->type == kDescriptor ? Pointed(operation, a->name) : nullptr;
    Tensor tensor;
    if (pointed == nullptr || pointed->type != kTensorDescriptor || !ReadTensor(pointed, &tensor)) continue;
    if (Number(pointed, kTensorVirtual, 1) != 0) continue;
    line->Add(" %s ", TypeName(tensor.type));
    line->AddNumbers(tensor.dims, tensor.rank);
    uint64_t elements = 1;
    for (int i = 0; i < tensor.rank; ++i) elements *= static_cast<uint64_t>(tensor.dims[i]);
    bytes += elements * (SizeOf(tensor.type) < 4 ? 4 : SizeOf(tensor.type));
  }
  return bytes;
}

// CUDNN_CONV_WSCAP_DBG: the most that cuDNN takes for one convolution, in MiB.
uint64_t Capped(uint64_t bound) {
  const uint64_t cap_mib = stub_setting("CUDNN_CONV_WSCAP_DBG", 0);
  if (cap_mib == 0 || cap_mib > (UINT64_MAX >> 20)) return bound;
  return bound < cap_mib << 20 ? bound : cap_mib << 20;
}

}  // namespace

void Ask(Descriptor* const* operations, int64_t count, Question* question) {
  Convolution convolution;
  if (count == 1 && operations[0] != nullptr && ReadConvolution(operations[0], &convolution)) {
    question->operation = OperationName(convolution.direction);
    question->bound = Capped(WorkspaceBound(convolution));
    Describe(convolution, question->parameters, sizeof(question->parameters));
    return;
  }
  question->operation = "graph";
  question->bound = 0;
  TextLine line(question->parameters, sizeof(question->parameters));
  for (int64_t i = 0; i < count; ++i) {
    if (operations[i] == nullptr) continue;
    if (operations[i]->type == kMatmulOp) question->operation = "attention";
    line.Add(i == 0 ? "%d" : " %d", operations[i]->type);
    question->bound += AddTensors(operations[i], &line);
  }
}

}  // namespace simcudnn
