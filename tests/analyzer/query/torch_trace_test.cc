// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The queries on memory in Probing's documentation run as they are there, and what they say is right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asked.h"
#include "training.h"

namespace gpumem {
namespace {

using testing::Asked;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TorchTraceTest, TrendByStep) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::WriteTraining(-1)});
  const std::string rows = asked.Csv(R"(SELECT
  step,
  avg(allocated) as avg_memory_mb,
  max(allocated) as peak_memory_mb,
  min(allocated) as min_memory_mb
FROM python.torch_trace
WHERE step IS NOT NULL
GROUP BY step
ORDER BY step;)");
  EXPECT_THAT(rows, StartsWith("step,avg_memory_mb,peak_memory_mb,min_memory_mb\n1,"));
  // 4 of the weight, 8 + 4 + 2 of the step, half a MiB more at each.
  EXPECT_THAT(rows, HasSubstr(",18.5,"));
  EXPECT_THAT(rows, HasSubstr(",19.0,"));
  EXPECT_THAT(rows, HasSubstr(",19.5,"));
}

TEST(TorchTraceTest, GrowthInAStep) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::WriteTraining(-1)});
  EXPECT_THAT(asked.Csv(R"(SELECT
  step,
  max(allocated) - min(allocated) as memory_growth_mb
FROM python.torch_trace
WHERE step > (SELECT max(step) - 10 FROM python.torch_trace)
GROUP BY step
HAVING max(allocated) - min(allocated) > 50
ORDER BY step;)"),
              "step,memory_growth_mb\n");
}

TEST(TorchTraceTest, ByModule) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::WriteTraining(-1)});
  const std::string rows = asked.Csv(R"(SELECT
  module,
  stage,
  avg(allocated) as avg_memory,
  count(*) as execution_count
FROM python.torch_trace
WHERE module IS NOT NULL
GROUP BY module, stage
ORDER BY avg_memory DESC
LIMIT 10;)");
  EXPECT_THAT(rows, HasSubstr("mlp,forward,"));
  EXPECT_THAT(rows, HasSubstr("mlp,backward,"));
  EXPECT_THAT(rows, HasSubstr(",6\n"));
}

TEST(TorchTraceTest, GrowthFromStepToStep) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::WriteTraining(-1)});
  EXPECT_EQ(asked.Csv(R"(WITH memory_trend AS (
  SELECT
    step,
    max(allocated) as peak_memory,
    LAG(max(allocated)) OVER (ORDER BY step) as prev_peak
  FROM python.torch_trace
  GROUP BY step
)
SELECT step, peak_memory, prev_peak,
       peak_memory - prev_peak as growth
FROM memory_trend
WHERE peak_memory > prev_peak
ORDER BY step;)"),
            "step,peak_memory,prev_peak,growth\n2,19.0,18.5,0.5\n3,19.5,19.0,0.5\n");
}

TEST(TorchTraceTest, AQueryThatBeginsWithAComment) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::WriteTraining(-1)});
  const std::string rows = asked.Csv(R"(-- what swings most
SELECT
  module,
  stage,
  stddev(allocated) as memory_variance,
  max(allocated) - min(allocated) as memory_range
FROM python.torch_trace
GROUP BY module, stage
HAVING stddev(allocated) > 10
ORDER BY memory_variance DESC;)");
  EXPECT_EQ(rows, "module,stage,memory_variance,memory_range\n");
  EXPECT_THAT(asked.Csv("SELECT module, stage, stddev(allocated) FROM python.torch_trace GROUP BY ALL"),
              HasSubstr("mlp,forward,"));
}

TEST(TorchTraceTest, HasTheColumnsThatUsersKnow) {
  GPUMEM_NEEDS_DUCKDB();
  Asked asked({testing::WriteTraining(3)});
  EXPECT_TRUE(asked
                  .StatusOf("SELECT local_step, global_step, rank, world_size, role, seq, module, stage, duration, "
                            "time_offset, allocated, allocated_delta, max_allocated, cached, max_cached, step "
                            "FROM python.torch_trace")
                  .ok());
  EXPECT_EQ(asked.One("SELECT DISTINCT rank FROM python.torch_trace"), "3");
}

}  // namespace
}  // namespace gpumem
