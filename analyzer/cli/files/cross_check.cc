// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/files/cross_check.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "attach/child.h"
#include "attach/preload.h"
#include "base/file_output.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "cli/files/cross_check_page.h"
#include "cli/trace_options.h"
#include "ledger/load/find_traces.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

std::string EndOf(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("The command died of signal ", WTERMSIG(status), ".");
  return WEXITSTATUS(status) == 0 ? "" : absl::StrCat("The command ended with exit code ", WEXITSTATUS(status), ".");
}

absl::StatusOr<std::vector<CrossChecked>> CheckAll(const std::vector<std::string>& traces) {
  std::vector<CrossChecked> processes;
  for (const std::string& trace : traces) {
    GPUMEM_ASSIGN_OR_RETURN(CrossEvidence evidence, ReadCrossEvidence(trace));
    CrossCheck check = Join(evidence);
    processes.push_back({std::move(evidence), std::move(check)});
  }
  return processes;
}

int CodeOf(const std::vector<CrossChecked>& processes) {
  bool compared = false, unexplained = false;
  for (const CrossChecked& process : processes) {
    compared |= process.check.compared;
    unexplained |= process.check.unexplained() != 0;
  }
  return unexplained ? kExitCheckFailed : compared ? kExitFine : kExitCannotRead;
}

std::string CrossCheckJson(const std::vector<CrossChecked>& processes, const std::string& traces) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "doctor");
  json.Field("traces", traces);
  WriteJsonCrossCheck(processes, &json);
  json.EndObject();
  out += '\n';
  return out;
}

bool AreTraces(const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(), [](const std::string& word) {
    std::error_code ignored;
    return absl::EndsWith(word, ".gmtrace") && fs::is_regular_file(word, ignored);
  });
}

// Prints the comparison. `traces`: where they were kept, "" where they were not, or the user knows.
void Print(const std::vector<CrossChecked>& processes, const std::string& traces, bool json, Console* console) {
  if (json) return console->Print(CrossCheckJson(processes, traces));
  Page page(console->out_style());
  if (processes.empty()) {
    page.Line(
        "No trace was written: the program made no CUDA allocation, was killed in its first moments, or could not be "
        "recorded.",
        Tone::kAlarm);
  } else {
    AddCrossCheck(processes, &page);
  }
  if (!traces.empty()) page.Line(absl::StrCat("The traces: ", traces));
  console->Print(page.text());
}

absl::StatusOr<int> RunAndCompare(const std::vector<std::string>& command_line, bool json, Console* console) {
  GPUMEM_ASSIGN_OR_RETURN(const std::string folder, NewTemporaryFolder("cross-check"));
  GPUMEM_RETURN_IF_ERROR(PreloadRecorder());
  setenv("GPUMEMSHIM_OUTPUT", absl::StrCat(folder, "/").c_str(), 1);
  setenv("GPUMEMSHIM_CUPTI", "wait", 1);  // a comparison is worth a slow start
  setenv("GPUMEMSHIM_QUIET", "1", 1);
  GPUMEM_ASSIGN_OR_RETURN(const int status, RunChild(command_line));
  GPUMEM_ASSIGN_OR_RETURN(const std::vector<CrossChecked> processes, CheckAll(FilesOfFolder(folder, ".gmtrace")));
  const int code = CodeOf(processes);
  const bool keep = code == kExitCheckFailed;
  std::error_code ignored;
  if (!keep) fs::remove_all(folder, ignored);
  if (const std::string end = EndOf(status); !end.empty()) console->Complain(end);
  Print(processes, keep ? folder : "", json, console);
  return code;
}

}  // namespace

absl::StatusOr<int> CrossCheckCommand(const std::vector<std::string>& words, bool json, Console* console) {
  if (words.empty())
    return absl::InvalidArgumentError(
        "no command to run. Like this: gpumemshim doctor --cross-check -- python train.py");
  if (!AreTraces(words)) return RunAndCompare(words, json, console);
  GPUMEM_ASSIGN_OR_RETURN(const std::vector<CrossChecked> processes, CheckAll(words));
  Print(processes, "", json, console);
  return CodeOf(processes);
}

}  // namespace gpumem
