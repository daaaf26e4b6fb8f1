// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The sizes in which the simulated device hands out memory, after what CUDA does on data-centre GPUs.
#ifndef SIMCUDA_DEVICE_GRANULARITY_H_
#define SIMCUDA_DEVICE_GRANULARITY_H_

#include <cstdint>

namespace simcuda {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGranule = 2 * kMiB;    // physical memory comes in such pieces
inline constexpr uint64_t kSmallLimit = kMiB;     // below this, allocations share granules
inline constexpr uint64_t kSmallAlignment = 512;  // of addresses and sizes inside a shared granule
inline constexpr uint64_t kPitchAlignment = 512;
inline constexpr uint64_t kPage = 4096;

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }
constexpr uint64_t RoundDown(uint64_t value, uint64_t unit) { return value / unit * unit; }

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_GRANULARITY_H_
