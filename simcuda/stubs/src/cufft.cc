// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuFFT's plans: numbers handed out in order. The work area of a plan is a measured one, or at most what cuFFT's
// documentation gives as its worst case: 8 complex elements for each element of the transforms.
// Thread-safety: all functions.
#include <stdio.h>

#include "stub.h"

namespace {

enum Result { kSuccess = 0, kInvalidValue = 4 };
constexpr uint64_t kWorstCase = 8;
constexpr int kMaxRank = 3;
int plans = 0;

int NewPlan(int* plan) {
  if (plan == nullptr) return kInvalidValue;
  *plan = __atomic_add_fetch(&plans, 1, __ATOMIC_RELAXED);
  return kSuccess;
}

int MakePlan(int rank, const long long* n, const int types[3], long long batch, size_t* size) {
  if (rank < 1 || rank > kMaxRank || n == nullptr || size == nullptr) return kInvalidValue;
  long long elements = batch;
  for (int i = 0; i < rank; ++i) elements *= n[i];
  char text[128];
  snprintf(text, sizeof(text), "n=%lld,%lld,%lld batch=%lld types=%d,%d,%d", n[0], rank > 1 ? n[1] : 0,
           rank > 2 ? n[2] : 0, batch, types[0], types[1], types[2]);
  // The type of the execution is complex, or real for transforms of reals: then its complex partner is twice as large.
  uint64_t complex_bytes = stub_type_bytes(types[2]);
  if (types[2] <= 2) complex_bytes *= 2;
  *size = stub_workspace("SIMCUDA_CUFFT_WS", "cuFFT", nullptr, "plan", text,
                         elements < 0 ? 0 : kWorstCase * static_cast<uint64_t>(elements) * complex_bytes);
  return kSuccess;
}

}  // namespace

STUB_API int cufftCreate(int* plan) { return NewPlan(plan); }
STUB_API int cufftPlan1d(int* plan, int, int, int) { return NewPlan(plan); }
STUB_API int cufftPlan2d(int* plan, int, int, int) { return NewPlan(plan); }
STUB_API int cufftPlan3d(int* plan, int, int, int, int) { return NewPlan(plan); }
STUB_API int cufftPlanMany(int* plan, int, int*, int*, int, int, int*, int, int, int, int) { return NewPlan(plan); }
STUB_API int cufftXtMakePlanMany(int, int rank, long long* n, long long*, long long, long long, int input, long long*,
                                 long long, long long, int output, long long batch, size_t* size, int execution) {
  const int types[] = {input, output, execution};
  return MakePlan(rank, n, types, batch, size);
}
