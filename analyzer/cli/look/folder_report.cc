// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/look/folder_report.h"

#include "absl/strings/str_cat.h"
#include "answers/report/process_list.h"
#include "base/format.h"
#include "cli/command.h"
#include "ledger/load/find_traces.h"
#include "ledger/saved/import_cache.h"
#include "render/draw.h"
#include "replay/analyze.h"

namespace gpumem {

namespace {

void SayRingsWithoutTrace(const std::string& folder, Console* console) {
  const std::vector<std::string> rings = RingsWithoutTrace(folder);
  if (rings.empty()) return;
  console->Complain(absl::StrCat(FormatCountOf(rings.size(), "process was", "processes were"),
                                 " killed before a trace was begun, and not counted here. To make a trace of what is "
                                 "left: gpumemshim export trace ",
                                 ShellQuoted(rings.front())));
}

}  // namespace

absl::StatusOr<int> ReportFolder(const std::string& folder, const std::vector<std::string>& traces,
                                 const TraceOptions& options, Console* console) {
  GPUMEM_ASSIGN_OR_RETURN(const AnalyzeOptions asked, options.ForAnalyze());
  std::vector<ListedProcess> processes;
  int exit_code = kExitFine;
  for (size_t i = 0; i < traces.size(); ++i) {
    StackTable stacks;
    const absl::StatusOr<ReadableTrace> trace = MakeReadable(traces[i]);
    const absl::StatusOr<Analysis> analysis =
        trace.ok() ? Analyze(trace->path, asked, &stacks, nullptr) : trace.status();
    console->Progress(absl::StrCat("reading ", folder), i + 1, traces.size());
    if (!analysis.ok()) {
      console->Complain(analysis.status().message());
      exit_code = kExitDamaged;
      continue;
    }
    if (!analysis->damage.empty()) exit_code = kExitDamaged;
    processes.push_back(Listed(*analysis));
    processes.back().path = traces[i];
  }
  console->ProgressDone();
  if (processes.empty()) return kExitCannotRead;
  LinkProcesses(&processes);
  SayRingsWithoutTrace(folder, console);
  const Document answer = ProcessListAnswer(processes, folder);
  console->Print(options.json ? ToJson(answer) : ToText(answer, console->out_style()));
  return exit_code;
}

}  // namespace gpumem
