// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TorchFunction: a function of PyTorch behind one of ours. Another preload behind us first, then the library that has
// it, which Python loads with RTLD_LOCAL. Looked up at the first use; a constant object, no constructor.
//
// Thread-safety: any thread; the lookup is idempotent. Failure: nullptr where no library has it; remembered, since
// looking costs a microsecond. errno is kept.
//
//   constinit TorchFunction g_report{"libc10.so", "_ZN3c10..."};
//   auto report = reinterpret_cast<Report>(g_report.Find());

#ifndef GPUMEM_SHIM_HOOKS_TORCH_FUNCTION_H_
#define GPUMEM_SHIM_HOOKS_TORCH_FUNCTION_H_

#include <atomic>
#include <cstdint>

namespace gpumemshim::hooks {

class TorchFunction {
 public:
  constexpr TorchFunction(const char* library, const char* name) : library_(library), name_(name) {}

  void* Find() {
    void* known = found_.load(std::memory_order_acquire);
    return known != nullptr && known != Nowhere() ? known : Search(known);
  }

 private:
  static void* Nowhere() { return reinterpret_cast<void*>(uintptr_t{1}); }
  void* Search(const void* known);

  const char* const library_;
  const char* const name_;
  std::atomic<void*> found_{nullptr};
};

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_TORCH_FUNCTION_H_
