// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ProfilerFrames: what torch.profiler calls its spans, as frames of a trace like those of a recording:
//
//   "train.py(12): step"                     a function of Python. The line is the one where it begins, or, of those
//                                            that ran when the profile began, where they were
//   "torch/optim/adam.py(214): step"         the same: the profiler cuts folders of sys.path off, so a library is known
//                                            by the first part of its path
//   "nn.Module: Linear_0"                    the call of a module: class, and a number of the profiler's
//   "TOP(Net)::forward.fc(Linear)::forward." the modules of TorchScript around an operator, by their attributes' names
//   "aten::addmm"                            an operator, as its dispatch is called in C++
//   "AddmmBackward0"                         a node of autograd
//   "Optimizer.step#Adam.step"               an optimizer's step, where no Python functions were recorded
//
// Not thread-safe; the builder must outlive it. Nothing fails: of what says nothing (functions written in C) there is
// no frame, which is 0.
//
//   const uint32_t frame = frames.PythonFunction("train.py(12): step");

#ifndef GPUMEM_ANALYZER_IMPORT_PROFILER_FRAMES_H_
#define GPUMEM_ANALYZER_IMPORT_PROFILER_FRAMES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "trace/write/definition_builder.h"

namespace gpumem {

// The path of a file whose folder the profiler cut off, with the folder's kind in front where its first part is known:
// ".../site-packages/torch/optim/adam.py", ".../lib/python3/threading.py". Others are the program's own. Pure.
std::string UncutPath(absl::string_view path);

// Whether a span of this name is the call of an nn.Module, or a function with a line. Pure.
bool IsModuleCall(absl::string_view name);
bool IsFunction(absl::string_view name);
// An operator in which autograd's engine runs a node. Pure.
bool IsEngine(absl::string_view name);

// Cuts the first part off a "Module Hierarchy", which is a module or, as "SELF", another method of the one before.
// False at the end, and where it is not PyTorch's. Pure.
//
//   while (NextModule(&rest, &instance, &type)) Use(instance, type);
bool NextModule(absl::string_view* rest, absl::string_view* instance, absl::string_view* type);

class ProfilerFrames {
 public:
  explicit ProfilerFrames(DefinitionBuilder* definitions) : definitions_(*definitions) {}

  // Of a "python_function" span, or of one entry of an operator's "Call stack".
  uint32_t PythonFunction(absl::string_view name);
  // The call of a module inside the call `around`, an NnModule.id; 0 = of none. Sets `module` to its own id where there
  // is a frame.
  uint32_t ModuleCall(absl::string_view name, uint32_t around, uint32_t* module);
  // One part of a "Module Hierarchy", as NextModule cuts it, inside the module `around`; else as ModuleCall.
  uint32_t ScriptModule(absl::string_view instance, absl::string_view type, uint32_t around, uint32_t* module);
  uint32_t Operator(absl::string_view name);
  uint32_t Annotation(absl::string_view name);

 private:
  struct Module {
    uint32_t id = 0, root = 0;
    std::string name;  // inside its root
  };

  uint32_t ModuleOf(absl::string_view key, absl::string_view type, absl::string_view name, uint32_t around,
                    uint32_t* module);

  DefinitionBuilder& definitions_;
  absl::flat_hash_map<std::string, Module> modules_;  // by the span's name
  absl::flat_hash_map<uint32_t, std::string> names_;  // by id: Module::name
  absl::flat_hash_map<uint32_t, uint32_t> roots_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PROFILER_FRAMES_H_
