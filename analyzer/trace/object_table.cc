// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/object_table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gpumem/trace.pb.h"
#include "trace/limits.h"

namespace gpumem {
namespace {

template <typename T>
void SetWhereReported(const T& value, T* out) {
  if (value != T{}) *out = value;
}

template <typename Repeated, typename Vector>
void SetListWhereReported(const Repeated& values, Vector* out) {
  if (!values.empty()) out->assign(values.begin(), values.end());
}

void MergeModule(const trace::NnModule& reported, NnModuleInfo* info) {
  SetWhereReported(reported.class_name(), &info->class_name);
  SetWhereReported(reported.python_module(), &info->python_module);
  SetWhereReported(reported.root(), &info->root);
  SetWhereReported(reported.name(), &info->name);
  SetListWhereReported(reported.other_names(), &info->other_names);
}

void MergeTensor(const trace::Tensor& reported, TensorInfo* info) {
  // Roles of a newer version are none to us.
  if (reported.role() > trace::TENSOR_ROLE_UNSPECIFIED && reported.role() <= trace::INPUT)
    info->role = static_cast<TensorRole>(reported.role());
  SetWhereReported(reported.name(), &info->name);
  SetWhereReported(reported.of(), &info->of);
  SetWhereReported(reported.root(), &info->root);
  SetListWhereReported(reported.shape(), &info->shape);
  SetWhereReported(reported.dtype(), &info->dtype);
  SetWhereReported(reported.device(), &info->device);
  SetWhereReported(reported.optimizer(), &info->optimizer);
  SetWhereReported(reported.group(), &info->group);
  SetWhereReported(reported.elements(), &info->elements);
  SetListWhereReported(reported.other_names(), &info->other_names);
  SetWhereReported(reported.implementation(), &info->implementation);
  // A part that looked at the tensor says its type; only such a part says whether it is trained.
  if (reported.trainable() || !reported.dtype().empty()) info->trainable = reported.trainable();
}

// Enumerators of a newer version are none to us.
void MergeSnapshot(const trace::OwnerSnapshot& reported, OwnerSnapshotInfo* info) {
  SetWhereReported(reported.time_ns(), &info->time_ns);
  SetWhereReported(reported.took_ns(), &info->took_ns);
  if (reported.cause() <= trace::OWNERS_ASKED) info->cause = static_cast<OwnersCause>(reported.cause());
  SetWhereReported(reported.tensors(), &info->tensors);
  SetWhereReported(reported.left_out(), &info->left_out);
  SetWhereReported(reported.collector(), &info->collector);
}

void MergeOptimizer(const trace::Optimizer& reported, OptimizerInfo* info) {
  SetWhereReported(reported.class_name(), &info->class_name);
  if (reported.groups().empty()) return;
  info->steps = reported.steps();
  for (const trace::OptimizerGroup& group : reported.groups()) {
    if (group.index() == 0) continue;
    OptimizerGroupInfo& known = info->groups[group.index()];
    if (known.first_learning_rate.empty()) known.first_learning_rate = group.learning_rate();
    known.learning_rate = group.learning_rate();
    known.weight_decay = group.weight_decay();
  }
}

void MergeGroup(const trace::ProcessGroup& reported, ProcessGroupInfo* info) {
  SetWhereReported(reported.name(), &info->name);
  SetWhereReported(reported.description(), &info->description);
  SetWhereReported(reported.rank(), &info->rank);
  SetWhereReported(reported.size(), &info->size);
  SetWhereReported(reported.used_by(), &info->used_by);
}

void MergeOwner(const trace::Owner& reported, OwnerInfo* info) {
  if (reported.root() <= trace::ROOT_NATIVE) info->root = static_cast<OwnerRoot>(reported.root());
  SetWhereReported(reported.file(), &info->file);
  SetWhereReported(reported.name(), &info->name);
  SetWhereReported(reported.path(), &info->path);
  SetWhereReported(reported.container(), &info->container);
  SetWhereReported(reported.items(), &info->items);
  info->addresses.insert(info->addresses.end(), reported.addresses().begin(), reported.addresses().end());
  info->nodes.insert(info->nodes.end(), reported.nodes().begin(), reported.nodes().end());
}

}  // namespace

absl::Status ObjectTable::Add(const trace::Definitions& definitions) {
  for (const trace::NnModule& module : definitions.nn_modules()) {
    if (module.id() == 0) return ZeroId("an nn.Module");
    MergeModule(module, &modules_[module.id()]);
  }
  for (const trace::Tensor& tensor : definitions.tensors()) {
    if (tensor.id() == 0) return ZeroId("a tensor");
    MergeTensor(tensor, &tensors_[tensor.id()]);
  }
  for (const trace::Optimizer& optimizer : definitions.optimizers()) {
    if (optimizer.id() == 0) return ZeroId("an optimizer");
    MergeOptimizer(optimizer, &optimizers_[optimizer.id()]);
  }
  for (const trace::ProcessGroup& group : definitions.process_groups()) {
    if (group.id() == 0) return ZeroId("a process group");
    MergeGroup(group, &groups_[group.id()]);
  }
  for (const trace::OwnerSnapshot& snapshot : definitions.owner_snapshots()) {
    if (snapshot.id() == 0) return ZeroId("a snapshot of owners");
    MergeSnapshot(snapshot, &owner_snapshots_[snapshot.id()]);
  }
  for (const trace::Owner& owner : definitions.owners()) {
    if (owner.snapshot() == 0 || owner.id() == 0) return ZeroId("an owner");
    MergeOwner(owner, &owner_snapshots_[owner.snapshot()].owners[owner.id()]);
  }
  for (const trace::CompiledFile& file : definitions.compiled_files())
    if (const absl::Status added = compiled_lines_.Add(file); !added.ok()) return added;
  return absl::OkStatus();
}

const NnModuleInfo* ObjectTable::module(uint32_t id) const { return FindOrNull(modules_, id); }
const TensorInfo* ObjectTable::tensor(uint32_t id) const { return FindOrNull(tensors_, id); }

const std::string& ObjectTable::optimizer_class(uint32_t id) const {
  static const std::string* const kUnknown = new std::string;
  const OptimizerInfo* const found = FindOrNull(optimizers_, id);
  return found == nullptr ? *kUnknown : found->class_name;
}

namespace {

struct Meaning {
  absl::string_view word, role;
};

// Names of mesh dimensions as PyTorch's documents and torchtitan use them, and Megatron Core's descriptions.
constexpr Meaning kMeanings[] = {
    {"pp", "pp"},
    {"pipeline_parallel", "pp"},
    {"pipeline_model_parallel", "pp"},
    {"dp", "dp"},
    {"data_parallel", "dp"},
    {"dp_replicate", "dp_replicate"},
    {"replicate", "dp_replicate"},
    {"dp_shard", "dp_shard"},
    {"fsdp", "dp_shard"},
    {"shard", "dp_shard"},
    {"tp", "tp"},
    {"tensor_parallel", "tp"},
    {"tensor_model_parallel", "tp"},
    {"cp", "cp"},
    {"context_parallel", "cp"},
    {"ep", "ep"},
    {"expert_parallel", "ep"},
    {"expert_model_parallel", "ep"},
};

absl::string_view RoleOf(const ProcessGroupInfo& group) {
  const std::string lower = absl::AsciiStrToLower(group.description);
  absl::string_view word = absl::StripSuffix(lower, "_group");
  word = absl::StripPrefix(word, "mesh_");
  const auto* const found =
      std::find_if(std::begin(kMeanings), std::end(kMeanings), [&](const Meaning& each) { return each.word == word; });
  if (found != std::end(kMeanings)) return found->role;
  if (group.used_by == "DistributedDataParallel") return "dp";
  return group.used_by == "FullyShardedDataParallel" ? "dp_shard" : "";
}

}  // namespace

std::vector<RankRole> RolesOf(const std::map<uint32_t, ProcessGroupInfo>& groups) {
  std::vector<RankRole> roles;
  for (const absl::string_view name : kRoleNames) {
    for (const auto& [id, group] : groups) {
      if (RoleOf(group) != name || group.size == 0 || group.rank >= group.size) continue;
      roles.push_back({std::string(name), group.rank, group.size});
      break;
    }
  }
  return roles;
}

std::string RolesText(const std::vector<RankRole>& roles) {
  std::string text;
  for (const RankRole& role : roles)
    absl::StrAppend(&text, text.empty() ? "" : ", ", role.name, " ", role.rank, "/", role.size);
  return text;
}

}  // namespace gpumem
