// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Tensors keep their names where they go.

#include <gtest/gtest.h>

#include "attribute_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::AttributeTrace;
using testing::Code;
using testing::kMiB;
using testing::kSegment;
using testing::Peak;
using testing::TrainingTrace;

// `weight.data = other`: the name goes along, by the object, which stays.
TEST(TensorsTest, AParameterThatGetsOtherDataKeepsItsName) {
  constexpr uint64_t kObject = 0x5500;
  TrainingTrace trace;
  const uint32_t model = trace.Root("Net");
  const uint32_t weight = trace.Parameter(model, "weight", kMiB);
  trace::Tensor* const defined = trace.builder().definitions().add_tensors();
  defined->set_id(weight);
  defined->set_implementation(kObject);
  defined->set_dtype("float32");
  const auto moves_to = [&](uint64_t address) {
    EventRow row;
    row.kind = trace::TENSOR_DATA;
    row.device = -1;
    row.handle = kObject;
    row.address = address;
    trace.builder().Event(row);
  };
  const uint64_t stack = trace.Stack({Code("load", "/job/a.py")}), other = trace.Stack({Code("swap", "/job/a.py")});
  trace.builder().CudaAlloc(kSegment, 64 * kMiB).TorchAlloc(kSegment, 4 * kMiB, stack);
  trace.Place(weight, kSegment, 4 * kMiB);
  moves_to(0);
  trace.builder().TorchFree(kSegment, 4 * kMiB).TorchAlloc(kSegment + 8 * kMiB, 4 * kMiB, other);
  moves_to(kSegment + 8 * kMiB);
  trace.builder().TorchAlloc(kSegment + 16 * kMiB, kMiB, other).TorchFree(kSegment + 16 * kMiB, kMiB).End();
  AttributionRequest request;
  request.moments = {Peak()};
  const Attribution got = AttributeTrace(trace, request);
  EXPECT_EQ(got.moments.at(0).categories[Index(Category::kParameter)], 4 * kMiB);
  EXPECT_EQ(got.moments.at(0).by_evidence[Index(Category::kParameter)][Index(Evidence::kAddress)], 4 * kMiB);
}

// cudaMallocAsync, a pluggable allocator: tensors lie in memory that PyTorch's caching allocator never saw.
TEST(TensorsTest, TensorsOutsideOfPyTorchsAllocatorKeepTheirNames) {
  TrainingTrace trace;
  const uint32_t model = trace.Root("Net");
  const uint32_t weight = trace.Parameter(model, "weight", kMiB);
  const uint32_t state = trace.Tensor(trace::OPTIMIZER_STATE, "exp_avg", weight);
  const uint64_t stack = trace.Stack({Code("load", "/job/a.py")});
  trace.builder().CudaAlloc(kSegment, 4 * kMiB, stack).CudaAlloc(kSegment + 8 * kMiB, 4 * kMiB, stack);
  trace.Place(weight, kSegment, 4 * kMiB);
  trace.Place(state, kSegment + 8 * kMiB, 4 * kMiB);
  trace.builder().CudaAlloc(kSegment + 16 * kMiB, 2 * kMiB, stack).End();
  AttributionRequest request;
  request.moments = {{MomentQuery::Kind::kEvent, 4, ""}};
  const Attribution got = AttributeTrace(trace, request);
  EXPECT_EQ(got.moments.at(0).categories[Index(Category::kParameter)], 4 * kMiB);
  EXPECT_EQ(got.moments.at(0).categories[Index(Category::kOptimizerState)], 4 * kMiB);
  EXPECT_EQ(got.moments.at(0).categories[Index(Category::kLibrary)], 2 * kMiB);
}

}  // namespace
}  // namespace gpumem
