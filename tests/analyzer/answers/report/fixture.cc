// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "fixture.h"

#include <cmath>

#include "answers/report/sections.h"
#include "render/draw.h"
#include "testing/sizes.h"

namespace gpumem::testing {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kOrigin = 5000 * kSecond;
constexpr const char* kTorch = "/home/me/.venv/lib/python3.11/site-packages/torch/";

std::string Torch(const char* file) { return std::string(kTorch) + file; }

void AddStacks(FakeStacks* stacks) {
  const ResolvedFrame main = Python("main", "/home/me/job/train.py", 130),
                      module = Python("<module>", "/home/me/job/train.py", 150);
  const ResolvedFrame call = Python("Module._call_impl", Torch("nn/modules/module.py"), 1790);
  const ResolvedFrame malloc = Native("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**)",
                                      Torch("lib/libc10_cuda.so"));
  const ResolvedFrame eval = Native("_PyEval_EvalFrameDefault", "/usr/bin/python3.11");
  stacks->stacks[kForward] = {malloc,
                              Native("at::_ops::empty_strided::call(long)", Torch("lib/libtorch_cpu.so")),
                              Native("at::_ops::linear::call(at::Tensor const&)", Torch("lib/libtorch_cpu.so")),
                              Python("Linear.forward", Torch("nn/modules/linear.py"), 134),
                              call,
                              Python("Block.forward", "/home/me/job/model.py", 42),
                              call,
                              Python("GPT.forward", "/home/me/job/model.py", 88),
                              main,
                              module,
                              eval};
  stacks->stacks[kForwardOfEval] = {malloc,
                                    Python("Linear.forward", Torch("nn/modules/linear.py"), 134),
                                    call,
                                    Python("Block.forward", "/home/me/job/model.py", 42),
                                    Python("evaluate", "/home/me/job/train.py", 101),
                                    module};
  stacks->stacks[kOptimizer] = {
      malloc,
      Python("AdamW._init_group", Torch("optim/adamw.py"), 155),
      Python("AdamW.step", Torch("optim/adamw.py"), 220),
      Python("Optimizer.profile_hook_step.<locals>.wrapper", Torch("optim/optimizer.py"), 485),
      main,
      module};
  stacks->stacks[kBackward] = {
      malloc,
      Native("torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)",
             Torch("lib/libtorch_cpu.so")),
      Native("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)",
             Torch("lib/libtorch_cpu.so"))};
  stacks->stacks[kNccl] = {
      Native("ncclCommInitRankConfig", "/home/me/.venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"),
      Python("init_process_group", Torch("distributed/distributed_c10d.py"), 1714),
      Python("setup", "/home/me/job/dist\x1b[31m.py", 9), module};
}

StackUse Use(uint64_t stack, uint8_t layer, uint64_t bytes, uint64_t count, uint64_t oldest_s, uint64_t newest_s,
             const char* api = "") {
  StackUse use;
  use.stack_id = stack;
  use.layer = layer;
  use.bytes = bytes;
  use.count = count;
  use.oldest_ns = kOrigin + oldest_s * kSecond;
  use.newest_ns = kOrigin + newest_s * kSecond;
  use.api = api;
  return use;
}

LiveSet Set(Measure measure, uint64_t second, std::vector<StackUse> stacks, const MeasureValues& values) {
  LiveSet set;
  set.measure = measure;
  set.time_ns = kOrigin + second * kSecond;
  set.values = values;
  set.stacks = std::move(stacks);
  for (const StackUse& use : set.stacks) {
    set.bytes += use.bytes;
    set.block_count += use.count;
  }
  return set;
}

FragmentationPoint Point(uint64_t second, uint64_t reserved, uint64_t allocated, uint64_t largest, uint64_t ranges) {
  FragmentationPoint point;
  point.time_ns = kOrigin + second * kSecond;
  point.reserved = reserved;
  point.allocated = allocated;
  point.free = reserved - allocated;
  point.largest_free_range = largest;
  point.free_ranges = ranges;
  point.rounding = 12 * kMiB;
  point.requested_known = true;
  point.external_ratio = point.free == 0 ? 0 : 1 - static_cast<double>(largest) / static_cast<double>(point.free);
  return point;
}

PinningBlock Pin(uint64_t returnable) {
  PinningBlock pin;
  pin.segment_address = 0x7f0000000000;
  pin.segment_bytes = 1100 * kMiB;
  pin.segment_free = 1098 * kMiB;
  pin.block_address = 0x7f0000100000;
  pin.block_bytes = 2 * kMiB;
  pin.blocks_in_segment = returnable > 0 ? 1 : 7;
  pin.returnable = returnable;
  pin.stack_id = kOptimizer;
  pin.allocated_ns = kOrigin + 2 * kSecond;
  return pin;
}

void AddTimeline(DeviceAnalysis* device) {
  for (int i = 0; i < 120; ++i) {
    TimelinePoint point;
    point.time_ns = kOrigin + static_cast<uint64_t>(i) * kSecond / 10;
    point.max.allocated =
        static_cast<uint64_t>((20 + 15 * std::sin(i / 4.0)) * static_cast<double>(kGiB) * (i < 10 ? i / 10.0 : 1));
    point.max.reserved = (i < 10 ? 4 : i < 40 ? 30 : 40) * kGiB;
    point.max.other = i < 5 ? 0 : 2 * kGiB;
    point.max.total = point.max.reserved + point.max.other;
    device->timeline.push_back(point);
  }
}

DeviceAnalysis Device() {
  DeviceAnalysis device;
  device.name = "NVIDIA H100 80GB HBM3";
  device.capacity = 80 * kGiB;
  const MeasureValues at_peak{36 * kGiB, 40 * kGiB, 2 * kGiB, 42 * kGiB};
  device.peak_allocated = {36 * kGiB, kOrigin + 9 * kSecond, 1000};
  device.peak_reserved = {40 * kGiB, kOrigin + 4 * kSecond, 400};
  device.peak_other = {2 * kGiB, kOrigin + kSecond / 2, 50};
  device.peak_total = {42 * kGiB, kOrigin + 4 * kSecond, 400};
  device.end = {3 * kGiB, 40 * kGiB, 2 * kGiB, 42 * kGiB};
  AddTimeline(&device);
  const std::vector<StackUse> live = {
      Use(kForward, 3, 20 * kGiB + 5 * kMiB, 1210, 8, 9), Use(kOptimizer, 3, 10 * kGiB, 296, 2, 2),
      Use(kBackward, 3, 4 * kGiB - 5 * kMiB, 33, 9, 9), Use(kForwardOfEval, 3, 2 * kGiB, 12, 5, 6)};
  device.at_peak_allocated = Set(Measure::kAllocated, 9, live, at_peak);
  device.at_peak_reserved =
      Set(Measure::kReserved, 4,
          {Use(kForward, 2, 30 * kGiB, 210, 1, 4, "cudaMalloc"), Use(kOptimizer, 2, 10 * kGiB, 40, 2, 2, "cudaMalloc")},
          at_peak);
  device.at_peak_total = Set(
      Measure::kTotal, 4,
      {Use(kForward, 2, 40 * kGiB, 250, 1, 4, "cudaMalloc"), Use(kNccl, 1, 2 * kGiB, 8, 0, 0, "cuMemCreate")}, at_peak);
  device.plateaus = {device.at_peak_allocated,
                     Set(Measure::kAllocated, 6, {Use(kForwardOfEval, 3, 30 * kGiB, 100, 5, 6)}, at_peak)};
  device.fragmentation.at_peak = Point(4, 40 * kGiB, 30 * kGiB, 512 * kMiB, 1200);
  device.fragmentation.at_end = Point(12, 40 * kGiB, 3 * kGiB, 8 * kGiB, 40);
  device.fragmentation.over_time = {Point(1, 4 * kGiB, 3 * kGiB, kGiB, 1), device.fragmentation.at_peak,
                                    device.fragmentation.at_end};
  device.fragmentation.pools = {{"large", device.fragmentation.at_peak, device.fragmentation.at_end}};
  device.fragmentation.pins_at_peak = {Pin(1100 * kMiB), Pin(0)};
  device.fragmentation.pins_at_end = {Pin(1100 * kMiB)};
  device.fragmentation.groups_at_peak = {{{kOptimizer}, 41, 82 * kMiB, 40, 44000 * kMiB, kOrigin}};
  device.fragmentation.groups_at_end = {{{kOptimizer}, 1, 2 * kMiB, 1, 1100 * kMiB, kOrigin}};
  device.leaks.at_end_torch = Set(Measure::kAllocated, 12, {Use(kOptimizer, 3, 3 * kGiB, 296, 2, 2)}, device.end);
  device.leaks.at_end_cuda = Set(Measure::kOther, 12, {Use(kNccl, 1, 2 * kGiB, 8, 0, 0, "cuMemCreate")}, device.end);
  device.leaks.growth_from_ns = kOrigin + 3 * kSecond;
  device.leaks.growth_to_ns = kOrigin + 12 * kSecond;
  device.leaks.growth = {Use(kForwardOfEval, 3, 320 * kMiB, 40, 3, 12)};
  device.leaks.unknown_frees = 1;
  return device;
}

}  // namespace

