// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <unistd.h>

#include <iostream>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/live/ctl_memory.h"
#include "cli/trace_options.h"
#include "live/ctl_answers.h"
#include "live/ctl_client.h"
#include "live/ctl_snapshot.h"

namespace gpumem {
namespace {

constexpr absl::string_view kCommands[] = {"memory",   "status", "start",   "stop",      "flush", "mark",
                                           "snapshot", "dump",   "tensors", "gradients", "gc",    "backtrace",
                                           "owners",   "eval",   "repl",    "settings",  "set"};

void BeginAnswer(absl::string_view asked, JsonWriter* json) {
  json->BeginObject();
  json->Field("schema_version", kJsonSchemaVersion);
  json->Field("command", "ctl");
  json->Field("asked", asked);
}

class CtlCommand final : public Command {
 public:
  absl::string_view name() const override { return "ctl"; }
  CommandPlace place() const override { return {CommandGroup::kLive, 3}; }
  absl::string_view summary() const override { return "list, start, stop and query running recordings"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override {
    return "[FLAGS] [PID [status|start|stop|flush|mark TEXT|snapshot "
           "TEXT|dump|tensors|gradients|gc|backtrace|owners|eval "
           "TEXT|repl|settings|set NAME=VALUE]]";
  }
  absl::string_view help() const override {
    return R"(Controls programs that run with libgpumemshim.so and have used CUDA. Without PID: lists yours.

  memory      what is allocated now, by category, module and line, from the trace so far (the default)
  status      what is recorded, into which file, how many events were dropped
  start       start or resume recording, from what PyTorch holds at that moment
  stop        stop recording until the next start; calls pass through
  flush       returns once everything recorded so far is in the file
  mark TEXT   adds a mark, which reports and timelines show
  snapshot TEXT   the same, and reports show what was alive then
  dump        flush, then copy the trace so far into a file of its own (-o)
  tensors     the live Python tensors and who refers to them; pauses the program
  gradients   NaN and Inf, norm, smallest and largest of each gradient; launches kernels
  gc          Python's collector and PyTorch's empty_cache(), with what that gave back
  backtrace   the Python frames of all threads
  owners      records who owns GPU memory now; gpumemshim leaks shows it
  eval TEXT   an expression's value in __main__; only where GPUMEMSHIM_EVAL=1 was set. repl reads many
  settings    what the recorder is set to, and what of it can be changed now
  set NAME=VALUE  changes one of those, such as GPUMEMSHIM_LOG=debug or GPUMEMSHIM_STATUS=10s

  gpumemshim ctl
  GPUMEMSHIM_START=off gpumemshim run -- python serve.py &      and later:
  gpumemshim ctl 4242 start
  gpumemshim ctl 4242 mark "traffic doubled"
  gpumemshim ctl 4242 dump -o now.gmtrace && gpumemshim report now.gmtrace

PID may be that of the gpumemshim run, shell or launcher that started the one recorded program.
Only the user who owns the program, and root, may do this.
)";
  }
  size_t most_arguments() const override { return std::numeric_limits<size_t>::max(); }

  void AddFlags(Flags* flags) override {
    flags->Add("-o,--output", &output_, "dump: where to (gpumemshim.PROGRAM.PID.snapshot.gmtrace)").Value("FILE");
    flags->Add("--force", &force_, "dump: replace FILE if it exists");
    flags->Add("--json", &json_, "print JSON");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (arguments.empty()) return List(console);
    int pid = 0;
    if (!absl::SimpleAtoi(arguments[0], &pid) || pid <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(arguments[0], " is not a process id. gpumemshim ctl lists the processes that listen."));
    }
    const std::string asked = arguments.size() > 1 ? arguments[1] : "memory";
    if (const std::string problem = ProblemWith(asked, arguments.size()); !problem.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(problem, " See gpumemshim ctl --help."));
    }
    const bool asks_first = asked == "memory" || asked == "repl";
    const std::string request = asks_first ? "status" : absl::StrJoin(arguments.begin() + 1, arguments.end(), " ");
    if (request.find_first_of("\r\n") != std::string::npos || request.size() > kLongestRequest) {
      return absl::InvalidArgumentError("a mark, or what is to be evaluated, is one line of at most 1,024 bytes.");
    }
    absl::StatusOr<ControlAnswer> answer = AskProcess(pid, request);
    if (absl::IsNotFound(answer.status())) {
      const std::vector<int> below = ListenersBelow(pid);
      if (below.size() > 1) {
        return absl::InvalidArgumentError(absl::StrCat("process ", pid, " is not recorded, but ", below.size(),
                                                       " that it started are: ", absl::StrJoin(below, ", "),
                                                       ". Give one of them: gpumemshim ctl ", below[0], " ", request));
      }
      if (below.size() == 1) {
        console->Complain(absl::StrCat("process ", pid, " is not recorded; asking ", below[0], ", which it started."));
        pid = below[0];
        answer = AskProcess(pid, request);
      }
    }
    absl::Status status = answer.status();
    if (status.ok() && asked == "repl") return ReadAndEvaluate(pid, console);
    if (status.ok() && asked == "memory") {
      status = PrintMemoryNow(pid, json_, console);
      if (status.ok()) return kExitFine;
    }
    Snapshot snapshot;
    if (status.ok() && asked == "dump") {
      const std::string to = output_.empty() ? SnapshotName(answer->Text("file")) : output_;
      absl::StatusOr<Snapshot> taken =
          TakeSnapshot(pid, answer->Text("file"), answer->Number("file_bytes"), to, force_);
      status = taken.status();
      if (taken.ok()) snapshot = *std::move(taken);
    }
    if (!status.ok()) {
      console->Complain(absl::StrCat(status.message(), "."));
      return absl::IsFailedPrecondition(status) ? kExitCheckFailed : kExitCannotRead;
    }
    console->Print(json_ ? Json(asked, *answer, snapshot) : Words(asked, *answer, snapshot));
    return asked == "eval" && !WasEvaluated(*answer) ? kExitCheckFailed : kExitFine;
  }

