// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NCCL's types and reductions, on the host. 16-bit and 8-bit floating point is carried, not computed with: such numbers
// decide nothing.
#ifndef SIMCUDA_STUBS_NCCL_VALUES_H_
#define SIMCUDA_STUBS_NCCL_VALUES_H_

#include <stddef.h>

namespace nccl {

// Of ncclDataType_t; 0 for an unknown one.
size_t SizeOf(int type);

// `sum` becomes ncclRedOp_t `op` of itself and `other`; an average is a sum until Average. An operation of the user's
// counts as a sum.
void Reduce(void* sum, const void* other, size_t count, int type, int op);
void Average(void* sum, size_t count, int type, int op, int ranks);

}  // namespace nccl

#endif  // SIMCUDA_STUBS_NCCL_VALUES_H_
