// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A hand-made training for the tests of SQL: parameters, three steps with an activation, a gradient and a temporary
// each, a leak, memory of another library, and teardown behind the end of the program's own code.
//
//   Asked asked({WriteTraining(0)});

#ifndef GPUMEM_TESTS_ANALYZER_QUERY_TRAINING_H_
#define GPUMEM_TESTS_ANALYZER_QUERY_TRAINING_H_

#include <string>

#include "replay/mark_log.h"
#include "testing/training_trace.h"

namespace gpumem::testing {

inline std::string WriteTraining(int rank, int steps = 3, bool ends = true) {
  constexpr uint64_t kMiB = 1 << 20, kAt = 0x7f0000000000;
  TrainingTrace trace;
  TraceBuilder& builder = trace.builder();
  builder.header().set_rank(rank);
  builder.header().set_world_size(2);
  builder.Device(0, "GPU", uint64_t{80} << 30);
  const uint32_t model = trace.Root("Net"), layer = trace.Module(model, "mlp", "MLP");
  const uint32_t weight = trace.Parameter(model, "mlp.weight", kMiB), optimizer = trace.Optimizer("SGD");
  const uint32_t gradient = trace.Tensor(trace::GRADIENT, "mlp.weight", weight, model);
  const uint64_t made = trace.Stack({Code("MLP.__init__", "/job/model.py", 3), Code("<module>", "/job/train.py", 5)});
  const uint64_t forward = trace.Stack(
      {Code("MLP.forward", "/job/model.py", 7), Call(layer), Call(model), Code("<module>", "/job/train.py", 9)});
  const uint64_t backward = trace.Stack({Mark("MmBackward0"), Code("MLP.forward", "/job/model.py", 7), Call(layer),
                                         Call(model), Code("<module>", "/job/train.py", 9)});
  builder.CudaAlloc(kAt, 40 * kMiB, made).TorchAlloc(kAt, 4 * kMiB, made);
  builder.CudaAlloc(kAt + 64 * kMiB, 3 * kMiB, made);  // no segment: NCCL's, say
  trace.Place(weight, kAt, 4 * kMiB);
  for (int step = 0; step < steps; ++step) {
    const uint64_t kept = kAt + (30 + static_cast<uint64_t>(step)) * kMiB;
    builder.TorchAlloc(kept, kMiB / 2, forward);  // never freed
    builder.TorchAlloc(kAt + 4 * kMiB, 8 * kMiB, forward);
    trace.Saved(kAt + 4 * kMiB);
    builder.TorchAlloc(kAt + 12 * kMiB, 4 * kMiB, backward);
    trace.Place(gradient, kAt + 12 * kMiB, 4 * kMiB);
    builder.TorchAlloc(kAt + 16 * kMiB, 2 * kMiB, backward).TorchFree(kAt + 16 * kMiB, 2 * kMiB);
    builder.TorchFree(kAt + 4 * kMiB, 8 * kMiB);
    trace.StepBegins(optimizer).StepEnds(optimizer);
    builder.TorchFree(kAt + 12 * kMiB, 4 * kMiB);
  }
  EventRow end;
  end.kind = trace::MARK;
  end.handle = kProgramEndMark;
  builder.Event(end);
  builder.TorchFree(kAt, 4 * kMiB);
  if (ends) builder.End();
  return builder.WriteTemporary();
}

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_QUERY_TRAINING_H_