ResolvedFrame Python(const std::string& function, const std::string& file, uint32_t line) {
  ResolvedFrame frame;
  frame.function = frame.short_function = function;
  frame.file = file;
  frame.line = line;
  frame.python = true;
  return frame;
}

ResolvedFrame Native(const std::string& function, const std::string& module, const std::string& file, uint32_t line) {
  ResolvedFrame frame;
  frame.function = function;
  frame.short_function = function.substr(0, function.find('('));
  frame.module = module;
  frame.file = file;
  frame.line = line;
  return frame;
}

Example SampledExample() {
  Example example = TrainingExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  DeviceReading reading;
  reading.time_ns = kOrigin + 9 * kSecond;
  reading.took_ns = 2'000'000;
  reading.cause = 2;
  reading.own_process = OwnProcessMatch::kByPid;
  reading.total = 81 * kGiB;
  reading.driver_reserved = kGiB;
  reading.own = 50 * kGiB;
  reading.used = 53 * kGiB;
  reading.free = 27 * kGiB;
  reading.other_count = 1;
  reading.others = {{777, "ollama\x1b[31m", 3 * kGiB}};
  MemoryBreakdown peak;
  peak.any = peak.has_reading = peak.same_state = true;
  peak.time_ns = kOrigin + 9 * kSecond;
  peak.values = {36 * kGiB, 46 * kGiB, 2 * kGiB, 48 * kGiB};
  peak.driver.contexts = 512 * kMiB;
  peak.driver.context_count = 1;
  peak.driver.modules = 256 * kMiB;
  peak.driver.module_count = 12;
  peak.other = {Use(kNccl, 1, 2 * kGiB, 8, 1, 2, "cuMemCreate")};
  peak.reading = reading;
  peak.process = 50 * kGiB;
  peak.unexplained = static_cast<int64_t>(peak.process) - static_cast<int64_t>(peak.Explained());
  MemoryBreakdown end = peak;
  end.time_ns = kOrigin + 12 * kSecond;
  end.same_state = false;
  end.values = {5 * kGiB, 46 * kGiB, 2 * kGiB, 48 * kGiB};
  device.breakdown_at_peak = peak;
  device.breakdown_at_end = end;
  device.use = {12,        53 * kGiB,       reading.time_ns,
                50 * kGiB, reading.time_ns, {{777, "ollama", kOrigin, kOrigin + 12 * kSecond, 3 * kGiB, 2 * kGiB}},
                {reading}};
  SamplingInfo& sampling = example.analysis.sampling;
  sampling.samples = 12;
  sampling.source = "NVML 13.580.65";
  sampling.crossed = {{kOrigin + 8 * kSecond, 0, 60, 0, 53 * kGiB, 81 * kGiB, 50 * kGiB},
                      {kOrigin + 8 * kSecond, 0, 0, 50 * kGiB, 53 * kGiB, 81 * kGiB, kNotStated}};
  return example;
}

