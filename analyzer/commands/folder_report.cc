// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/folder_report.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "commands/command.h"
#include "replay/analyze.h"
#include "report/page.h"
#include "report/process_list.h"

namespace gpumem {

std::vector<std::string> TracesOfFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> traces;
  std::error_code error;
  if (!fs::is_directory(folder, error)) return traces;
  for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() == ".gmtrace" && entry->is_regular_file(ignored))
      traces.push_back(entry->path().string());
  }
  std::sort(traces.begin(), traces.end());
  return traces;
}

int ReportFolder(const std::string& folder, const std::vector<std::string>& traces, const TraceOptions& options,
                 Console* console) {
  AnalyzeOptions asked;
  if (!MakeAnalyzeOptions(options, &asked, console)) return kExitUsage;
  std::vector<ListedProcess> processes;
  int exit_code = kExitFine;
  for (size_t i = 0; i < traces.size(); ++i) {
    StackTable stacks;
    const absl::StatusOr<Analysis> analysis = Analyze(traces[i], asked, &stacks, nullptr);
    console->Progress(absl::StrCat("reading ", folder), i + 1, traces.size());
    if (!analysis.ok()) {
      console->Complain(analysis.status().message());
      exit_code = kExitDamaged;
      continue;
    }
    if (!analysis->damage.empty()) exit_code = kExitDamaged;
    processes.push_back(Listed(*analysis));
  }
  console->ProgressDone();
  if (processes.empty()) return kExitCannotRead;
  LinkProcesses(&processes);
  if (options.json) {
    console->Print(ProcessListJson(processes, folder));
    return exit_code;
  }
  Page page(console->out_style());
  AddProcessList(processes, folder, &page);
  console->Print(page.text());
  return exit_code;
}

}  // namespace gpumem
