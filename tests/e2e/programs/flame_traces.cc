// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Writes the traces that flame_test.py and html_test.py look at: `flame_traces small FILE`, `flame_traces many FILE
// STACKS`, `flame_traces long FILE BLOCKS`, `flame_traces training FILE`.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "testing/trace_builder.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

constexpr uint64_t kMiB = 1 << 20, kSegment = 0x7f0000000000;

testing::TraceBuilder Started(const char* program) {
  testing::TraceBuilder trace;
  trace.header().set_program(program);
  trace.header().set_working_directory("/job");
  trace.header().set_pid(4242);
  trace.header().set_hostname("host");
  return trace;
}

// 16 MiB at the peak: forward 8 (of it 2 by a hostile name), remember 4, a second thread 4. 2 MiB on the second GPU. 4
// MiB are never freed; one allocation of 1 MiB is freed at once, twice.
void WriteSmall(const std::string& path) {
  testing::TraceBuilder trace = Started("train</title><b>bold</b>");
  trace.Device(0, "SimCUDA Test", 64 * kMiB).Device(1, "Second <GPU>", 64 * kMiB).Version("torch", "2.11.0");
  const uint32_t main_thread = trace.Thread(4242, "python"), loader = trace.Thread(4243, "loader\"'><i>");
  const std::string torch = "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py";
  const testing::PythonFrame main = {"main", "/job/train.py", 9}, step = {"step", "/job/train.py", 20};
  const uint64_t forward =
      trace.PythonStack({{"Linear.forward", torch, 134}, {"Block.forward", "/job/model.py", 42}, step, main});
  const uint64_t hostile =
      trace.PythonStack({{"</script><script>document.title='owned'</script><!-- \x1b[31m \xe2\x80\xae \" ' &",
                          "/job/<img src=x onerror=\"document.title='owned'\">.py", 7},
                         {"Block.forward", "/job/model.py", 42},
                         step,
                         main});
  const uint64_t remember = trace.PythonStack({{"remember", "/job/train.py", 7}, main});
  const uint64_t load = trace.PythonStack({{"load", "/job/data.py", 3},
                                           {"_find_and_load", "<frozen importlib._bootstrap>", 1176},
                                           {"worker", "/job/data.py", 30}});
  const uint64_t scratch = trace.PythonStack({{"scratch", "/job/train.py", 50}, step, main});
  trace.OnThread(main_thread).CudaAlloc(kSegment, 64 * kMiB, forward).CudaAlloc(2 * kSegment, 8 * kMiB, forward, 1);
  trace.TorchAlloc(kSegment, 4 * kMiB, remember);
  for (int i = 0; i < 2; ++i)
    trace.TorchAlloc(kSegment + 40 * kMiB, kMiB, scratch).TorchFree(kSegment + 40 * kMiB, kMiB);
  trace.TorchAlloc(kSegment + 8 * kMiB, 4 * kMiB, forward).TorchAlloc(kSegment + 12 * kMiB, 2 * kMiB, forward);
  trace.TorchAlloc(kSegment + 16 * kMiB, 2 * kMiB, hostile).TorchAlloc(2 * kSegment, 2 * kMiB, forward, 1);
  trace.OnThread(loader).TorchAlloc(kSegment + 20 * kMiB, 4 * kMiB, load).TorchFree(kSegment + 20 * kMiB, 4 * kMiB);
  trace.OnThread(main_thread).TorchFree(kSegment + 8 * kMiB, 4 * kMiB).TorchFree(kSegment + 12 * kMiB, 2 * kMiB);
  trace.TorchFree(kSegment + 16 * kMiB, 2 * kMiB).TorchFree(2 * kSegment, 2 * kMiB, 1).End().Write(path);
}