Example TrainingExample() {
  Example example;
  AddStacks(&example.stacks);
  Analysis& analysis = example.analysis;
  analysis.path = "gpumemshim.train.4242.gmtrace";
  analysis.file_bytes = 1'234'567;
  ProcessInfo& process = analysis.process;
  process.program = "train";
  process.executable = "/usr/bin/python3.11";
  process.hostname = "host7";
  process.working_directory = "/home/me/job";
  process.writer_version = "0.1.0";
  process.command_line = {"python", "train.py", "--token", "***"};
  process.pid = 4242;
  process.parent_pid = 4200;
  process.rank = 3;
  process.world_size = 8;
  process.versions = {{"python", "3.11.7"}, {"torch", "2.11.0"}};
  process.settings = {{"GPUMEMSHIM_QUIET", "1"}};
  process.environment = {{"CUDA_VISIBLE_DEVICES", "0"}};
  process.anchor_monotonic_ns = kOrigin - kSecond;
  process.anchor_realtime_ns = 1'773'500'965 * kSecond;
  analysis.complete = true;
  analysis.origin_ns = kOrigin;
  analysis.end_ns = kOrigin + 12 * kSecond;
  analysis.events.torch = 17'900;
  analysis.events.runtime = 88;
  analysis.events.driver = 12;
  analysis.events.by_kind = {{"alloc", 9000}, {"free", 9000}};
  analysis.notes = {"Pools are inferred from the size of their segments: PyTorch's reports carry none."};
  analysis.devices = {Device()};
  analysis.host_pinned_peak = 64 * kMiB;
  analysis.host_pinned_end = kMiB;
  return example;
}

