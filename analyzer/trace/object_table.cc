// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/object_table.h"

#include "gpumem/trace.pb.h"
#include "trace/definition_ids.h"

namespace gpumem {
namespace {

template <typename T>
void SetWhereSaid(const T& value, T* out) {
  if (value != T{}) *out = value;
}

template <typename Repeated, typename Vector>
void SetListWhereSaid(const Repeated& values, Vector* out) {
  if (!values.empty()) out->assign(values.begin(), values.end());
}

void Merge(const trace::NnModule& said, NnModuleInfo* info) {
  SetWhereSaid(said.class_name(), &info->class_name);
  SetWhereSaid(said.python_module(), &info->python_module);
  SetWhereSaid(said.root(), &info->root);
  SetWhereSaid(said.name(), &info->name);
  SetListWhereSaid(said.other_names(), &info->other_names);
}

void Merge(const trace::Tensor& said, TensorInfo* info) {
  // Roles of a newer version are none to us.
  if (said.role() > trace::TENSOR_ROLE_UNSPECIFIED && said.role() <= trace::INPUT)
    info->role = static_cast<TensorRole>(said.role());
  SetWhereSaid(said.name(), &info->name);
  SetWhereSaid(said.of(), &info->of);
  SetWhereSaid(said.root(), &info->root);
  SetListWhereSaid(said.shape(), &info->shape);
  SetWhereSaid(said.dtype(), &info->dtype);
  SetWhereSaid(said.device(), &info->device);
  SetWhereSaid(said.optimizer(), &info->optimizer);
  SetWhereSaid(said.group(), &info->group);
  SetWhereSaid(said.elements(), &info->elements);
  SetListWhereSaid(said.other_names(), &info->other_names);
  // A part that looked at the tensor says its type; only such a part says whether it is trained.
  if (said.trainable() || !said.dtype().empty()) info->trainable = said.trainable();
}

}  // namespace

absl::Status ObjectTable::Add(const trace::Definitions& definitions) {
  for (const trace::NnModule& module : definitions.nn_modules()) {
    if (module.id() == 0) return ZeroId("an nn.Module");
    Merge(module, &modules_[module.id()]);
  }
  for (const trace::Tensor& tensor : definitions.tensors()) {
    if (tensor.id() == 0) return ZeroId("a tensor");
    Merge(tensor, &tensors_[tensor.id()]);
  }
  for (const trace::Optimizer& optimizer : definitions.optimizers()) {
    if (optimizer.id() == 0) return ZeroId("an optimizer");
    SetWhereSaid(optimizer.class_name(), &optimizers_[optimizer.id()]);
  }
  return absl::OkStatus();
}

const NnModuleInfo* ObjectTable::module(uint32_t id) const { return FindOrNull(modules_, id); }
const TensorInfo* ObjectTable::tensor(uint32_t id) const { return FindOrNull(tensors_, id); }

const std::string& ObjectTable::optimizer_class(uint32_t id) const {
  static const std::string* const kUnknown = new std::string;
  const std::string* const found = FindOrNull(optimizers_, id);
  return found == nullptr ? *kUnknown : *found;
}

}  // namespace gpumem
