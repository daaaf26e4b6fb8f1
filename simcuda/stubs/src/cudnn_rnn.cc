// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cudnn_rnn.h"

#include "cudnn_types.h"
#include "stub.h"

using namespace simcudnn;

namespace {

// What a recurrent net needs beside its weights: a workspace during each call, and the reserve that a training forward
// pass leaves to the backward pass. Measured, or at most what the cells' equations leave over (docs/workspaces.md).

constexpr int kTraining = 1;
constexpr const char* kCells[] = {"relu", "tanh", "lstm", "gru"};

// Of an element where sums are kept in 32 bits.
uint64_t Bytes(const Rnn& rnn) { return SizeOf(rnn.type) < 4 ? 4 : SizeOf(rnn.type); }

uint64_t Cells(const Rnn& rnn, const RnnData& data) {
  return static_cast<uint64_t>(data.steps * data.batch * rnn.directions);
}

// A layer and step: each gate before and after its activation, the cell's state and what it lets out, the output, and
// whether dropout let it through.
uint64_t ReserveBound(const Rnn& rnn, const RnnData& data) {
  const auto values = static_cast<uint64_t>((2 * rnn.Gates() + 3) * rnn.hidden + rnn.Output());
  return Bytes(rnn) * Cells(rnn, data) * static_cast<uint64_t>(rnn.layers) * values;
}

// The gates of a layer and their gradients for all steps, its input and output in another layout, and the weights in 32
// bits once as values and once as gradients.
uint64_t WorkspaceBound(const Rnn& rnn, const RnnData& data) {
  const int64_t widest = rnn.input > rnn.Output() * rnn.directions ? rnn.input : rnn.Output() * rnn.directions;
  const auto values = static_cast<uint64_t>(2 * rnn.Gates() * rnn.hidden + 2 * widest);
  return Bytes(rnn) * (Cells(rnn, data) * values + 2 * static_cast<uint64_t>(rnn.AllElements()));
}

}  // namespace

STUB_API int cudnnGetRNNTempSpaceSizes(void*, void* descriptor, int mode, void* data_descriptor, size_t* workspace,
                                       size_t* reserve) {
  if (descriptor == nullptr || data_descriptor == nullptr) return kBadParamNullPointer;
  const Rnn& rnn = *static_cast<Rnn*>(descriptor);
  const RnnData& data = *static_cast<RnnData*>(data_descriptor);
  char text[256];
  TextLine line(text, sizeof(text));
  line.Add("%s %s input=%lld ", kCells[rnn.cell], TypeName(rnn.type), static_cast<long long>(rnn.input));
  line.Add("hidden=%lld projection=%lld ", static_cast<long long>(rnn.hidden), static_cast<long long>(rnn.projection));
  line.Add("layers=%lld directions=%d ", static_cast<long long>(rnn.layers), rnn.directions);
  line.Add("steps=%lld batch=%lld ", static_cast<long long>(data.steps), static_cast<long long>(data.batch));
  if (data.tokens != data.steps * data.batch) line.Add("tokens=%lld ", static_cast<long long>(data.tokens));
  if (rnn.drops) line.Add("dropout=1 ");
  line.Add("bias=%d %s", rnn.bias, mode == kTraining ? "training" : "inference");
  if (workspace != nullptr)
    *workspace = Workspace("rnn_workspace", text, WorkspaceBound(rnn, data), "SIMCUDA_CUDNN_RNN_WS");
  if (reserve != nullptr) {
    const uint64_t bound = mode == kTraining ? ReserveBound(rnn, data) : 0;
    *reserve = Workspace("rnn_reserve", text, bound, "SIMCUDA_CUDNN_RNN_RESERVE");
  }
  return kSuccess;
}

namespace {

// cuDNN's recurrent nets: sizes of the weight space and where each matrix and bias lies in it.
//
// Our weight space: for each pseudo-layer the input matrices of all gates, the recurrent ones, then the projection if
// there is one; after all matrices the biases in the same order. Callers learn the places from cudnnGetRNNWeightParams.

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
                                      int input, int hidden, int projection, int layers, void* dropout, unsigned) {
  if (descriptor == nullptr) return kBadParamNullPointer;
  if (cell < kRelu || cell > kGru || input <= 0 || hidden <= 0 || layers <= 0) return kBadParam;
  *static_cast<Rnn*>(descriptor) = Rnn{type,
                                       cell,
                                       bias,
                                       direction == 1 ? 2 : 1,
                                       input,
                                       hidden,
                                       projection,
                                       layers,
                                       layers > 1 && DropoutOf(dropout) > 0};
  return kSuccess;
}

STUB_API int cudnnCreateRNNDataDescriptor(void** out) { return cudnnCreateRNNDescriptor(out); }
STUB_API int cudnnDestroyRNNDataDescriptor(void* descriptor) { return cudnnDestroyRNNDescriptor(descriptor); }
STUB_API int cudnnSetRNNDataDescriptor(void* data, int, int, int steps, int batch, int, const int* lengths, void*) {
  if (data == nullptr) return kBadParamNullPointer;
  int64_t tokens = lengths == nullptr ? static_cast<int64_t>(steps) * batch : 0;
  for (int i = 0; lengths != nullptr && i < batch; ++i) tokens += lengths[i];
  *static_cast<RnnData*>(data) = RnnData{steps, batch, tokens};
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
