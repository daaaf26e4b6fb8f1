// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The driver's entry: cuInit, where we set up, and cuGetProcAddress, through which the runtime and everything linked
// with a static runtime (NCCL, cuBLAS, cuDNN) fetch the rest. The real resolver answers; what it found is exchanged
// for our wrapper where it is a function that we wrap. So versions and stream flags stay the driver's business.

#include "shim/base/calls/own_symbols.h"
#include "shim/control/session.h"
#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

// Identity can only be seen once the addresses are known. Repeated by every thread that comes early; they agree.
void LookUpDriverOnce() {
  static std::atomic<bool> done;
  if (done.load(std::memory_order_acquire)) return;
  for (uint16_t i = 1; i < kApiCount; ++i) {
    const auto id = static_cast<ApiId>(i);
    if (ApiLayer(id) == Layer::kDriver) calls::RealFunction(id);
  }
  done.store(true, std::memory_order_release);
}

// What the driver itself has for a name; nullptr where it cannot be asked.
void* AskDriver(const char* symbol, int version, cuuint64_t flags) {
  const auto resolve = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(calls::DriverFunction("cuGetProcAddress_v2"));
  void* found = nullptr;
  if (resolve == nullptr || resolve(symbol, &found, version, flags, nullptr) != CUDA_SUCCESS) return nullptr;
  return found;
}

void ExchangeForWrapper(const char* symbol, void** function, int version, cuuint64_t flags) {
  if (function == nullptr || *function == nullptr) return;
  const ErrnoSaver saver;
  LookUpDriverOnce();
  void* wrapper = calls::WrapperOfDriverFunction(*function);
  if (wrapper == nullptr && calls::FindOwnSymbol(symbol) != ApiId::kNone) {
    // Another interposer may have answered.
    wrapper = calls::WrapperOfSubstitute(*function, AskDriver(symbol, version, flags));
  }
  if (wrapper != nullptr) *function = wrapper;
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuInit(unsigned int flags) {
  const auto real = GPUMEM_REAL(cuInit);
  if (real == nullptr) return kMissingDriver;
  const CUresult result = real(flags);
  if (result == CUDA_SUCCESS) {
    const ErrnoSaver saver;
    session::StartAtInit();
  }
  return result;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  const auto real = GPUMEM_REAL(cuGetProcAddress);
  if (real == nullptr) return kMissingDriver;
  const CUresult result = real(symbol, function, version, flags);
  if (result == CUDA_SUCCESS) ExchangeForWrapper(symbol, function, version, flags);
  return result;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const auto real = GPUMEM_REAL(cuGetProcAddress_v2);
  if (real == nullptr) return kMissingDriver;
  const CUresult result = real(symbol, function, version, flags, status);
  if (result == CUDA_SUCCESS) ExchangeForWrapper(symbol, function, version, flags);
  return result;
}

}  // extern "C"
