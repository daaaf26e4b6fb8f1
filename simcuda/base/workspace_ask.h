/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * What a stub asks the simulated driver for, through its export simcuda_workspace(): how much memory an operation
 * of a library needs. C and C++; plain values that both sides read during the call only.
 */
#ifndef SIMCUDA_BASE_WORKSPACE_ASK_H_
#define SIMCUDA_BASE_WORKSPACE_ASK_H_

#include <stdint.h>

#define SIMCUDA_NO_BOUND UINT64_MAX /* nothing public says how much it can be */
#define SIMCUDA_NOT_SET UINT64_MAX  /* no setting says how much it is */

struct simcuda_ask {
  const char* library;    /* "cuDNN" */
  const char* version;    /* "91900"; null: the version of CUDA that PyTorch was built for */
  const char* operation;  /* "convolution_forward" */
  const char* parameters; /* all that the size depends on, as one line without tabs */
  uint64_t bound;         /* the most it can be, or SIMCUDA_NO_BOUND */
  uint64_t set;           /* what a SIMCUDA_..._WS setting says it is, or SIMCUDA_NOT_SET */
};

#endif
