// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/folder_report.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "commands/command.h"
#include "replay/analyze.h"
#include "report/page.h"
#include "report/process_list.h"
#include "trace/ring_file.h"

namespace gpumem {

namespace {

std::vector<std::string> FilesOfFolder(const std::string& folder, absl::string_view extension) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code error;
  if (!fs::is_directory(folder, error)) return files;
  for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() == std::string(extension) && entry->is_regular_file(ignored))
      files.push_back(entry->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void SayRingsWithoutTrace(const std::string& folder, Console* console) {
  const std::vector<std::string> rings = RingsWithoutTrace(folder);
  if (rings.empty()) return;
  console->Complain(absl::StrCat(FormatCountOf(rings.size(), "process was", "processes were"),
                                 " killed before a trace was begun, and not counted here. To make a trace of what is "
                                 "left: gpumem recover ",
                                 ShellQuoted(rings.front())));
}

}  // namespace

std::vector<std::string> TracesOfFolder(const std::string& folder) { return FilesOfFolder(folder, ".gmtrace"); }

std::vector<std::string> RingsWithoutTrace(const std::string& folder) {
  std::vector<std::string> rings = FilesOfFolder(folder, ".ring");
  std::erase_if(rings, [](const std::string& path) {
    const absl::StatusOr<RingFile> ring = RingFile::Open(path);
    return !ring.ok() || ring->header().moved == 0 || ring->header().trace_inode != 0;
  });
  return rings;
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
  SayRingsWithoutTrace(folder, console);
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
