// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/files/import_command.h"
#include "cli/run_commands.h"

namespace gpumem {

CommandList TraceCommands() {
  CommandList commands;
  commands.push_back(MakeRunCommand());
  commands.push_back(MakeReportCommand());
  commands.push_back(MakeOomCommand());
  commands.push_back(MakeExplainCommand());
  commands.push_back(MakeForecastCommand());
  commands.push_back(MakeTimelineCommand());
  commands.push_back(MakePeakCommand());
  commands.push_back(MakeAtCommand());
  commands.push_back(MakeStepsCommand());
  commands.push_back(MakeStagesCommand());
  commands.push_back(MakeModulesCommand());
  commands.push_back(MakeModelCommand());
  commands.push_back(MakeLeaksCommand());
  commands.push_back(MakeDiffCommand());
  commands.push_back(MakeRanksCommand());
  commands.push_back(MakeCompareCommand());
  commands.push_back(MakeCheckCommand());
  commands.push_back(MakeHtmlCommand());
  commands.push_back(MakeFlameCommand());
  commands.push_back(MakeTreeCommand());
  commands.push_back(MakeTableCommand());
  commands.push_back(MakeSizesCommand());
  commands.push_back(MakeStacksCommand());
  commands.push_back(MakeFragmentationCommand());
  commands.push_back(MakeSqlCommand());
  commands.push_back(MakeImportCommand());
  commands.push_back(MakeExportCommand());
  commands.push_back(MakeInfoCommand());
  commands.push_back(MakeDumpCommand());
  commands.push_back(MakeRecoverCommand());
  commands.push_back(MakeSymbolizeCommand());
  commands.push_back(MakeBundleCommand());
  commands.push_back(MakeLiveCommand());
  commands.push_back(MakeServeCommand());
  commands.push_back(MakeMcpCommand());
  commands.push_back(MakeCtlCommand());
  commands.push_back(MakeAttachCommand());
  commands.push_back(MakeDetachCommand());
  commands.push_back(MakeDoctorCommand());
  return commands;
}

}  // namespace gpumem