 private:
  static constexpr size_t kLongestRequest = 1024 + 5;

  static std::string ProblemWith(const std::string& asked, size_t arguments) {
    bool known = false;
    for (const absl::string_view word : kCommands) known = known || word == asked;
    if (!known) return absl::StrCat("unknown ctl command \"", asked, "\".");
    const bool takes_text = asked == "mark" || asked == "snapshot" || asked == "eval" || asked == "set";
    if (takes_text && arguments < 3) return absl::StrCat(asked, " needs a text.");
    if (!takes_text && arguments > 2) return absl::StrCat(asked, " takes no argument.");
    return "";
  }

  // A line at a time, until the input's end.
  static int ReadAndEvaluate(int pid, Console* console) {
    const bool prompts = isatty(STDIN_FILENO) != 0;
    std::string line;
    for (;;) {
      if (prompts) console->Print(absl::StrCat(pid, ">>> "));
      if (!std::getline(std::cin, line)) break;
      if (absl::StripAsciiWhitespace(line).empty()) continue;
      const absl::StatusOr<ControlAnswer> answer = line.size() + 5 > kLongestRequest
                                                       ? absl::InvalidArgumentError("a line has at most 1,024 bytes")
                                                       : AskProcess(pid, absl::StrCat("eval ", line));
      if (answer.ok()) {
        console->Print(ConsoleText("eval", *answer));
        continue;
      }
      console->Complain(absl::StrCat(answer.status().message(), "."));
      if (!absl::IsInvalidArgument(answer.status()))
        return absl::IsFailedPrecondition(answer.status()) ? kExitCheckFailed : kExitCannotRead;
    }
    if (prompts) console->Print("\n");
    return kExitFine;
  }

  int List(Console* console) const {
    const std::vector<ControlAnswer> answers = AskAll();
    std::string out;
    if (!json_) {
      for (const ControlAnswer& answer : answers) out += StatusText(answer);
      if (answers.empty()) out = "No recorded processes found.\n";
      console->Print(out);
      return kExitFine;
    }
    JsonWriter json(&out);
    BeginAnswer("list", &json);
    json.Key("processes");
    json.BeginArray();
    for (const ControlAnswer& answer : answers) {
      json.BeginObject();
      WriteJsonStatus(answer, &json);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
    console->Print(absl::StrCat(out, "\n"));
    return kExitFine;
  }

  static std::string Json(const std::string& asked, const ControlAnswer& answer, const Snapshot& snapshot) {
    std::string out;
    JsonWriter json(&out);
    BeginAnswer(asked, &json);
    if (asked == "dump") {
      json.Field("snapshot_file", snapshot.path);
      json.Field("snapshot_bytes", snapshot.bytes);
    }
    if (IsOfSettings(asked)) {
      WriteJsonSettings(answer, &json);
    } else if (IsLive(asked)) {
      WriteLive(answer, &json);
    } else if (IsConsole(asked)) {
      WriteConsole(asked, answer, &json);
    } else if (asked == "flush" || asked == "dump") {
      json.Field("file", answer.Text("file"));
      json.Field("file_bytes", answer.Number("file_bytes"));
      json.Field("events", answer.Number("events"));
    } else if (asked == "owners") {
      json.Field("tensors", answer.Number("tensors"));
      json.Field("took_ms", answer.Number("took_ms"));
    } else if (asked != "mark" && asked != "snapshot") {
      WriteJsonStatus(answer, &json);
    }
    json.EndObject();
    return absl::StrCat(out, "\n");
  }

  static std::string Words(const std::string& asked, const ControlAnswer& answer, const Snapshot& snapshot) {
    if (asked == "mark" || asked == "snapshot") return "marked\n";
    if (asked == "owners") {
      return absl::StrCat("recorded who owns ", FormatCountOf(answer.Number("tensors"), "tensor", "tensors"), ", in ",
                          answer.Number("took_ms"), " ms. Next: gpumemshim leaks\n");
    }
    if (IsOfSettings(asked)) return SettingsText(answer);
    if (IsLive(asked)) return LiveText(asked, answer);
    if (IsConsole(asked)) return ConsoleText(asked, answer);
    if (asked == "dump") {
      return absl::StrCat(snapshot.path, ": ", FormatBytes(snapshot.bytes), ", ",
                          FormatCountOf(answer.Number("events"), "event", "events"),
                          " up to now. Next: gpumemshim report ", ShellQuoted(snapshot.path), "\n");
    }
    if (asked == "flush") {
      return absl::StrCat(EscapeControls(answer.Text("file")), ": ", FormatBytes(answer.Number("file_bytes")), ", ",
                          FormatCountOf(answer.Number("events"), "event", "events"), "\n");
    }
    return StatusText(answer);
  }

  std::string output_;
  bool force_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCtlCommand() { return std::make_unique<CtlCommand>(); }

}  // namespace gpumem
