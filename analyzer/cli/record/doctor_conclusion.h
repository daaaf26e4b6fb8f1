// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the findings of `gpumemshim doctor` come to: what will be recorded, how surely, and the one thing to change
// first. Pure.
//
//   const Conclusion conclusion = Conclude(findings);
//   conclusion.sentence   // "Calls of CUDA, PyTorch's blocks and stacks will be recorded, perhaps without Python
//   frames."

#ifndef GPUMEM_ANALYZER_CLI_RECORD_DOCTOR_CONCLUSION_H_
#define GPUMEM_ANALYZER_CLI_RECORD_DOCTOR_CONCLUSION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/record/doctor_checks.h"

namespace gpumem {

struct Conclusion {
  enum class Extent { kNothing, kPart, kAll };
  Extent extent = Extent::kAll;
  std::string sentence;
  std::string change;  // what to do first; "" = nothing
};

absl::string_view ExtentName(Conclusion::Extent extent);  // "part"

Conclusion Conclude(const std::vector<Finding>& findings);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_RECORD_DOCTOR_CONCLUSION_H_
