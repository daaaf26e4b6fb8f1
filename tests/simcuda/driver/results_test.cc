// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the few kernels compute whose one number decides what a program does next.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/simcuda/driver/driver_fixture.h"
#include "tests/simcuda/driver/kernel_names.h"

extern "C" void simcuda_found(uint64_t count);

namespace simcuda {
namespace {

CUresult Launch(const std::string& name, void** arguments) {
  static CUmodule module = nullptr;
  if (module == nullptr) {
    EXPECT_EQ(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
  }
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module, name.c_str()), CUDA_SUCCESS);
  return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
}

CUdeviceptr Allocate(size_t bytes = 512) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, bytes), CUDA_SUCCESS);
  return address;
}

template <typename T>
void Put(CUdeviceptr address, T value) {
  EXPECT_EQ(cuMemcpyHtoD(address, &value, sizeof value), CUDA_SUCCESS);
}

template <typename T>
T Get(CUdeviceptr address) {
  T value{};
  EXPECT_EQ(cuMemcpyDtoH(&value, address, sizeof value), CUDA_SUCCESS);
  return value;
}

void InChild(const char* share, const std::function<void()>& body) {
  SCOPED_TRACE(share);
  EXPECT_EQ(RunInChild({{"SIMCUDA_DATA_DEPENDENT", share}},
                       [&] {
                         UsePrimaryContext();
                         body();
                       }),
            0);
}

// What stands behind `kernel` where it says how many it found, of so many.
template <typename Found, typename Count>
Found FoundBy(const char* kernel, size_t output_index, size_t count_index, Count count) {
  const CUdeviceptr output = Allocate();
  Put<uint64_t>(output, 0x7777777777777777);
  Put<uint64_t>(output + 8, 0x7777777777777777);
  Put<uint64_t>(output + 16, 0x7777777777777777);
  CUdeviceptr target = output, other = Allocate();
  void* arguments[12];
  for (void*& argument : arguments) argument = &other;
  arguments[output_index] = &target;
  arguments[count_index] = &count;
  EXPECT_EQ(Launch(kernel, arguments), CUDA_SUCCESS);
  EXPECT_EQ(Get<uint8_t>(output + sizeof(Found)), 0x77) << "beyond the number";
  return Get<Found>(output);
}

TEST(ResultsTest, CountsArePartOfAllByThePolicy) {
  const std::pair<const char*, uint64_t> shares[] = {
      {"zero", 0}, {"upper", 1001}, {"0.25", 251}, {"1", 1001}, {"0", 0}};
  for (const auto& [share, expected] : shares) {
    InChild(share, [&, expected = expected] {
      EXPECT_EQ(FoundBy<uint32_t>(kernels::kCountBool, 1, 2, uint64_t{1001}), expected);
      EXPECT_EQ(FoundBy<uint32_t>(kernels::kOldCountBool, 1, 2, 1001), expected);
      // Of any elements one is different from those before it.
      const uint64_t different = std::max<uint64_t>(expected, 1);
      EXPECT_EQ(FoundBy<uint64_t>(kernels::kUnique, 3, 7, 1001), different);
      EXPECT_EQ(FoundBy<uint64_t>(kernels::kRunLengths, 4, 9, 1001), different);
      EXPECT_EQ(FoundBy<uint32_t>(kernels::kOldUnique, 3, 7, 1001), different);
      EXPECT_EQ(FoundBy<uint64_t>(kernels::kUnique, 3, 7, 0), 0u);
    });
  }
}

// What somebody computed is found, whatever the policy; and it is known.
TEST(ResultsTest, ACountThatIsKnownIsFound) {
  InChild("upper", [] {
    simcuda_found(7);
    EXPECT_EQ(FoundBy<uint32_t>(kernels::kCountBool, 1, 2, uint64_t{1001}), 7u);
    EXPECT_EQ(FoundBy<uint64_t>(kernels::kUnique, 3, 7, 1001), 7u);
    EXPECT_EQ(FoundBy<uint64_t>(kernels::kUnique, 3, 7, 5), 5u);  // no more than there are
    simcuda_found(UINT64_MAX);
    EXPECT_EQ(FoundBy<uint32_t>(kernels::kCountBool, 1, 2, uint64_t{1001}), 1001u);
  });
}

