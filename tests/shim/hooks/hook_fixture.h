// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The hooks in this very process, with everything around them replaced: the functions of CUDA behind them (Fake), the
// driver that they ask (g_driver), the session, the stack and the writer (g_around). The ring is the real one and is
// read back, as text:
//
//   fake::cuMemAlloc_v2::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, size_t) { *out = 0x7000; });
//   EXPECT_EQ(Keep([&] { return cuMemAlloc_v2(&address, 512); }), CUDA_SUCCESS);   // and errno is as the call left it
//   EXPECT_EQ(Recorded(), Lines{"Alloc Device cuMemAlloc_v2 device=3 address=0x7000 size=512"});
//
// Thread-safety: none. The driver's answers set errno too, so a hook that does not keep it is found.

#ifndef GPUMEM_TESTS_SHIM_HOOKS_HOOK_FIXTURE_H_
#define GPUMEM_TESTS_SHIM_HOOKS_HOOK_FIXTURE_H_

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/record.h"
#include "shim/ring/reader.h"
#include "shim/ring/ring.h"
#include "shim/stack/capture.h"

namespace gpumemshim::hooks {

using namespace calls;  // NOLINT: the tests are of both

using Lines = std::vector<std::string>;

inline constexpr int kErrnoOfCall = 33;    // as real calls leave it
inline constexpr int kErrnoOfDriver = 99;  // as the driver's answers to our questions leave it
inline constexpr uint64_t kStack = 0x57ac;

// What the driver answers where the hooks ask it.
struct FakeDriver {
  CUresult result = CUDA_SUCCESS;  // of every question
  int device = 3;
  int device_of_address = 5;
  CUcontext context = nullptr;
  uint64_t free_bytes = 1000;
  uint64_t total_bytes = 4000;
  uint64_t size_of_address = 4096;
  uint64_t pool_used = 11;
  uint64_t pool_reserved = 22;
  uint64_t graph_reserved = 0;
  int local_of_function = 0, local_of_kernel = 0;  // bytes a thread
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstreamCaptureStatus capture_per_thread = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool primary_is_active = false;
  std::map<std::string, void*> functions;  // of cuGetProcAddress_v2
  int questions = 0;
};
extern FakeDriver g_driver;

// What the hooks find around themselves.
struct Around {
  bool start_succeeds = true;  // of StartAtEvent
  bool is_first_event = false;
  int starts_at_init = 0;
  int starts_at_event = 0;
  int flushes = 0;
  int asked_helper = 0;
  int captures = 0;
  std::map<std::string, void*> next_in_scope;  // by name
  std::map<ApiId, void*> resolvable;           // what ResolveRealFunction finds
  std::map<std::string, void*> libraries;      // "library:function" for FindAndPin
  std::map<const void*, void*> wrappers;       // of WrapperOfDriverFunction
  std::map<const void*, void*> substitutes;    // of WrapperOfSubstitute, by what the driver has
};
extern Around g_around;

// "Alloc Device cuMemAlloc_v2 device=3 ..." with every field that is not 0, but time and duration; device where there
// is one, "no stack" where there is none.
std::string Describe(const Event& event);

// What was recorded since the last call.
std::vector<Event> TakeEvents();
Lines Recorded();

template <ApiId id, typename Function>
class Fake;

// The function behind one hook. Counts, keeps what it was given, and obeys.
template <ApiId id, typename Result, typename... Args>
class Fake<id, Result (*)(Args...)> {
 public:
  using Effect = std::function<void(Args...)>;

  static void Answer(Result result, Effect effect = nullptr) {
    result_ = result;
    effect_ = std::move(effect);
    calls = 0;
    before.clear();
    g_real_functions[static_cast<uint16_t>(id)].store(reinterpret_cast<void*>(&Call));
  }

  static inline int calls = 0;
  static inline std::tuple<Args...> given;
  static inline Lines before;  // what the hook had recorded when it made the call

 private:
  static Result Call(Args... args) {
    ++calls;
    given = {args...};
    before = Recorded();
    if (effect_) effect_(args...);
    errno = kErrnoOfCall;
    return result_;
  }

  static inline Result result_;
  static inline Effect effect_;
};

// One for each hook, by the name of its function.
namespace fake {
#define GPUMEM_TORCH_CALL(name, text)
#define GPUMEM_RUNTIME_SYMBOL(name) using name = Fake<ApiId::k##name, decltype(&::name)>;
#define GPUMEM_DRIVER_SYMBOL(name) GPUMEM_RUNTIME_SYMBOL(name)
#include "shim/base/api.def"
#undef GPUMEM_TORCH_CALL
#undef GPUMEM_RUNTIME_SYMBOL
#undef GPUMEM_DRIVER_SYMBOL
}  // namespace fake

// Makes the call and sees that the caller's errno is that of the real call.
template <typename Call>
auto Keep(Call call) {
  errno = 0;
  const auto result = call();
  EXPECT_EQ(errno, kErrnoOfCall);
  EXPECT_EQ(t_depth, 0);
  return result;
}

class HookTest : public testing::Test {
 protected:
  HookTest();
  ~HookTest() override;
};

// Handles are opaque to the hooks.
template <typename Handle>
Handle MakeHandle(uint64_t number) {
  return reinterpret_cast<Handle>(number);
}

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_TESTS_SHIM_HOOKS_HOOK_FIXTURE_H_
