// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReportSections: several sections of a report under one command line: `gpumemshim report peak leaks run.gmtrace`. As
// text one after another, with an empty line between; with --json one object. Flags are those that all of them have.
//
//   ReportSections report({peak, leaks}, {"--json", "run.gmtrace"});
//   if (no section has a problem) return report.Run(&console);

#ifndef GPUMEM_ANALYZER_CLI_REPORT_SECTIONS_H_
#define GPUMEM_ANALYZER_CLI_REPORT_SECTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/console.h"
#include "cli/command.h"
#include "cli/parsed_command.h"

namespace gpumem {

class ReportSections {
 public:
  // `sections`: at least one, each once.
  ReportSections(const std::vector<Command*>& sections, const std::vector<std::string>& arguments);

  const std::vector<std::unique_ptr<ParsedCommand>>& sections() const { return sections_; }
  std::vector<FlagLine> SharedFlags() const;
  // The highest exit code.
  int Run(Console* console);

 private:
  int RunAsText(Console* console);
  int RunAsJson(Console* console);

  std::vector<std::unique_ptr<ParsedCommand>> sections_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_REPORT_SECTIONS_H_
