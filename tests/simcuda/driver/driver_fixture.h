// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Tests of the driver API: the primary context in one call.
#ifndef TESTS_SIMCUDA_DRIVER_DRIVER_FIXTURE_H_
#define TESTS_SIMCUDA_DRIVER_DRIVER_FIXTURE_H_

#include <cuda.h>
#include <gtest/gtest.h>

#include "tests/simcuda/driver/run_in_child.h"

namespace simcuda {

inline void UsePrimaryContext(int device = 0) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

}  // namespace simcuda

#endif  // TESTS_SIMCUDA_DRIVER_DRIVER_FIXTURE_H_
