// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TrainingTrace: a hand-made trace of a PyTorch training with what its own objects say: modules in stacks, forward
// marks, tensors, saved tensors, steps of the optimizer. Not thread-safe.
//
//   TrainingTrace trace;
//   const uint32_t model = trace.Root("GPT");
//   const uint32_t mlp = trace.Module(model, "h.0.mlp", "MLP");
//   const uint64_t stack = trace.Stack({Call(mlp), Call(model), Code("train", "/job/train.py", 9)});
//   trace.builder().TorchAlloc(kSegment, kMiB, stack);
//   trace.Saved(kSegment);

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_TRAINING_TRACE_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_TRAINING_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "testing/trace_builder.h"

namespace gpumem::testing {

struct TrainingFrame {
  std::string function, file;
  uint32_t line = 0;
  uint32_t nn_module = 0;
  std::string node;  // a forward mark
};

inline TrainingFrame Code(const std::string& function, const std::string& file, uint32_t line = 1) {
  return {function, file, line, 0, ""};
}
// The call of an nn.Module.
inline TrainingFrame Call(uint32_t nn_module) {
  return {"Module._wrapped_call_impl", "/v/lib/python3.11/site-packages/torch/nn/modules/module.py", 1, nn_module, ""};
}
inline TrainingFrame Mark(const std::string& node) { return {"", "", 0, 0, node}; }

class TrainingTrace {
 public:
  TraceBuilder& builder() { return builder_; }

  uint32_t Root(const std::string& class_name);
  uint32_t Module(uint32_t root, const std::string& name, const std::string& class_name);
  // An object of which only the class is known.
  uint32_t Stray(const std::string& class_name);
  uint64_t Stack(const std::vector<TrainingFrame>& innermost_first);

  uint32_t Parameter(uint32_t root, const std::string& name, uint64_t elements, bool trainable = true);
  uint32_t Tensor(trace::TensorRole role, const std::string& name = "", uint32_t of = 0, uint32_t root = 0);
  uint32_t Optimizer(const std::string& class_name);

  TrainingTrace& Place(uint32_t tensor, uint64_t address, uint64_t bytes);
  TrainingTrace& Named(uint64_t address, uint32_t name);  // a string's id
  TrainingTrace& Saved(uint64_t address, uint64_t node = 0);
  TrainingTrace& StepBegins(uint32_t optimizer) { return OptimizerStep(optimizer, 0); }
  TrainingTrace& StepEnds(uint32_t optimizer) { return OptimizerStep(optimizer, 1); }

 private:
  // Away from the ids that the builder gives.
  static constexpr uint32_t kFirstId = 1'000'000;

  TrainingTrace& OptimizerStep(uint32_t optimizer, uint64_t size);
  uint32_t FrameId(const TrainingFrame& frame);

  TraceBuilder builder_;
  uint32_t next_object_ = 1, next_frame_ = kFirstId;
  uint64_t next_node_ = kFirstId;
  std::map<std::tuple<std::string, std::string, uint32_t, uint32_t, std::string>, uint32_t> frames_;
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> nodes_;
};

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_TRAINING_TRACE_H_
