// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/record/doctor_conclusion.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpumem {
namespace {

// What a warning of a check costs, the worst first. A check that is not here costs nothing that is recorded.
struct Cost {
  const char* check;
  const char* what;
};
constexpr Cost kCosts[] = {
    {"driver", "only once there is a driver"},
    {"cuda", "only once CUDA is loaded"},
    {"seen", "without the calls of CUDA that go past the recorder"},
    {"python", "perhaps without Python frames"},
    {"preload", "unless another preloaded library is in the way"},
    {"library", "unless the library lacks what it needs"},
    {"file size", "up to the limit of a file's size"},
    {"output", "as long as there is room for the trace"},
    {"ring", "perhaps without the newest events of a process that is killed"},
};

const Finding* Of(const std::vector<Finding>& findings, absl::string_view check, Health health) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.check == check && finding.health == health;
  });
  return found == findings.end() ? nullptr : &*found;
}

}  // namespace

absl::string_view ExtentName(Conclusion::Extent extent) {
  return extent == Conclusion::Extent::kAll ? "all" : extent == Conclusion::Extent::kPart ? "part" : "nothing";
}

Conclusion Conclude(const std::vector<Finding>& findings) {
  Conclusion conclusion;
  const auto failure = std::find_if(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.health == Health::kFailure; });
  if (failure != findings.end()) {
    conclusion.extent = Conclusion::Extent::kNothing;
    conclusion.sentence = absl::StrCat("Nothing will be recorded: ", failure->found, ".");
    conclusion.change = failure->next;
    return conclusion;
  }
  std::vector<std::string> costs;
  for (const Cost& cost : kCosts) {
    const Finding* const warning = Of(findings, cost.check, Health::kWarning);
    if (warning == nullptr) continue;
    costs.emplace_back(cost.what);
    if (conclusion.change.empty()) conclusion.change = warning->next;
  }
  conclusion.extent = costs.empty() ? Conclusion::Extent::kAll : Conclusion::Extent::kPart;
  conclusion.sentence = costs.empty()
                            ? "All will be recorded: calls of CUDA, PyTorch's blocks, Python and native stacks."
                            : absl::StrCat("Calls of CUDA, PyTorch's blocks and stacks will be recorded, ",
                                           absl::StrJoin(costs, ", "), ".");
  return conclusion;
}

}  // namespace gpumem
