// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The table of functions that we wrap: by name (for dlsym) and by our own address. Built at compile time from
// base/api.def, so a lookup touches constant data only and costs a few nanoseconds for foreign names.
//
// Thread-safety: constant data. Failure: ApiId::kNone.
//
//   ApiId id = FindOwnSymbol("cuMemAlloc_v2");   // "cublasCreate_v2", "curl_easy_init" -> kNone at the third letter
//   void* wrapper = OwnAddress(id);

#ifndef GPUMEM_SHIM_BASE_CALLS_OWN_SYMBOLS_H_
#define GPUMEM_SHIM_BASE_CALLS_OWN_SYMBOLS_H_

#include "shim/base/api.h"

namespace gpumemshim::calls {

ApiId FindOwnSymbol(const char* name);

// nullptr for ids that are not exported functions.
void* OwnAddress(ApiId id);

// True where the name can be one of CUDA's: "cu" or "cuda" and then a capital. cublas*, cudnn*, curl_* are not.
constexpr bool LooksLikeCuda(const char* name) {
  if (name[0] != 'c' || name[1] != 'u') return false;
  const char* rest = name + 2;
  if (rest[0] == 'd' && rest[1] == 'a') rest += 2;
  return rest[0] >= 'A' && rest[0] <= 'Z';
}

}  // namespace gpumemshim::calls

#endif  // GPUMEM_SHIM_BASE_CALLS_OWN_SYMBOLS_H_
