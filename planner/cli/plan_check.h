// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PlanCheck: `gpumemshim plan --check budget.yaml`: the limits of gpumemshim check, held against a plan's answer.
//
//   PlanCheck check;
//   check.AddFlags(flags);
//   GPUMEM_RETURN_IF_ERROR(check.Read(console));  // before anything runs: a wrong file of limits costs no run
//   const std::vector<CheckLine> lines = check.Lines(forecast, why);
//   return check.ExitCode(forecast, lines);
//
// Not thread-safe. Failure: InvalidArgument where the limits make no sense; that of LoadTrace for their baseline.

#ifndef GPUMEM_PLANNER_CLI_PLAN_CHECK_H_
#define GPUMEM_PLANNER_CLI_PLAN_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "answers/compare/check.h"
#include "base/console.h"
#include "cli/compare/load_checked_run.h"
#include "cli/flags.h"
#include "planner/predict/forecast.h"

namespace gpumem::plan {

class PlanCheck {
 public:
  // --check and --format.
  void AddFlags(Flags* flags);

  bool given() const { return !file_.empty(); }
  // Whether only verdicts are printed, for a program to read.
  bool for_machines() const { return given() && format_ != "text"; }

  absl::Status Read(Console* console);

  // Why the run needs more than a baseline that is a trace, in a sentence; "" where there is none to compare with.
  std::string WhyLarger(LoadedTrace* loaded) const;

  std::vector<CheckLine> Lines(const Forecast& forecast, const std::string& why_larger) const;
  std::string Text(const std::vector<CheckLine>& lines) const;

  // That of the limits; kExitCannotRead where the plan has no answer.
  static int ExitCode(const Forecast& forecast, const std::vector<CheckLine>& lines);

 private:
  std::string file_, format_ = "text";
  Limits limits_;
  LoadedRun baseline_;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_CLI_PLAN_CHECK_H_
