// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Every hook of the table, whatever it records: the program gets the real call's answer, once, with its own arguments,
// and its errno; where nothing is behind the hook, it gets what CUDA answers for a missing function.

#include <cstring>

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

constexpr int kUnknownError = 999;  // CUDA_ERROR_UNKNOWN and cudaErrorUnknown

// Zeros for whatever a pointer is expected to point to.
alignas(64) unsigned char g_zeros[4096];

// Distinct for each position, and small: counts of list elements are among them. Enumerations may have two values only.
template <typename T>
T Example(size_t position, bool with_pointers) {
  if constexpr (std::is_pointer_v<T>) {
    return with_pointers ? reinterpret_cast<T>(g_zeros + 64 * position) : nullptr;
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(position % 2);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(position + 1);
  } else {
    T value;
    std::memset(static_cast<void*>(&value), static_cast<int>(position + 1), sizeof value);
    return value;
  }
}

template <typename T>
bool IsExample(const T& value, size_t position, bool with_pointers) {
  const T expected = Example<T>(position, with_pointers);
  return std::memcmp(&value, &expected, sizeof value) == 0;
}

template <ApiId id, typename Function>
struct Sweep;

template <ApiId id, typename Result, typename... Args>
struct Sweep<id, Result (*)(Args...)> {
  using Real = Fake<id, Result (*)(Args...)>;
  static constexpr auto kPositions = std::index_sequence_for<Args...>();

  template <size_t... positions>
  static Result Call(Result (*hook)(Args...), [[maybe_unused]] bool with_pointers, std::index_sequence<positions...>) {
    return hook(Example<Args>(positions, with_pointers)...);
  }

  template <size_t... positions>
  static bool GivenAreExamples([[maybe_unused]] bool with_pointers, std::index_sequence<positions...>) {
    return (IsExample(std::get<positions>(Real::given), positions, with_pointers) && ...);
  }

  static void PassesOn(Result (*hook)(Args...), Result answer, bool with_pointers) {
    std::memset(g_zeros, 0, sizeof g_zeros);
    Real::Answer(answer);
    errno = 0;
    EXPECT_EQ(Call(hook, with_pointers, kPositions), answer);
    EXPECT_EQ(errno, kErrnoOfCall);
    EXPECT_EQ(t_depth, 0);
    EXPECT_EQ(Real::calls, 1);
    EXPECT_TRUE(GivenAreExamples(with_pointers, kPositions));
    Recorded();
  }

  static void Run(Result (*hook)(Args...)) {
    SCOPED_TRACE(ApiName(static_cast<uint16_t>(id)));
    const int missing = ApiLayer(id) == Layer::kDriver ? static_cast<int>(kMissingDriver) : int{kMissingRuntime};
    errno = kErrnoOfCall;
    EXPECT_EQ(static_cast<int>(Call(hook, true, kPositions)), missing);
    EXPECT_EQ(errno, kErrnoOfCall);
    EXPECT_EQ(Recorded(), Lines{});
    for (const bool with_pointers : {true, false}) {
      PassesOn(hook, Result{}, with_pointers);
      PassesOn(hook, static_cast<Result>(kUnknownError), with_pointers);
    }
  }
};

#define GPUMEM_TORCH_CALL(name, text)
#define GPUMEM_RUNTIME_SYMBOL(name) Sweep<ApiId::k##name, decltype(&::name)>::Run(&::name);
#define GPUMEM_DRIVER_SYMBOL(name) GPUMEM_RUNTIME_SYMBOL(name)

using PassThrough = HookTest;

TEST_F(PassThrough, WhileRecording){
#include "shim/base/api.def"
}

TEST_F(PassThrough, WhileRecordingIsOff) {
  session::g_off.store(true);
#include "shim/base/api.def"
}

TEST_F(PassThrough, WhileTheDriverAnswersNothing) {
  g_driver.result = CUDA_ERROR_DEINITIALIZED;
#include "shim/base/api.def"
}

TEST_F(PassThrough, WhileNothingCanBeRecorded) {
  ring::Pause();
  g_around.start_succeeds = false;
#include "shim/base/api.def"
  EXPECT_GT(g_around.starts_at_event, 0);
}

TEST_F(PassThrough, InsideOfAnotherHook) {
  t_depth = 1;
  using Real = fake::cudaMalloc;
  Real::Answer(cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(nullptr, 16), cudaErrorMemoryAllocation);
  EXPECT_EQ(t_depth, 1);
  EXPECT_EQ(Recorded(), Lines{});
}

#undef GPUMEM_TORCH_CALL
#undef GPUMEM_RUNTIME_SYMBOL
#undef GPUMEM_DRIVER_SYMBOL

}  // namespace
}  // namespace gpumemshim::hooks