// Distinct stacks of 10 to 40 frames that share most of them, sizes as programs have them: few large, many small.
void WriteMany(const std::string& path, uint64_t stacks) {
  testing::TraceBuilder trace = Started("many");
  trace.Device(0, "Test GPU", uint64_t{1} << 40);
  const uint32_t thread = trace.Thread(4242, "python");
  trace.OnThread(thread).CudaAlloc(kSegment, uint64_t{1} << 40);
  uint64_t random = 1, address = kSegment;
  const auto next = [&] { return random = random * 6364136223846793005 + 1442695040888963407, random >> 33; };
  std::vector<testing::PythonFrame> outermost_first;
  for (uint64_t i = 0; i < stacks; ++i) {
    const size_t shared = std::min<size_t>(outermost_first.size(), 8 + next() % 30);
    outermost_first.resize(shared);
    const size_t depth = i == 0 ? 10 : shared + 1 + next() % 2;
    while (outermost_first.size() < depth) {
      const uint64_t which = next() % 20'000;
      const bool torch = which % 3 == 0;
      outermost_first.push_back(
          {"function_" + std::to_string(which),
           (torch ? "/v/lib/python3.11/site-packages/torch/part_" : "/job/part_") + std::to_string(which % 97) + ".py",
           static_cast<uint32_t>(which % 900 + 1)});
    }
    const uint64_t size = 512 * (1 + (next() % 1000 == 0 ? next() % 100'000 : next() % 64));
    trace.TorchAlloc(address, size, trace.PythonStack({outermost_first.rbegin(), outermost_first.rend()}));
    if (next() % 4 == 0) trace.TorchFree(address, size);
    address += size;
  }
  trace.End().Write(path);
}

// Eight steps of 60 MiB of activations that each keep 2 MiB, on a GPU of 1 GiB.
void WriteTraining(const std::string& path) {
  testing::TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  builder.header().set_program("train");
  builder.Device(0, "GPU", 1024 * kMiB);
  const uint32_t model = trace.Root("Net"), layer = trace.Module(model, "mlp", "MLP"), sgd = trace.Optimizer("SGD");
  const uint64_t forward = trace.Stack({testing::Code("MLP.forward", "/job/model.py", 7), testing::Call(layer),
                                        testing::Call(model), testing::Code("<module>", "/job/train.py", 9)});
  const uint64_t kept =
      trace.Stack({testing::Code("remember", "/job/cache.py", 88), testing::Code("<module>", "/job/train.py", 9)});
  builder.CudaAlloc(kSegment, 900 * kMiB, forward);
  for (uint64_t step = 0; step < 8; ++step) {
    for (uint64_t i = 0; i < 3; ++i) builder.TorchAlloc(kSegment + i * 20 * kMiB, 20 * kMiB, forward);
    trace.Saved(kSegment);
    for (uint64_t i = 0; i < 3; ++i) builder.TorchFree(kSegment + i * 20 * kMiB, 20 * kMiB);
    builder.TorchAlloc(kSegment + (100 + step * 4) * kMiB, 2 * kMiB, kept);
    builder.AtTime(builder.time_ns() + 10'000'000);
    trace.StepBegins(sgd).StepEnds(sgd);
  }
  builder.End().Write(path);
}

// `blocks` blocks of seven lines, each freed four later: more changes than a page has rows for.
void WriteLong(const std::string& path, uint64_t blocks) {
  testing::TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  builder.header().set_program("long");
  builder.Device(0, "GPU", 1024 * kMiB);
  std::vector<uint64_t> stacks;
  for (uint32_t line = 1; line <= 7; ++line)
    stacks.push_back(trace.Stack({testing::Code("work", "/job/work.py", line)}));
  builder.CudaAlloc(kSegment, 900 * kMiB, stacks[0]);
  const auto size = [](uint64_t i) { return 512 * (1 + i % 11); };
  const auto address = [](uint64_t i) { return kSegment + i % 8 * kMiB; };
  for (uint64_t i = 0; i < blocks; ++i) {
    builder.TorchAlloc(address(i), size(i), stacks[i % stacks.size()]);
    if (i >= 4) builder.TorchFree(address(i - 4), size(i - 4));
  }
  builder.End().Write(path);
}

}  // namespace
}  // namespace gpumem

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "small") == 0) {
    gpumem::WriteSmall(argv[2]);
  } else if (argc == 4 && strcmp(argv[1], "many") == 0) {
    gpumem::WriteMany(argv[2], strtoull(argv[3], nullptr, 10));
  } else if (argc == 4 && strcmp(argv[1], "long") == 0) {
    gpumem::WriteLong(argv[2], strtoull(argv[3], nullptr, 10));
  } else if (argc == 3 && strcmp(argv[1], "training") == 0) {
    gpumem::WriteTraining(argv[2]);
  } else {
    fprintf(stderr, "usage: flame_traces small FILE | many FILE STACKS | long FILE BLOCKS | training FILE\n");
    return 2;
  }
  return 0;
}