Example OomExample() {
  Example example = SampledExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  OomEvent oom;
  oom.time_ns = kOrigin + 11 * kSecond;
  oom.layer = 3;
  oom.requested = 2560 * kMiB;
  oom.stack_id = kForward;
  oom.values = {74 * kGiB, 77 * kGiB, 2 * kGiB, 79 * kGiB};
  oom.device_total = 80 * kGiB;
  oom.retries = 1;
  oom.fragmentation = Point(11, 77 * kGiB, 74 * kGiB, 512 * kMiB, 1200);
  oom.started_ns = oom.time_ns - 4'000'000;
  oom.ended_ns = oom.time_ns;
  oom.cuda_requested = oom.requested;
  oom.released = 256 * kMiB;
  oom.released_calls = 2;
  oom.steps = {{OomStep::Kind::kFailed, oom.started_ns, oom.requested, 1, "cudaMalloc"},
               {OomStep::Kind::kReleased, oom.started_ns + 1'000'000, 256 * kMiB, 2, "cudaFree"},
               {OomStep::Kind::kFailed, oom.started_ns + 3'000'000, oom.requested, 1, "cudaMalloc"}};
  oom.described = true;
  oom.would_have_fit = 712 * kMiB;
  oom.fit_in_one_piece = 4 * kGiB;
  oom.fit_expandable = 3 * kGiB;
  oom.pins = device.fragmentation.pins_at_peak;
  oom.pin_groups = device.fragmentation.groups_at_end;
  oom.live = device.at_peak_allocated;
  example.analysis.ooms = {oom};
  ServedRetries retries;
  retries.count = retries.failed_calls = 40;
  retries.released = 12 * kGiB;
  retries.released_calls = 90;
  retries.time_ns = 2 * kSecond;
  retries.first_ns = kOrigin + kSecond;
  retries.last_ns = kOrigin + 10 * kSecond;
  retries.stacks = {Use(kForward, 2, 100 * kGiB, 40, 1, 10, "cudaMalloc")};
  example.analysis.retries = {retries};
  example.analysis.complete = false;
  return example;
}

void AddLeak(Example* example, uint64_t bytes) {
  example->has_leaks = true;
  LeakRow row;
  row.status = LeakStatus::kGrowing;
  row.place.site = "model.py:42 Block.forward";
  row.stack = kForward;
  row.stacks = {kForward};
  row.grown_bytes = bytes;
  row.bytes_per_iteration = static_cast<double>(bytes) / 40;
  row.since_iteration = 1;
  LeakLoop loop;
  loop.are_steps = true;
  loop.iterations = 40;
  example->leaks.loops = {loop};
  example->leaks.devices = {{example->analysis.devices[0].device, {row}, 0}};
}

std::string ReportJson(const ReportInput& input) { return ToJson(ReportAnswer(input, {}, false, 0)); }

}  // namespace gpumem::testing
