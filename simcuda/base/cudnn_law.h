// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What cuDNN asks for where nobody measured the shape: rules that were found in 17,376 requests of cuDNN 9.19 on an
// H100 (capability 9.0; docs/workspaces.md). Of these, the rules alone give 52 % of a convolution's sizes to the byte,
// 74 % within 1 %; a row of the other layout or of the other 16-bit type about 90 % to the byte; those of recurrent
// nets 96 %.
//
//   const LawSize size = LawOf("convolution_forward", "f32 x=32,64,56,56 w=64,64,3,3 padding=1,1 ... nchw", find);
//   if (size.is_known) Use(size.likely);
//
// Thread-safety: pure, but for `find`. Failure: parameters that are not as the stubs write them have no size.
#ifndef SIMCUDA_BASE_CUDNN_LAW_H_
#define SIMCUDA_BASE_CUDNN_LAW_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace simcuda {

struct LawSize {
  bool is_known = false;
  uint64_t likely = 0, low = 0, high = 0;  // bytes
};

// The size that was measured for an operation with such parameters.
using FindRow = std::function<std::optional<uint64_t>(const std::string& operation, const std::string& parameters)>;

// Of convolution_forward, convolution_backward_data, convolution_backward_filter; rnn_workspace, rnn_reserve;
// batch_norm_forward, batch_norm_reserve, batch_norm_backward; graph, where that is attention's forward pass.
LawSize LawOf(const std::string& operation, const std::string& parameters, const FindRow& find);

// One of the three: as a rule the likely one, now and then an end. The same for the same operation and `draw`.
uint64_t DrawnSize(const LawSize& law, const std::string& operation, const std::string& parameters, int draw);

}  // namespace simcuda

#endif  // SIMCUDA_BASE_CUDNN_LAW_H_
