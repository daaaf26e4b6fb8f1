// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Makers of the subcommands that record and read traces, one for each *_command.cc.

#ifndef GPUMEM_ANALYZER_CLI_COMMANDS_H_
#define GPUMEM_ANALYZER_CLI_COMMANDS_H_

#include <memory>

#include "cli/command.h"

namespace gpumem {

// All of them.
CommandList TraceCommands();

std::unique_ptr<Command> MakeRunCommand();
std::unique_ptr<Command> MakeReportCommand();
std::unique_ptr<Command> MakeOomCommand();
std::unique_ptr<Command> MakeTimelineCommand();
std::unique_ptr<Command> MakePeakCommand();
std::unique_ptr<Command> MakeAtCommand();
std::unique_ptr<Command> MakeStepsCommand();
std::unique_ptr<Command> MakeStagesCommand();
std::unique_ptr<Command> MakeModulesCommand();
std::unique_ptr<Command> MakeModelCommand();
std::unique_ptr<Command> MakeLeaksCommand();
std::unique_ptr<Command> MakeFlameCommand();
std::unique_ptr<Command> MakeHtmlCommand();
std::unique_ptr<Command> MakeTreeCommand();
std::unique_ptr<Command> MakeTableCommand();
std::unique_ptr<Command> MakeDiffCommand();
std::unique_ptr<Command> MakeRanksCommand();
std::unique_ptr<Command> MakeExplainCommand();
std::unique_ptr<Command> MakeForecastCommand();
std::unique_ptr<Command> MakeSizesCommand();
std::unique_ptr<Command> MakeStacksCommand();
std::unique_ptr<Command> MakeFragmentationCommand();
std::unique_ptr<Command> MakeSqlCommand();
std::unique_ptr<Command> MakeInfoCommand();
std::unique_ptr<Command> MakeDumpCommand();
std::unique_ptr<Command> MakeRecoverCommand();
std::unique_ptr<Command> MakeSymbolizeCommand();
std::unique_ptr<Command> MakeLiveCommand();
std::unique_ptr<Command> MakeServeCommand();
std::unique_ptr<Command> MakeMcpCommand();
std::unique_ptr<Command> MakeBundleCommand();
std::unique_ptr<Command> MakeCtlCommand();
std::unique_ptr<Command> MakeAttachCommand();
std::unique_ptr<Command> MakeDetachCommand();
std::unique_ptr<Command> MakeDoctorCommand();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_COMMANDS_H_
