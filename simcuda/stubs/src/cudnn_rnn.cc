// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuDNN's recurrent nets: sizes of the weight space and where each matrix and bias lies in it.
//
// Our weight space: for each pseudo-layer the input matrices of all gates, the recurrent ones, then the projection if
// there is one; after all matrices the biases in the same order. Callers learn the places from cudnnGetRNNWeightParams.
// Temporary spaces: cudnn_rnn_sizes.cc.
#include "cudnn_rnn.h"

#include "stub.h"

using namespace simcudnn;

namespace {

// Elements from the start of the weight space; -1: there is none.
struct Place {
  int64_t offset;
  int rows, columns;
};

Place MatrixPlace(const Rnn& rnn, int64_t pseudo, int64_t linear) {
  int64_t offset = 0;
  for (int64_t i = 0; i < pseudo; ++i) offset += rnn.MatrixElements(i);
  const int64_t gates = rnn.Gates(), in = rnn.InputWidth(pseudo), out = rnn.Output();
  const int rows = static_cast<int>(rnn.hidden);
  if (linear < gates) return {offset + linear * rnn.hidden * in, rows, static_cast<int>(in)};
  offset += gates * rnn.hidden * in;
  if (linear < 2 * gates) return {offset + (linear - gates) * rnn.hidden * out, rows, static_cast<int>(out)};
  if (!rnn.Projects() || linear > 2 * gates) return {-1, 0, 0};
  return {offset + gates * rnn.hidden * out, static_cast<int>(out), rows};
}

Place BiasPlace(const Rnn& rnn, int64_t pseudo, int64_t linear) {
  const int64_t gates = rnn.Gates(), sets = rnn.BiasSets();
  const bool recurrent = linear >= gates;
  if (linear >= 2 * gates || sets == 0 || (rnn.bias == kInputBias && recurrent) ||
      (rnn.bias == kRecurrentBias && !recurrent)) {
    return {-1, 0, 0};
  }
  const int64_t index = sets == 2 ? linear : linear % gates;
  return {rnn.AllMatrixElements() + (pseudo * sets * gates + index) * rnn.hidden, static_cast<int>(rnn.hidden), 1};
}

void Describe(const Rnn& rnn, const Place& place, const void* weights, void* descriptor, void** address) {
  const bool none = place.offset < 0;
  if (descriptor != nullptr) {
    auto* tensor = static_cast<Tensor*>(descriptor);
    *tensor = Tensor{rnn.type, 0, none ? 0 : 3, {}, {}};
    if (!none) {
      const int dims[] = {1, place.rows, place.columns};
      const int strides[] = {place.rows * place.columns, place.columns, 1};
      for (int i = 0; i < 3; ++i) {
        tensor->dims[i] = dims[i];
        tensor->strides[i] = strides[i];
      }
    }
  }
  if (address == nullptr) return;
  const auto base = reinterpret_cast<uintptr_t>(weights);
  *address = none ? nullptr : reinterpret_cast<void*>(base + place.offset * SizeOf(rnn.type));
}

}  // namespace

STUB_API int cudnnCreateRNNDescriptor(void** out) {
  if (out == nullptr) return kBadParamNullPointer;
  *out = stub_handle();
  return *out == nullptr ? kHostAllocationFailed : kSuccess;
}
STUB_API int cudnnDestroyRNNDescriptor(void* descriptor) {
  stub_release(descriptor);
  return kSuccess;
}

STUB_API int cudnnSetRNNDescriptor_v8(void* descriptor, int, int cell, int bias, int direction, int, int type, int, int,
                                      int input, int hidden, int projection, int layers, void*, unsigned) {
  if (descriptor == nullptr) return kBadParamNullPointer;
  if (cell < kRelu || cell > kGru || input <= 0 || hidden <= 0 || layers <= 0) return kBadParam;
  *static_cast<Rnn*>(descriptor) = Rnn{type, cell, bias, direction == 1 ? 2 : 1, input, hidden, projection, layers};
  return kSuccess;
}

STUB_API int cudnnCreateRNNDataDescriptor(void** out) { return cudnnCreateRNNDescriptor(out); }
STUB_API int cudnnDestroyRNNDataDescriptor(void* descriptor) { return cudnnDestroyRNNDescriptor(descriptor); }
STUB_API int cudnnSetRNNDataDescriptor(void* data, int, int, int steps, int batch, int, const int*, void*) {
  if (data == nullptr) return kBadParamNullPointer;
  *static_cast<RnnData*>(data) = RnnData{steps, batch};
  return kSuccess;
}

STUB_API int cudnnGetRNNWeightSpaceSize(void*, void* descriptor, size_t* size) {
  if (descriptor == nullptr || size == nullptr) return kBadParamNullPointer;
  const Rnn& rnn = *static_cast<Rnn*>(descriptor);
  *size = static_cast<size_t>(rnn.AllElements()) * SizeOf(rnn.type);
  return kSuccess;
}

STUB_API int cudnnGetRNNWeightParams(void*, void* descriptor, int pseudo_layer, size_t, const void* weights, int linear,
                                     void* matrix, void** matrix_address, void* bias, void** bias_address) {
  if (descriptor == nullptr) return kBadParamNullPointer;
  const Rnn& rnn = *static_cast<Rnn*>(descriptor);
  if (pseudo_layer < 0 || pseudo_layer >= rnn.PseudoLayers() || linear < 0) return kBadParam;
  Describe(rnn, MatrixPlace(rnn, pseudo_layer, linear), weights, matrix, matrix_address);
  Describe(rnn, BiasPlace(rnn, pseudo_layer, linear), weights, bias, bias_address);
  return kSuccess;
}
