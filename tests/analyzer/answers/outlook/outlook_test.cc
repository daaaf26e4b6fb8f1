// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/outlook/outlook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ledger/load/attribute.h"
#include "ledger/load/leaks.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using testing::Call;
using testing::Code;
using ::testing::HasSubstr;
using testing::TrainingTrace;

constexpr uint64_t kMiB = 1 << 20, kAt = 0x7f0000000000;

// Steps of 10 ms that each keep `kept` bytes, and a MiB of `beside`, on a GPU of 1 GiB.
std::string Training(int steps, uint64_t kept, uint64_t capacity = uint64_t{1} << 30,
                     trace::Memory beside = trace::MULTICAST) {
  TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  if (capacity != 0) builder.Device(0, "GPU", capacity);
  const uint32_t model = trace.Root("Net"), layer = trace.Module(model, "mlp", "MLP"),
                 optimizer = trace.Optimizer("SGD");
  const uint64_t forward = trace.Stack(
      {Code("MLP.forward", "/job/model.py", 7), Call(layer), Call(model), Code("<module>", "/job/train.py", 9)});
  const uint64_t cached = trace.Stack({Code("remember", "/job/serve.py", 88), Code("<module>", "/job/train.py", 9)});
  builder.CudaAlloc(kAt, 900 * kMiB, forward);
  for (int step = 0; step < steps; ++step) {
    builder.TorchAlloc(kAt, 50 * kMiB, forward).TorchFree(kAt, 50 * kMiB);
    if (kept != 0) builder.TorchAlloc(kAt + (64 + static_cast<uint64_t>(step) * 8) * kMiB, kept, cached);
    if (beside != trace::MULTICAST) {
      EventRow row;
      row.kind = trace::ALLOC;
      row.layer = trace::RUNTIME;
      row.memory = beside;
      row.device = 0;
      row.address = kAt + (4096 + static_cast<uint64_t>(step) * 8) * kMiB;
      row.size = kMiB;
      row.stack = cached;
      builder.Event(row);
    }
    builder.AtTime(builder.time_ns() + 10'000'000);
    trace.StepBegins(optimizer).StepEnds(optimizer);
  }
  builder.End();
  return builder.WriteTemporary();
}

Outlook Of(const std::string& path) {
  LoadRequest request;
  request.place = path;
  const auto loaded = LoadTrace(request);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  AttributionRequest steps;
  steps.steps = true;
  const auto attribution = AttributeLoaded(steps, "", loaded->get());
  const auto leaks = LoadLeaks("", loaded->get());
  EXPECT_TRUE(attribution.ok() && leaks.ok());
  return OutlookOf((*loaded)->input);
}

TEST(Outlook, NamesTheLineTheRateAndTheTime) {
  // 8 MiB a step: 50 MiB and 95 * 8 MiB of 1,024 MiB.
  const Outlook outlook = Of(Training(95, 8 * kMiB));
  EXPECT_EQ(outlook.forecast.kind, ForecastKind::kReaches);
  EXPECT_NEAR(outlook.forecast.likely, 27, 3);
  EXPECT_THAT(outlook.sentence, HasSubstr("at this rate out of memory in "));
  EXPECT_THAT(outlook.sentence, HasSubstr("), 90 % sure, because job/serve.py:88"));
  EXPECT_THAT(outlook.sentence, HasSubstr("serve.py:88"));
  EXPECT_THAT(outlook.sentence, HasSubstr("keeps 8 MiB more each step"));
}

TEST(Outlook, SaysNothingOfSteadySteps) {
  const Outlook outlook = Of(Training(60, 0));
  EXPECT_EQ(outlook.forecast.kind, ForecastKind::kSteady);
  EXPECT_EQ(outlook.risk, RiskLevel::kLow);
  EXPECT_EQ(outlook.cause, "");
}

// 900 MiB are PyTorch's, and 95 MiB more are taken already.
TEST(Outlook, CountsOtherCudaMemoryWhereItGrows) {
  const Outlook outlook = Of(Training(95, 0, uint64_t{1} << 30, trace::DEVICE));
  EXPECT_TRUE(outlook.counts_beside);
  EXPECT_EQ(outlook.forecast.kind, ForecastKind::kReaches);
  EXPECT_NEAR(outlook.forecast.per_step, static_cast<double>(kMiB), 0.01 * kMiB);
  EXPECT_THAT(outlook.sentence, HasSubstr("keeps 1 MiB more each step"));
}

TEST(Outlook, OfTooFewStepsNothingIsKnown) {
  EXPECT_THAT(Of(Training(5, 8 * kMiB)).sentence, HasSubstr("5 training steps, and 12 are needed"));
}

TEST(Outlook, WithoutTheSizeOfTheGpuNothingIsKnown) {
  EXPECT_THAT(Of(Training(80, 8 * kMiB, 0)).sentence, HasSubstr("does not say how much memory the GPU has"));
}

}  // namespace
}  // namespace gpumem
