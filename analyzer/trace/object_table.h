// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ObjectTable: what the program's own objects said of themselves: modules (nn.Module), tensors that stand for the same
// thing while their data moves, optimizers. They come in parts: what a later message sets replaces what an earlier one
// of the same id said. Copyable value; not thread-safe while filled. Unknown ids give nullptr.
//
//   const NnModuleInfo* module = objects.module(frame.nn_module);
//   for (const auto& [id, tensor] : objects.tensors()) ...

#ifndef GPUMEM_ANALYZER_TRACE_OBJECT_TABLE_H_
#define GPUMEM_ANALYZER_TRACE_OBJECT_TABLE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trace/compiled_lines.h"

namespace gpumem {
namespace trace {
class Definitions;
}

struct NnModuleInfo {
  std::string class_name, python_module;
  uint32_t root = 0;  // its own id for an outermost one; 0 = not known
  std::string name;   // inside the root; "" for the root
  std::vector<std::string> other_names;
};

// Numbers of trace.proto's TensorRole.
enum class TensorRole : uint8_t { kNone = 0, kParameter, kBuffer, kGradient, kOptimizerState, kInput };

struct TensorInfo {
  TensorRole role = TensorRole::kNone;
  std::string name;   // inside its root; of a state: its key
  uint32_t of = 0;    // gradient, state: the parameter
  uint32_t root = 0;  // id of the outermost module; 0 = not known
  std::vector<uint64_t> shape;
  std::string dtype, device;
  bool trainable = false;
  uint32_t optimizer = 0, group = 0;  // group: index + 1; 0 = none
  uint64_t elements = 0;
  std::vector<std::string> other_names;
  uint64_t implementation = 0;  // of its object in PyTorch, which TENSOR_DATA names; 0 = not known
};

// Of torch.distributed, as this process sees it.
struct ProcessGroupInfo {
  std::string name, description;
  uint32_t rank = 0, size = 0;
  std::string used_by;  // class of the wrapper that divides batches among its ranks
};

// What an optimizer's param_group was set to, as Python writes it; "" where it is not known.
struct OptimizerGroupInfo {
  std::string learning_rate, weight_decay;
  std::string first_learning_rate;  // when it was first seen

  friend bool operator==(const OptimizerGroupInfo&, const OptimizerGroupInfo&) = default;
};

struct OptimizerInfo {
  std::string class_name;
  uint64_t steps = 0;  // the step at which the groups were as they are here, from 1; 0 = never
  std::map<uint32_t, OptimizerGroupInfo> groups;  // by TensorInfo::group
};

// Numbers of trace.proto's OwnersCause and OwnerRoot.
enum class OwnersCause : uint8_t { kNone = 0, kRunEnd, kOutOfMemory, kAsked };
enum class OwnerRoot : uint8_t { kNone = 0, kGlobal, kClass, kFunction, kRunning, kCycle, kNative };

// A way from a root to tensors in GPU memory.
struct OwnerInfo {
  OwnerRoot root = OwnerRoot::kNone;
  std::string file, name, path, container;
  uint64_t items = 0;
  std::vector<uint64_t> addresses;  // of storages
  std::vector<uint64_t> nodes;      // of a graph of autograd: handles of SAVED events
};

// A look at who refers to GPU memory.
struct OwnerSnapshotInfo {
  uint64_t time_ns = 0, took_ns = 0;
  OwnersCause cause = OwnersCause::kNone;
  uint32_t tensors = 0;
  std::string left_out;    // empty: what has no owner has no tensor object in Python
  uint32_t collector = 0;  // 1 = on, 2 = off, 0 = not known
  std::map<uint32_t, OwnerInfo> owners;
};

class ObjectTable {
 public:
  // DataLoss where an id is 0.
  absl::Status Add(const trace::Definitions& definitions);

  const NnModuleInfo* module(uint32_t id) const;
  const TensorInfo* tensor(uint32_t id) const;
  const std::string& optimizer_class(uint32_t id) const;  // "" where not known

  const std::map<uint32_t, NnModuleInfo>& modules() const { return modules_; }
  const std::map<uint32_t, TensorInfo>& tensors() const { return tensors_; }
  const std::map<uint32_t, OptimizerInfo>& optimizers() const { return optimizers_; }
  const std::map<uint32_t, ProcessGroupInfo>& process_groups() const { return groups_; }
  // In the order in which they were taken.
  const std::map<uint32_t, OwnerSnapshotInfo>& owner_snapshots() const { return owner_snapshots_; }
  const CompiledLines& compiled_lines() const { return compiled_lines_; }

  // To keep it in a file and take it from there (ledger/saved/archive.h).
  template <typename Archive, typename Self>
  static void VisitFieldsOf(Archive& archive, Self& self) {
    archive(self.modules_, self.tensors_, self.optimizers_, self.groups_, self.owner_snapshots_, self.compiled_lines_);
  }

 private:
  std::map<uint32_t, NnModuleInfo> modules_;
  std::map<uint32_t, TensorInfo> tensors_;
  std::map<uint32_t, OptimizerInfo> optimizers_;
  std::map<uint32_t, ProcessGroupInfo> groups_;
  std::map<uint32_t, OwnerSnapshotInfo> owner_snapshots_;
  CompiledLines compiled_lines_;
};

// RolesOf: what a rank is in the layout of its job, by the descriptions of the process groups that it is in: those of a
// DeviceMesh's dimensions ("mesh_tp"), of new_group(group_desc="tp"), and Megatron Core's
// ("TENSOR_MODEL_PARALLEL_GROUP"); and by the wrappers that use them (DistributedDataParallel: dp,
// FullyShardedDataParallel: dp_shard). Other descriptions say nothing. Pure function.
//
//   for (const RankRole& role : RolesOf(groups)) role.name, role.rank   // "pp", 1

// What a rank is in one dimension of its job's layout.
struct RankRole {
  std::string name;             // "pp"
  uint32_t rank = 0, size = 0;  // within the group

  friend auto operator<=>(const RankRole&, const RankRole&) = default;
};

// In the order of kRoleNames, each once.
std::vector<RankRole> RolesOf(const std::map<uint32_t, ProcessGroupInfo>& groups);

inline constexpr absl::string_view kRoleNames[] = {"pp", "dp", "dp_replicate", "dp_shard", "tp", "cp", "ep"};

// "pp 1/4, tp 0/2"; "" where none is known.
std::string RolesText(const std::vector<RankRole>& roles);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_OBJECT_TABLE_H_
