// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the files of NCCL's stub share: a communicator, results, and device memory as the host sees it.
#ifndef SIMCUDA_STUBS_NCCL_COMM_H_
#define SIMCUDA_STUBS_NCCL_COMM_H_

#include <stddef.h>

#include "nccl_rendezvous.h"
#include "stub.h"

namespace nccl {

// NCCL's types and reductions, on the host. 16-bit and 8-bit floating point is carried, not computed with: such numbers
// decide nothing.

// Of ncclDataType_t; 0 for an unknown one.
size_t SizeOf(int type);

// `sum` becomes ncclRedOp_t `op` of itself and `other`; an average is a sum until Average. An operation of the user's
// counts as a sum.
void Reduce(void* sum, const void* other, size_t count, int type, int op);
void Average(void* sum, size_t count, int type, int op, int ranks);

enum Result { kSuccess = 0, kUnhandledCudaError = 1, kSystemError = 2, kInvalidArgument = 4 };

struct Comm {
  int ranks;
  int rank;
  int device;
  uint64_t buffer;         // SIMCUDA_NCCL_MEM
  Rendezvous* rendezvous;  // null: alone from the start
  uint32_t parts;          // that were split off so far
  char name[kNameBytes];
};

// Whether contents of so many bytes are kept and this is not a capture, whose nodes move nothing.
bool HasContents(const Comm* comm, size_t bytes, void* stream);

// The bytes at a device address, into zeroed memory; false where they are all zeros.
bool Peek(void* target, const void* source, size_t bytes);
// Null writes zeros. A Result.
int Put(void* target, const void* bytes, size_t size, void* stream);

inline void* Shifted(void* pointer, size_t bytes) { return static_cast<char*>(pointer) + bytes; }
inline const void* Shifted(const void* pointer, size_t bytes) { return static_cast<const char*>(pointer) + bytes; }

}  // namespace nccl

#endif  // SIMCUDA_STUBS_NCCL_COMM_H_