TEST(ResultsTest, ACountByBlocksIsWrittenByTheSumBehindIt) {
  InChild("0.5", [] {
    EXPECT_EQ(FoundBy<uint32_t>(kernels::kCountBoolPart, 1, 2, uint64_t{1} << 20), 0x77777777u);
    EXPECT_EQ(FoundBy<uint32_t>(kernels::kSum, 1, 2, 160), 1u << 19);
    // A sum of something else.
    EXPECT_EQ(FoundBy<uint32_t>(kernels::kSum, 1, 2, 160), 0x77777777u);
  });
}

TEST(ResultsTest, AValueThatIsLookedForIsFoundAtTheFirstPlace) {
  struct Found {
    uint8_t is_found;
    int64_t position;
    bool operator==(const Found&) const = default;
  };
  const Found first{1, 0}, nothing{0x77, 0x7777777777777777};
  InChild("zero", [&] {
    EXPECT_EQ(FoundBy<Found>(kernels::kFind, 1, 2, uint64_t{1001}), first);
    // Of a condition that may find nothing, as of thrust::equal.
    EXPECT_EQ(FoundBy<Found>(kernels::kFindFirst, 1, 2, 160), nothing);
    EXPECT_EQ(FoundBy<Found>(kernels::kFindPart, 1, 2, uint64_t{1} << 20), nothing);
    EXPECT_EQ(FoundBy<Found>(kernels::kFindFirst, 1, 2, 160), first);
    EXPECT_EQ(FoundBy<Found>(kernels::kFindFirst, 1, 2, 160), nothing);
  });
}

TEST(ResultsTest, OtherKernelsComputeNothing) {
  InChild("upper", [] {
    EXPECT_EQ(FoundBy<uint32_t>(kernels::kSelectFlagged, 3, 7, 1001), 0x77777777u);
    for (const char* kernel : {kernels::kSumOfFloats, kernels::kSum, "_Z3fooPi", "DeviceReduceKernel",
                               "_ZN3cub18DeviceReduceKernelIiEEv", "", "_ZN21compare_scalar_kernelIfEE"})
      EXPECT_EQ(FoundBy<uint32_t>(kernel, 1, 2, uint64_t{1001}), 0x77777777u) << kernel;
  });
}

