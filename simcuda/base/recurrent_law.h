// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The part of the law of cuDNN's sizes (cudnn_law.h) that needs no table: recurrent nets, in closed form.
//
//   LawOfRecurrentNet("rnn_workspace", "lstm f32 input=512 hidden=1024 layers=3 directions=2 steps=400 batch=128 ...")
//
// Thread-safety: pure. Failure: parameters that are not as the stubs write them have no size.
#ifndef SIMCUDA_BASE_RECURRENT_LAW_H_
#define SIMCUDA_BASE_RECURRENT_LAW_H_

#include <string>

#include "simcuda/base/cudnn_law.h"

namespace simcuda {

// Bytes of rnn_workspace or rnn_reserve.
LawSize LawOfRecurrentNet(const std::string& operation, const std::string& parameters);

}  // namespace simcuda

#endif  // SIMCUDA_BASE_RECURRENT_LAW_H_
