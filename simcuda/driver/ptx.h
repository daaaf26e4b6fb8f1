// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What an image in PTX, whose format NVIDIA documents, says of its kernels: the bytes of the .local variables of each
// .entry, which is the local memory that a thread of it needs. Spilled registers come with the translation to machine
// code, which nobody does here: they are not in it.
//
// Thread-safety: pure. Failure mode: an image that is no PTX, or breaks off, says nothing of the kernels behind.
//
//   LocalBytesInPtx(".version 8.0 .target sm_90 .entry k() { .local .align 4 .b8 a[4096]; ret; }")["k"];  // 4096
#ifndef SIMCUDA_DRIVER_PTX_H_
#define SIMCUDA_DRIVER_PTX_H_

#include <cstdint>
#include <string>
#include <unordered_map>

namespace simcuda {

// Whether an image begins as PTX does. May be null.
bool IsPtx(const char* image);

// `image` is read as far as it looks like PTX; that ends with a NUL. May be null.
std::unordered_map<std::string, uint64_t> LocalBytesInPtx(const void* image);

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_PTX_H_