TEST(ResultsTest, ArgumentsThatAreNotThereAreHarmless) {
  InChild("upper", [] {
    for (const char* kernel : {kernels::kCountBool, kernels::kCountBoolPart, kernels::kSum, kernels::kUnique})
      EXPECT_EQ(Launch(kernel, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(Launch(kernels::CompareScalar("f"), nullptr), CUDA_SUCCESS);
    uint64_t none = 0, host = 7, count = 9;
    for (uint64_t output : {none, reinterpret_cast<uint64_t>(&host)}) {
      void* arguments[] = {&none, &output, &count};
      EXPECT_EQ(Launch(kernels::kCountBool, arguments), CUDA_SUCCESS);
    }
    EXPECT_EQ(host, 7u);
  });
}

// A launch that is captured did not happen.
TEST(ResultsTest, ACapturedCountIsNotWritten) {
  InChild("upper", [] {
    CUstream stream = nullptr;
    ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    ASSERT_EQ(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&function, module, kernels::kCountBool), CUDA_SUCCESS);
    CUdeviceptr output = Allocate();
    uint64_t count = 5;
    void* arguments[] = {&output, &output, &count, &count, &count, &count};
    ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(Get<uint32_t>(output), 0u);
  });
}

enum Order { kGreaterOrEqual, kGreater, kLessOrEqual, kLess };
enum Equality { kEqual, kNotEqual };

// What `kernel` writes for `elements` elements that begin with `element`: 0, 1, or 9 where it writes nothing.
template <typename T, typename Scalar>
int Compared(const std::string& kernel, int operation, T element, Scalar scalar, int elements = 1) {
  const CUdeviceptr output = Allocate(), input = Allocate();
  Put<uint8_t>(output, 9);
  Put(input, element);
  struct {
    int operation;
    Scalar scalar;
  } functor{operation, scalar};
  std::array<CUdeviceptr, 2> pointers = {output, input};
  void* arguments[] = {&elements, &functor, &pointers};
  EXPECT_EQ(Launch(kernel, arguments), CUDA_SUCCESS);
  EXPECT_EQ(Get<uint8_t>(output + 1), 0);
  return Get<uint8_t>(output);
}

// `low` < `high`, as their bits.
template <typename T>
void CheckType(const std::string& type, T low, T high) {
  SCOPED_TRACE(type);
  const std::string order = kernels::CompareScalar(type), equality = kernels::CompareEqual(type);
  EXPECT_EQ(Compared(order, kGreaterOrEqual, low, high), 0);
  EXPECT_EQ(Compared(order, kGreaterOrEqual, high, high), 1);
  EXPECT_EQ(Compared(order, kGreater, high, high), 0);
  EXPECT_EQ(Compared(order, kGreater, high, low), 1);
  EXPECT_EQ(Compared(order, kLessOrEqual, high, low), 0);
  EXPECT_EQ(Compared(order, kLessOrEqual, low, low), 1);
  EXPECT_EQ(Compared(order, kLess, low, low), 0);
  EXPECT_EQ(Compared(order, kLess, low, high), 1);
  EXPECT_EQ(Compared(equality, kEqual, low, low), 1);
  EXPECT_EQ(Compared(equality, kEqual, low, high), 0);
  EXPECT_EQ(Compared(equality, kNotEqual, high, high), 0);
  EXPECT_EQ(Compared(equality, kNotEqual, high, low), 1);
}

TEST(ResultsTest, OneElementIsComparedWhateverItsType) {
  InChild("zero", [] {
    CheckType<int8_t>("a", -3, 100);
    CheckType<uint8_t>("h", 3, 200);
    CheckType<uint8_t>("b", 0, 1);
    CheckType<int16_t>("s", -300, 300);
    CheckType<int32_t>("i", -70'000, 70'000);
    CheckType<int64_t>("l", -(int64_t{1} << 40), int64_t{1} << 40);
    CheckType<float>("f", -1.5f, 0.25f);
    CheckType<double>("d", -1e300, 1e-300);
    // -1.5 and 0.25; -65504 and the least number; two denormal ones; -infinity and infinity.
    CheckType<uint16_t>("N3c104HalfE", 0xbe00, 0x3400);
    CheckType<uint16_t>("N3c104HalfE", 0xfbff, 0x0001);
    CheckType<uint16_t>("N3c104HalfE", 0x0001, 0x0400);
    CheckType<uint16_t>("N3c104HalfE", 0xfc00, 0x7c00);
    CheckType<uint16_t>("N3c108BFloat16E", 0xbfc0, 0x3e80);
  });
}

TEST(ResultsTest, TwoTensorsOfOneElementAreCompared) {
  InChild("zero", [] {
    const auto compared = [](const char* kernel, int operation, int64_t a, int64_t b, int elements) {
      const CUdeviceptr output = Allocate(), input = Allocate(), other = Allocate();
      Put<uint8_t>(output, 9);
      Put(input, a);
      Put(other, b);
      std::array<CUdeviceptr, 3> pointers = {output, input, other};
      char more = 0;  // calculators of offsets, loaders: without members
      void* arguments[] = {&elements, &operation, &pointers, &more, &more, &more, &more};
      EXPECT_EQ(Launch(kernel, arguments), CUDA_SUCCESS);
      return static_cast<int>(Get<uint8_t>(output));
    };
    EXPECT_EQ(compared(kernels::kCompareTwo, kGreater, 7, 5, 1), 1);
    EXPECT_EQ(compared(kernels::kCompareTwo, kGreater, 5, 7, 1), 0);
    EXPECT_EQ(compared(kernels::kCompareTwo, kLessOrEqual, 5, 7, 1), 1);
    EXPECT_EQ(compared(kernels::kCompareTwoUnaligned, kGreater, 7, 5, 1), 1);
    EXPECT_EQ(compared(kernels::kEqualTwo, kEqual, 7, 7, 1), 1);
    EXPECT_EQ(compared(kernels::kEqualTwo, kNotEqual, 7, 7, 1), 0);
    EXPECT_EQ(compared(kernels::kCompareTwo, kGreater, 7, 5, 2), 9);
  });
}

// Where the functor computes in floats, its number is one.
TEST(ResultsTest, TheNumberHasTheFunctorsType) {
  InChild("zero", [] {
    std::string name = kernels::CompareEqual("N3c104HalfE");
    const std::string functor = "CompareEqFunctorIS4_E";
    name.replace(name.find(functor), functor.size(), "CompareEqFunctorIfE");
    EXPECT_EQ(Compared<uint16_t>(name, kEqual, 0x3400, 0.25f), 1);
    EXPECT_EQ(Compared<uint16_t>(name, kEqual, 0x3400, 0.5f), 0);
    EXPECT_EQ(Compared<uint16_t>(name, kEqual, 0x0001, 0x1p-24f), 1);
    EXPECT_EQ(Compared<uint16_t>(name, kEqual, 0xfbff, -65504.0f), 1);
  });
}

// Large whole numbers, of which a double has not all.
TEST(ResultsTest, LongNumbersAreComparedToTheLastDigit) {
  InChild("zero", [] {
    constexpr int64_t kLarge = (int64_t{1} << 60) + 1;
    EXPECT_EQ(Compared<int64_t>(kernels::CompareEqual("l"), kEqual, kLarge, kLarge - 1), 0);
    EXPECT_EQ(Compared<int64_t>(kernels::CompareScalar("l"), kGreater, kLarge, kLarge - 1), 1);
  });
}

TEST(ResultsTest, NotANumberIsNothingButUnequal) {
  InChild("zero", [] {
    for (const int order : {kGreaterOrEqual, kGreater, kLessOrEqual, kLess})
      EXPECT_EQ(Compared(kernels::CompareScalar("f"), order, NAN, 1.0f), 0);
    EXPECT_EQ(Compared(kernels::CompareEqual("f"), kEqual, NAN, NAN), 0);
    EXPECT_EQ(Compared(kernels::CompareEqual("f"), kNotEqual, NAN, NAN), 1);
    constexpr uint16_t kHalf = 0x7e00;
    EXPECT_EQ(Compared(kernels::CompareEqual("N3c104HalfE"), kNotEqual, kHalf, kHalf), 1);
  });
}

TEST(ResultsTest, SeveralElementsAndOtherArgumentsAreLeftAlone) {
  InChild("upper", [] {
    for (const int elements : {0, 2, 1000, -1})
      EXPECT_EQ(Compared(kernels::CompareScalar("f"), kLess, 0.0f, 1.0f, elements), 9);
    EXPECT_EQ(Compared(kernels::kCompareWithCast, kLess, 0.0f, 1.0f), 9);
    EXPECT_EQ(Compared(kernels::CompareScalar("y"), kLess, uint64_t{0}, uint64_t{1}), 9);
    EXPECT_EQ(Compared(kernels::CompareScalar("N3c107complexIfEE"), kLess, 0.0f, 1.0f), 9);
    // An input that is not a device memory.
    int elements = 1;
    const struct {
      int operation;
      float scalar;
    } functor{kLess, 1};
    const CUdeviceptr output = Allocate();
    std::array<CUdeviceptr, 2> pointers = {output, 0};
    void* arguments[] = {&elements, const_cast<void*>(static_cast<const void*>(&functor)), &pointers};
    EXPECT_EQ(Launch(kernels::CompareScalar("f"), arguments), CUDA_SUCCESS);
    EXPECT_EQ(Get<uint8_t>(output), 0);
  });
}

TEST(ResultsTest, AllIsTrueAndAndByElementIsNot) {
  InChild("zero", [] {
    const CUdeviceptr truth = Allocate();
    void* arguments[] = {nullptr};
    EXPECT_EQ(Launch(kernels::kAll, arguments), CUDA_SUCCESS);
    EXPECT_EQ(Get<uint8_t>(truth), 1);
    EXPECT_EQ(Launch(kernels::kLogicalAnd, arguments), CUDA_SUCCESS);
    EXPECT_EQ(Get<uint8_t>(truth), 0);
  });
}

}  // namespace
}  // namespace simcuda
