// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "cudnn_convolution.h"

#include <stdio.h>

#include "cudnn_types.h"
#include "stub.h"

namespace simcudnn {
namespace {

constexpr uint64_t kComplexBytes = 8, kFloatBytes = 4;
constexpr uint64_t kTile = 32;             // of the tiled transform
constexpr uint64_t kLargestImage = 256;    // with padding, that the transform of whole images takes
constexpr uint64_t kChannelAlignment = 8;  // to which half precision kernels fill channels up

uint64_t Max(uint64_t a, uint64_t b) { return a > b ? a : b; }
uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

uint64_t PowerOfTwo(uint64_t least) {
  uint64_t value = 1;
  while (value < least) value *= 2;
  return value;
}

struct Sizes {
  uint64_t batch, inputs, outputs;  // channels of all groups
  uint64_t group_inputs;
  uint64_t groups;
  uint64_t space_in, space_out, taps;  // pixels of an image, of a result, of a filter
};

uint64_t Space(const Tensor& tensor) {
  uint64_t pixels = 1;
  for (int i = 2; i < tensor.rank; ++i) pixels *= static_cast<uint64_t>(tensor.dims[i]);
  return pixels;
}

Sizes SizesOf(const Convolution& c) {
  const uint64_t inputs = static_cast<uint64_t>(c.x.dims[1]), of_a_group = static_cast<uint64_t>(c.w.dims[1]);
  return {static_cast<uint64_t>(c.x.dims[0]),
          inputs,
          static_cast<uint64_t>(c.w.dims[0]),
          of_a_group,
          of_a_group == 0 ? 1 : inputs / of_a_group,
          Space(c.x),
          Space(c.y),
          Space(c.w)};
}

// Copies of all three tensors in another layout, channels filled up; of the filter's gradient also in 32 bits.
uint64_t Rearranged(const Convolution& c, const Sizes& s) {
  const uint64_t bytes = SizeOf(c.x.type);
  const uint64_t in = RoundUp(s.inputs, kChannelAlignment), out = RoundUp(s.outputs, kChannelAlignment);
  const uint64_t filter = out * RoundUp(s.group_inputs, kChannelAlignment) * s.taps;
  const bool adds_up = c.direction == Direction::kBackwardFilter;
  return bytes * s.batch * (in * s.space_in + out * s.space_out) + (adds_up ? bytes + kFloatBytes : bytes) * filter;
}

// The matrix of all patches, of an explicit product of matrices.
uint64_t Patches(const Convolution& c, const Sizes& s) {
  return SizeOf(c.x.type) * s.batch * s.inputs * s.taps * s.space_out;
}

bool IsPlain(const Convolution& c) {
  for (int i = 0; i < c.x.rank - 2; ++i) {
    if (c.stride[i] != 1 || c.dilation[i] != 1) return false;
  }
  return true;
}

uint64_t Spectra(const Sizes& s, uint64_t tiles_in, uint64_t tiles_out, uint64_t points) {
  return kComplexBytes * points *
         (s.batch * (s.inputs * tiles_in + s.outputs * tiles_out) + s.outputs * s.group_inputs);
}

// Fourier transforms of images, filters and results: as a whole, or in tiles of 32 x 32.
uint64_t Fourier(const Convolution& c, const Sizes& s) {
  if (c.x.rank != 4 || !IsPlain(c)) return 0;
  uint64_t whole[2], tiles = 1;
  for (int i = 0; i < 2; ++i) {
    const uint64_t padded = static_cast<uint64_t>(c.x.dims[2 + i] + 2 * c.padding[i]);
    const uint64_t filter = static_cast<uint64_t>(c.w.dims[2 + i]);
    if (filter > kTile) return 0;
    whole[i] = padded <= kLargestImage ? PowerOfTwo(padded) : 0;
    tiles *= (padded + kTile - filter) / (kTile - filter + 1);
  }
  const uint64_t tiled = Spectra(s, tiles, tiles, kTile * (kTile / 2 + 1));
  return Max(tiled, Spectra(s, 1, 1, whole[0] * (whole[1] / 2 + 1)));
}

// Winograd's F(4x4, 3x3) or F(4x4, 5x5) with the transformed tiles kept in memory.
uint64_t Winograd(const Convolution& c, const Sizes& s) {
  if (c.x.rank != 4 || !IsPlain(c) || c.w.dims[2] != c.w.dims[3]) return 0;
  const uint64_t filter = static_cast<uint64_t>(c.w.dims[2]), step = 4, tile = step + filter - 1;
  if (filter != 3 && filter != 5) return 0;
  const uint64_t high = static_cast<uint64_t>(c.y.dims[2]), wide = static_cast<uint64_t>(c.y.dims[3]);
  const uint64_t tiles = ((high + step - 1) / step) * ((wide + step - 1) / step);
  const uint64_t elements = s.batch * tiles * (s.inputs + s.outputs) + s.outputs * s.group_inputs;
  return kFloatBytes * tile * tile * elements;
}

}  // namespace

uint64_t WorkspaceBound(const Convolution& c) {
  if (c.x.rank < 3 || c.x.rank > 2 + kSpatialMax || c.w.rank != c.x.rank || c.y.rank != c.x.rank)
    return SIMCUDA_NO_BOUND;
  const Sizes s = SizesOf(c);
  return Max(Max(Rearranged(c, s), Patches(c, s)), Max(Fourier(c, s), Winograd(c, s)));
}

const char* OperationName(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "convolution_forward";
    case Direction::kBackwardData:
      return "convolution_backward_data";
    case Direction::kBackwardFilter:
      break;
  }
  return "convolution_backward_filter";
}

void Describe(const Convolution& c, char* text, size_t size) {
  TextLine line(text, size);
  line.Add("%s x=", TypeName(c.x.type));
  line.AddNumbers(c.x.dims, c.x.rank);
  line.Add(" w=");
  line.AddNumbers(c.w.dims, c.w.rank);
  const struct {
    const char* name;
    const int64_t* values;
  } kRest[] = {{"padding", c.padding}, {"stride", c.stride}, {"dilation", c.dilation}};
  for (const auto& [name, values] : kRest) {
    line.Add(" %s=", name);
    line.AddNumbers(values, c.x.rank - 2);
  }
  line.Add(" %s", LayoutName(c.x));
}

}  // namespace simcudnn
