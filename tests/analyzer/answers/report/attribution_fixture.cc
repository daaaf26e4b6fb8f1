// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the memory of the made-up training was for (fixture.h).

#include "fixture.h"
#include "gpumem/trace.pb.h"
#include "testing/sizes.h"

namespace gpumem::testing {
namespace {

constexpr uint64_t kAttributedSecond = 1'000'000'000;

ObjectTable Objects() {
  trace::Definitions definitions;
  trace::NnModule* const root = definitions.add_nn_modules();
  root->set_id(1);
  root->set_root(1);
  root->set_class_name("GPT");
  trace::Optimizer* const optimizer = definitions.add_optimizers();
  optimizer->set_id(5);
  optimizer->set_class_name("AdamW");
  for (const bool trainable : {true, false}) {
    trace::Tensor* const weight = definitions.add_tensors();
    weight->set_id(trainable ? 10 : 11);
    weight->set_role(trace::PARAMETER);
    weight->set_name(trainable ? "h.0.mlp.lora_A.weight" : "h.0.mlp.weight");
    weight->set_root(1);
    weight->add_shape(4);
    weight->add_shape(8);
    weight->set_elements(32);
    weight->set_dtype(trainable ? "float32" : "bfloat16");
    weight->set_device("cuda:0");
    weight->set_trainable(trainable);
    weight->set_optimizer(trainable ? 5 : 0);
    weight->set_group(trainable ? 2 : 0);
  }
  ObjectTable objects;
  (void)objects.Add(definitions);
  return objects;
}

AttributedUse UseOf(uint64_t stack, Category category, Evidence evidence, Stage stage, uint64_t bytes) {
  AttributedUse use;
  use.stack_id = stack;
  use.layer = 3;
  use.category = category;
  use.evidence = evidence;
  use.stage = stage;
  use.module = 1;
  use.bytes = use.tensor_bytes = bytes;
  use.count = 2;
  return use;
}

}  // namespace

void AddAttribution(Example* example) {
  Attribution& all = example->attribution;
  example->is_attributed = true;
  example->objects = Objects();
  all.has_tensors = all.has_saved = true;
  all.modules = {{"", "", "other", 0, ""}, {"h.0.mlp", "MLP", "mlp", 1, "GPT"}};
  const DeviceAnalysis& device = example->analysis.devices[0];
  Moment moment;
  moment.found = true;
  moment.time_ns = device.peak_allocated.time_ns;
  moment.step = 3;
  moment.values = device.at_peak_allocated.values;
  moment.uses = {UseOf(kForward, Category::kActivation, Evidence::kAutograd, Stage::kForward, 30 * kGiB),
                 UseOf(kOptimizer, Category::kOptimizerState, Evidence::kAddress, Stage::kOptimizer, 6 * kGiB)};
  for (const AttributedUse& use : moment.uses) {
    moment.categories[Index(use.category)] = moment.tensor_bytes[Index(use.category)] = use.bytes;
    moment.counts[Index(use.category)] = use.count;
    moment.by_evidence[Index(use.category)][Index(use.evidence)] = use.bytes;
  }
  moment.categories[Index(Category::kAllocatorOverhead)] = 4 * kGiB;
  moment.by_evidence[Index(Category::kAllocatorOverhead)][Index(Evidence::kMeasured)] = 4 * kGiB;
  all.moments = {moment};
  AttributedStep step;
  step.step.number = 3;
  step.step.start = {10, device.peak_allocated.time_ns - kAttributedSecond, {10 * kGiB, 40 * kGiB, 0, 40 * kGiB}};
  step.step.peak = {20, device.peak_allocated.time_ns, {36 * kGiB, 40 * kGiB, 0, 40 * kGiB}};
  step.step.end = {30, device.peak_allocated.time_ns + kAttributedSecond, {12 * kGiB, 40 * kGiB, 0, 40 * kGiB}};
  step.at_peak = step.at_end = moment.categories;
  all.steps = {step};
  all.step_source = StepSource::kOptimizer;
  ModuleUse use;
  use.module = 1;
  use.stage = Stage::kForward;
  use.allocated_bytes = 90 * kGiB;
  use.count = 900;
  use.peak_bytes = 31 * kGiB;
  use.saved_bytes = 60 * kGiB;
  use.saved_peak_bytes = 30 * kGiB;
  use.temporary_bytes = 30 * kGiB;
  all.module_uses = {use};
  all.module_peaks = {0, 31 * kGiB};
  all.inclusive_peaks = all.module_peaks;
  all.parameters = {{10, 128, 128, 256, 1}, {11, 64, 0, 0, 1}};
}

}  // namespace gpumem::testing
