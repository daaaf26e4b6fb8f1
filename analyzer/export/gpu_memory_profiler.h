// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The files of GPUMemoryProfiler (memoryCheck.py): its JSON by event name, its log and its console timeline, with its
// keys, layout and Chinese texts. Events are the program's marks and the ends of its stages; of a program without any,
// the ends of training steps, under the name that it has for them. One GPU, as in its files. Pure functions.
//
//   WriteProfilerJson(events, sink);   // {"模型创建": [{"time": 1.23, "allocated": 128.0, ...}]}

#ifndef GPUMEM_ANALYZER_EXPORT_GPU_MEMORY_PROFILER_H_
#define GPUMEM_ANALYZER_EXPORT_GPU_MEMORY_PROFILER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/text_sink.h"
#include "export/moment_log.h"

namespace gpumem {

struct ProfilerEvent {
  std::string name, info;
  uint64_t since_ns = 0;
  MeasureValues now, highest;
};

// What its record() was called with: "初始化" first, "内存不足错误" for failed requests, "峰值内存" last.
struct GpuMemoryProfilerEvents {
  std::vector<ProfilerEvent> events;
  uint64_t start_realtime_ns = 0;  // 0 = not known
  struct Gpu {
    int device = 0;
    std::string name;
    uint64_t capacity = 0;
  };
  std::vector<Gpu> gpus;
};

// Of the GPU `device`; -1: of the one with the largest peak.
GpuMemoryProfilerEvents ProfilerEventsOf(const MomentLog& log, const LoadedTrace& loaded, int device);

void WriteProfilerJson(const GpuMemoryProfilerEvents& events, const TextSink& sink);
// `file`: what its line about the log file names.
void WriteProfilerLog(const GpuMemoryProfilerEvents& events, const std::string& file, const TextSink& sink);
// The last record of each name, as print_report() has it.
void WriteProfilerTimeline(const GpuMemoryProfilerEvents& events, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_GPU_MEMORY_PROFILER_H_
