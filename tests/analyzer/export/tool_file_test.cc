// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The files of other tools letter by letter, for the numbers that their own documents show.

#include "export/tool_file.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::kMiB;
using ::testing::Not;
using testing::TraceBuilder;

constexpr uint64_t kAt = 0x7f0000000000, kStart = 5'000'000'000;
constexpr uint64_t kRealtime = 1'705'314'616'123'456'000;  // 2024-01-15 10:30:16.123456 UTC

class ToolFileTest : public ::testing::Test {
 protected:
  ToolFileTest() {
    trace_.header().set_anchor_monotonic_ns(kStart);
    trace_.header().set_anchor_realtime_ns(kRealtime);
    trace_.Device(0, "NVIDIA A100-SXM4-40GB", 40960 * kMiB);
  }

  void Mark(uint64_t time_ns, trace::EventKind kind, absl::string_view text) {
    EventRow row;
    row.time_ns = time_ns;
    row.kind = kind;
    row.text = text.empty() ? 0 : trace_.String(text);
    trace_.Event(row);
  }

  std::string Of(const std::string& format, const ExportRequest& window = {}) {
    if (path_.empty()) path_ = trace_.End().WriteTemporary();
    LoadRequest request;
    request.place = path_;
    const auto loaded = LoadTrace(request);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    std::string text;
    const absl::Status written = WriteToolFile({format, window, "logs/x.log"}, loaded->get(),
                                               [&](absl::string_view part) { absl::StrAppend(&text, part); });
    EXPECT_TRUE(written.ok()) << written;
    return text;
  }

