// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Names and descriptions of CUresult values.
#include "simcuda/base/error_text.h"
#include "simcuda/base/note.h"
#include "simcuda/driver/driver.h"
#include "simcuda/driver/generated_tables.h"

using namespace simcuda;  // NOLINT: C functions only

extern "C" {

CUresult cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = ResultName(error);
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = ErrorText(error);
  if (*text == nullptr) *text = ResultName(error);
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuProfilerStart();
CUresult cuProfilerStop();
CUresult cuProfilerStart() { return CheckContext(); }
CUresult cuProfilerStop() { return CheckContext(); }

}  // extern "C"
