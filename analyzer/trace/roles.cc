// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/roles.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gpumem {
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

absl::string_view RoleOf(const std::string& description) {
  const std::string lower = absl::AsciiStrToLower(description);
  absl::string_view word = absl::StripSuffix(lower, "_group");
  word = absl::StripPrefix(word, "mesh_");
  const auto* const found =
      std::find_if(std::begin(kMeanings), std::end(kMeanings), [&](const Meaning& each) { return each.word == word; });
  return found == std::end(kMeanings) ? "" : found->role;
}

}  // namespace

std::vector<RankRole> RolesOf(const std::map<uint32_t, ProcessGroupInfo>& groups) {
  std::vector<RankRole> roles;
  for (const absl::string_view name : kRoleNames) {
    for (const auto& [id, group] : groups) {
      if (RoleOf(group.description) != name || group.size == 0 || group.rank >= group.size) continue;
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
