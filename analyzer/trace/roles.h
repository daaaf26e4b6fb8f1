// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RolesOf: what a rank is in the layout of its job, by the descriptions of the process groups that it is in: those of a
// DeviceMesh's dimensions ("mesh_tp"), of new_group(group_desc="tp"), and Megatron Core's
// ("TENSOR_MODEL_PARALLEL_GROUP"). Other descriptions say nothing. Pure function.
//
//   for (const RankRole& role : RolesOf(groups)) role.name, role.rank   // "pp", 1

#ifndef GPUMEM_ANALYZER_TRACE_ROLES_H_
#define GPUMEM_ANALYZER_TRACE_ROLES_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "trace/object_table.h"

namespace gpumem {

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

#endif  // GPUMEM_ANALYZER_TRACE_ROLES_H_
