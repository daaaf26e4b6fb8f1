// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "testing/training_trace.h"

namespace gpumem::testing {

uint32_t TrainingTrace::Root(const std::string& class_name) { return Module(next_object_, "", class_name); }

uint32_t TrainingTrace::Module(uint32_t root, const std::string& name, const std::string& class_name) {
  builder_.String(class_name);  // definitions are to be written
  trace::NnModule* const module = builder_.definitions().add_nn_modules();
  module->set_id(next_object_);
  module->set_class_name(class_name);
  module->set_root(root);
  module->set_name(name);
  return next_object_++;
}

uint32_t TrainingTrace::Stray(const std::string& class_name) { return Module(0, "", class_name); }

uint32_t TrainingTrace::FrameId(const TrainingFrame& frame) {
  const auto [it, is_new] =
      frames_.try_emplace({frame.function, frame.file, frame.line, frame.nn_module, frame.node}, next_frame_);
  if (!is_new) return it->second;
  const uint32_t node = builder_.String(frame.node);
  trace::Frame* const made = builder_.definitions().add_frames();
  made->set_id(next_frame_);
  if (!frame.node.empty()) {
    made->set_forward(true);
    made->set_node(node);
    return next_frame_++;
  }
  trace::PythonCode* const code = builder_.definitions().add_python_codes();
  code->set_id(next_frame_);
  code->set_filename(frame.file);
  code->set_name(frame.function);
  code->set_first_line(frame.line);
  code->set_python_minor(11);
  made->set_python_code(next_frame_);
  made->set_nn_module(frame.nn_module);
  return next_frame_++;
}

uint64_t TrainingTrace::Stack(const std::vector<TrainingFrame>& innermost_first) {
  uint64_t parent = 0;
  for (auto frame = innermost_first.rbegin(); frame != innermost_first.rend(); ++frame) {
    const uint32_t id = FrameId(*frame);
    const auto [it, is_new] = nodes_.try_emplace({parent, id}, next_node_);
    if (is_new) {
      builder_.String("");
      trace::StackNodes* const nodes = builder_.definitions().add_stacks();
      nodes->set_first_id(next_node_++);
      nodes->add_parent(parent);
      nodes->add_frame(id);
    }
    parent = it->second;
  }
  return parent;
}

uint32_t TrainingTrace::Parameter(uint32_t root, const std::string& name, uint64_t elements, bool trainable) {
  const uint32_t id = Tensor(trace::PARAMETER, name, 0, root);
  trace::Tensor& tensor = *builder_.definitions().mutable_tensors()->rbegin();
  tensor.add_shape(elements);
  tensor.set_elements(elements);
  tensor.set_dtype("float32");
  tensor.set_device("cuda:0");
  tensor.set_trainable(trainable);
  return id;
}

uint32_t TrainingTrace::Tensor(trace::TensorRole role, const std::string& name, uint32_t of, uint32_t root) {
  builder_.String(name);
  trace::Tensor* const tensor = builder_.definitions().add_tensors();
  tensor->set_id(next_object_);
  tensor->set_role(role);
  tensor->set_name(name);
  tensor->set_of(of);
  tensor->set_root(root);
  return next_object_++;
}

uint32_t TrainingTrace::Optimizer(const std::string& class_name) {
  builder_.String(class_name);
  trace::Optimizer* const optimizer = builder_.definitions().add_optimizers();
  optimizer->set_id(next_object_);
  optimizer->set_class_name(class_name);
  return next_object_++;
}

TrainingTrace& TrainingTrace::Place(uint32_t tensor, uint64_t address, uint64_t bytes) {
  EventRow row;
  row.kind = trace::TENSOR;
  row.handle = tensor;
  row.address = address;
  row.size = bytes;
  builder_.Event(row);
  return *this;
}

TrainingTrace& TrainingTrace::Named(uint64_t address, uint32_t name) {
  EventRow row;
  row.kind = trace::TENSOR;
  row.address = address;
  row.size = 1;
  row.text = name;
  builder_.Event(row);
  return *this;
}

TrainingTrace& TrainingTrace::Saved(uint64_t address, uint64_t node) {
  EventRow row;
  row.kind = trace::SAVED;
  row.address = address;
  row.handle = node;
  builder_.Event(row);
  return *this;
}

TrainingTrace& TrainingTrace::OptimizerStep(uint32_t optimizer, uint64_t size) {
  EventRow row;
  row.kind = trace::OPTIMIZER_STEP;
  row.handle = optimizer;
  row.size = size;
  builder_.Event(row);
  return *this;
}

}  // namespace gpumem::testing
