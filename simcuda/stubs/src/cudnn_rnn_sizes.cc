// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a recurrent net needs beside its weights: a workspace during each call, and the reserve that a training forward
// pass leaves to the backward pass. Measured, or at most what the cells' equations leave over (docs/workspaces.md).
#include "cudnn_rnn.h"
#include "stub.h"
#include "text_line.h"

using namespace simcudnn;

namespace {

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
  line.Add("bias=%d %s", rnn.bias, mode == kTraining ? "training" : "inference");
  if (workspace != nullptr)
    *workspace = Workspace("rnn_workspace", text, WorkspaceBound(rnn, data), "SIMCUDA_CUDNN_RNN_WS");
  if (reserve != nullptr) {
    const uint64_t bound = mode == kTraining ? ReserveBound(rnn, data) : 0;
    *reserve = Workspace("rnn_reserve", text, bound, "SIMCUDA_CUDNN_RNN_RESERVE");
  }
  return kSuccess;
}
