// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Errors.
#include "simcuda/base/error_text.h"
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = LastError();
  ClearLastError();
  return error;
}

cudaError_t cudaPeekAtLastError() { return LastError(); }

const char* cudaGetErrorName(cudaError_t error) {
  const char* const name = ErrorName(error);
  return name != nullptr ? name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const char* const text = ErrorText(error);
  return text != nullptr ? text : cudaGetErrorName(error);
}

}  // extern "C"