  // 128 of 256 MiB at 1.23 s, 512 of 768 at 2 s, and 384 of 768 at the end.
  void Train() {
    Mark(kStart, trace::MARK, "训练开始");
    trace_.AtTime(kStart + 500'000'000).CudaAlloc(kAt, 256 * kMiB).TorchAlloc(kAt, 128 * kMiB);
    Mark(kStart + 1'230'000'000, trace::MARK, "模型创建");
    Mark(kStart + 1'500'000'000, trace::RANGE_PUSH, "forward");
    trace_.CudaAlloc(kAt + 1024 * kMiB, 512 * kMiB).TorchAlloc(kAt + 1024 * kMiB, 384 * kMiB);
    Mark(kStart + 1'900'000'000, trace::RANGE_POP, "");
    Mark(kStart + 2'000'000'000, trace::MARK, "前向传播 (loss=0.1234)");
    trace_.AtTime(kStart + 3'000'000'000).TorchFree(kAt, 128 * kMiB);
  }

  TraceBuilder trace_;
  std::string path_;
};

TEST_F(ToolFileTest, ProfilerTimelineIsAsItsDocumentShowsIt) {
  Train();
  EXPECT_EQ(Of("gpumemoryprofiler-timeline"),
            "==== GPU Memory Timeline =====\n"
            "初始化               | Allocated:    0.0MB | Reserved:    0.0MB\n"
            "训练开始             | Allocated:    0.0MB | Reserved:    0.0MB\n"
            "模型创建             | Allocated:  128.0MB | Reserved:  256.0MB\n"
            "forward              | Allocated:  512.0MB | Reserved:  768.0MB\n"
            "前向传播             | Allocated:  512.0MB | Reserved:  768.0MB\n"
            "峰值内存             | Allocated:  512.0MB | Reserved:  768.0MB\n");
}

TEST_F(ToolFileTest, ProfilerLogIsAsItsDocumentShowsIt) {
  Train();
  const std::string log = Of("gpumemoryprofiler-log");
  const std::string head = "2024-01-15 10:30:16 - MemoryProfiler_20240115_103016 - INFO - ";
  EXPECT_THAT(log, HasSubstr(head + std::string(80, '=') + "\n" + head + "GPU内存分析器初始化\n" + head));
  EXPECT_THAT(log, HasSubstr(head + "日志文件: logs/x.log\n" + head + "CUDA可用: True\n" + head + "GPU数量: 1\n" +
                             head + "GPU 0: NVIDIA A100-SXM4-40GB (40.0GB)\n"));
  EXPECT_THAT(log,
              HasSubstr(head + "事件: 训练开始 | 分配:    0.0MB | 保留:    0.0MB | 最大分配:    0.0MB | 最大保留:   "
                               " 0.0MB | 耗时: 0.00s\n"));
  EXPECT_THAT(log, HasSubstr("2024-01-15 10:30:17 - MemoryProfiler_20240115_103016 - INFO - 事件: 模型创建 | 分配:  "
                             "128.0MB | 保留:  256.0MB | 最大分配:  128.0MB | 最大保留:  256.0MB | 耗时: 1.23s\n"));
  EXPECT_THAT(log, HasSubstr("| 耗时: 2.00s | 额外信息: loss=0.1234\n"));
}

TEST_F(ToolFileTest, WhatIsNotKnownIsNoNumber) {
  trace_.definitions().clear_devices();
  trace_.CudaAlloc(kAt, 256 * kMiB).TorchAlloc(kAt, 128 * kMiB);
  EXPECT_THAT(Of("gpumemoryprofiler-log"), HasSubstr("GPU 0: 未知 (未知)\n"));
  EXPECT_THAT(Of("memorydebugger-log"), HasSubstr("[INFO]   GPU 0: 128.0MB / 未知 (未知)\n"));
  EXPECT_THAT(Of("tinytorch-status"), HasSubstr("\"total\": null,\n        \"utilization_percent\": null"));
}

TEST_F(ToolFileTest, ProfilerJsonIsByEventName) {
  Train();
  Mark(kStart + 4'000'000'000, trace::MARK, "模型创建");
  EXPECT_THAT(Of("gpumemoryprofiler-json"), HasSubstr(R"(  "模型创建": [
    {
      "time": 1.23,
      "allocated": 128.0,
      "reserved": 256.0,
      "max_allocated": 128.0,
      "max_reserved": 256.0,
      "timestamp": "2024-01-15T10:30:17.353456"
    },
    {
      "time": 4.0,
      "allocated": 384.0,
      "reserved": 768.0,
      "max_allocated": 512.0,
      "max_reserved": 768.0,
      "timestamp": "2024-01-15T10:30:20.123456"
    }
  ],
)"));
}

TEST_F(ToolFileTest, AWindowBeginsWithWhatWasAlive) {
  Train();
  const ExportRequest window{.device = -1, .layer = LayerFilter::kAll, .from_ns = 2'500'000'000, .to_ns = UINT64_MAX};
  EXPECT_EQ(Of("gpumemoryprofiler-timeline", window),
            "==== GPU Memory Timeline =====\n"
            "初始化               | Allocated:  512.0MB | Reserved:  768.0MB\n"
            "峰值内存             | Allocated:  512.0MB | Reserved:  768.0MB\n");
}

TEST_F(ToolFileTest, DebuggerComparesAStageWithItsBeginning) {
  Train();
  const std::string log = Of("memorydebugger-log");
  EXPECT_THAT(log, HasSubstr("[INFO] 获取内存快照: forward_after\n[INFO]   GPU 0: 512.0MB / 40960.0MB (1.2%)\n"
                             "[INFO] 比较内存快照: forward_before vs forward_after\n"
                             "[INFO]   GPU 0: 内存变化 +384.0MB, 利用率变化 +0.9%\n"));
  EXPECT_THAT(log, HasSubstr("[WARNING] GPU 0 内存使用超过阈值: 128.0MB > 100.0MB\n"));
  EXPECT_EQ(log.find("超过阈值"), log.rfind("超过阈值"));  // once
  EXPECT_THAT(Of("memorydebugger-comparison"), HasSubstr(R"(    "from": "forward_before",
    "to": "forward_after",
    "gpu_changes": [
      {
        "gpu_id": 0,
        "memory_change_mb": 384.0,
        "utilization_change": 0.9375
      }
    ]
)"));
  EXPECT_THAT(Of("memorydebugger-snapshots"), HasSubstr(R"(    "name": "forward_after",
    "timestamp": "2024-01-15T10:30:18.023456",
    "gpu_summary": [
      {
        "gpu_id": 0,
        "allocated_mb": 512.0,
        "utilization_percent": 1.25,
        "free_mb": 40448.0
      }
    ]
)"));
  EXPECT_THAT(Of("memorydebugger-report"), HasSubstr("当前内存状态:\n  GPU 0: 384.0MB / 40960.0MB (0.9%)\n"));
}

TEST_F(ToolFileTest, TinyTorchAveragesOverTime) {
  trace_.AtTime(kStart).CudaAlloc(kAt, 4096 * kMiB);
  trace_.AtTime(kStart + 1'000'000'000).CudaAlloc(kAt + 8192 * kMiB, 16384 * kMiB);
  trace_.AtTime(kStart + 4'000'000'000).CudaFree(kAt + 8192 * kMiB);
  // 10 % for a second, 50 % for three, 10 % at the end.
  EXPECT_EQ(Of("tinytorch-status"), R"({
  "timestamp": "2024-01-15T10:30:20.123456",
  "devices": {
    "0": {
      "current_usage": {
        "allocated": 4294967296,
        "free": 38654705664,
        "total": 42949672960,
        "utilization_percent": 10.0
      },
      "statistics": {
        "avg_utilization": 40.0,
        "max_utilization": 50.0,
        "samples_count": 3
      }
    }
  },
  "summary": {
    "total_devices": 1,
    "total_memory_gb": 40.0,
    "overall_utilization": 10.0
  }
}
)");
  const std::string log = Of("tinytorch-log");
  EXPECT_THAT(log,
              HasSubstr("[INFO] 监控摘要:\n   设备数: 1\n   总显存: 40.00 GB\n   已使用: 4.00 GB\n   利用率: 10.0%\n"));
  EXPECT_THAT(log, Not(HasSubstr("OOM")));
}

TEST_F(ToolFileTest, TinyTorchWarnsWhereNearlyAllWasUsed) {
  trace_.CudaAlloc(kAt, 39936 * kMiB);
  EXPECT_THAT(Of("tinytorch-log"),
              HasSubstr("[WARNING] OOM警告: GPU 0\n   风险等级: critical\n   当前使用率: 97.5%\n   建议: "
                        "立即释放缓存: tiny_torch.cuda.empty_cache()\n   建议: 减少batch size\n"));
}

}  // namespace
}  // namespace gpumem
