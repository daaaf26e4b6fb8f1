// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What cuDNN's descriptors of a recurrent net and of its data keep: in handles of stub.h.
#ifndef SIMCUDA_STUBS_CUDNN_RNN_H_
#define SIMCUDA_STUBS_CUDNN_RNN_H_

#include "cudnn_types.h"

namespace simcudnn {

enum Cell { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };
enum Bias { kNoBias = 0, kInputBias = 1, kDoubleBias = 2, kRecurrentBias = 3 };

struct Rnn {
  int type, cell, bias, directions;
  int64_t input, hidden, projection, layers;
  bool drops;  // outputs between layers

  int64_t Gates() const { return cell == kLstm ? 4 : cell == kGru ? 3 : 1; }
  bool Projects() const { return projection > 0 && projection != hidden; }
  int64_t Output() const { return Projects() ? projection : hidden; }
  int64_t PseudoLayers() const { return layers * directions; }
  int64_t InputWidth(int64_t pseudo) const { return pseudo < directions ? input : Output() * directions; }
  int64_t BiasSets() const { return bias == kNoBias ? 0 : bias == kDoubleBias ? 2 : 1; }
  int64_t MatrixElements(int64_t pseudo) const {
    return Gates() * hidden * (InputWidth(pseudo) + Output()) + (Projects() ? projection * hidden : 0);
  }
  int64_t AllMatrixElements() const {
    int64_t sum = 0;
    for (int64_t pseudo = 0; pseudo < PseudoLayers(); ++pseudo) sum += MatrixElements(pseudo);
    return sum;
  }
  int64_t AllElements() const { return AllMatrixElements() + PseudoLayers() * BiasSets() * Gates() * hidden; }
};
static_assert(sizeof(Rnn) <= 256, "must fit a stub handle");

struct RnnData {
  int64_t steps, batch;
  int64_t tokens;  // of all sequences, without padding
};

}  // namespace simcudnn

#endif  // SIMCUDA_STUBS_CUDNN_RNN_H_
