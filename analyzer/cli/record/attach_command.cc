// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "attach/injector.h"
#include "attach/preload.h"
#include "attach/processes.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "live/ctl_answers.h"
#include "live/ctl_client.h"

namespace gpumem {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLongestLoad = std::chrono::seconds(20);  // until the library answers
constexpr auto kLongestTelling = std::chrono::seconds(3);
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(200);
constexpr auto kBetweenQuestions = std::chrono::milliseconds(10);

struct Attached {
  int pid = 0;
  bool was_there = false;  // the library: loaded by LD_PRELOAD, or attached before
  Injection injection;
  ControlAnswer status;
};

// What the recorder in the program is to know: where to write, and this process's own GPUMEMSHIM_ variables.
std::string SettingsFor(const std::string& output) {
  std::string lines = "GPUMEMSHIM_QUIET=1\n";
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text(*variable);
    if (!absl::StartsWith(text, "GPUMEMSHIM_") || text.find('\n') != absl::string_view::npos) continue;
    if (absl::StartsWith(text, "GPUMEMSHIM_LIBRARY=") || absl::StartsWith(text, "GPUMEMSHIM_OUTPUT=")) continue;
    absl::StrAppend(&lines, text, "\n");
  }
  if (!output.empty()) absl::StrAppend(&lines, "GPUMEMSHIM_OUTPUT=", std::filesystem::absolute(output).string(), "\n");
  return lines;
}

// Until it records and, for a moment more, until what existed was told.
absl::StatusOr<ControlAnswer> AwaitRecording(int pid, const std::string& library) {
  const Clock::time_point start = Clock::now();
  absl::StatusOr<ControlAnswer> answer = absl::UnavailableError("");
  for (Clock::time_point now = start; now < start + kLongestLoad; now = Clock::now()) {
    if (HasEnded(pid)) return absl::NotFoundError(absl::StrCat("process ", pid, " ended meanwhile"));
    answer = AskProcess(pid, "status");
    const bool records = answer.ok() && answer->Text("state") == "recording";
    if (records && (answer->Text("existing") != "awaited" || now > start + kLongestTelling)) return answer;
    if (answer.ok() && answer->Text("state") == "failed") break;
    std::this_thread::sleep_for(kBetweenQuestions);
  }
  if (answer.ok()) return answer;
  if (!HasLibrary(pid, library)) {
    return absl::UnavailableError(
        absl::StrCat("process ", pid, " did not load ", library,
                     ": a library that it needs may be missing there, or seccomp forbids it"));
  }
  return absl::UnavailableError(absl::StrCat(
      "process ", pid, " loaded the recorder, but does not answer; gpumemshim doctor ", pid, " may tell why"));
}

absl::StatusOr<Attached> AttachTo(int pid, const std::string& output) {
  Attached attached;
  attached.pid = pid;
  absl::StatusOr<ControlAnswer> answer = AskProcess(pid, "status");
  if (answer.ok()) {
    attached.was_there = true;
    GPUMEM_ASSIGN_OR_RETURN(attached.status, AskProcess(pid, "start"));
    return attached;
  }
  if (!absl::IsNotFound(answer.status())) return answer.status();
  GPUMEM_ASSIGN_OR_RETURN(const std::string library, FindShimLibrary());
  GPUMEM_ASSIGN_OR_RETURN(attached.injection, Inject(pid, library, SettingsFor(output)));
  GPUMEM_ASSIGN_OR_RETURN(attached.status, AwaitRecording(pid, library));
  return attached;
}

absl::StatusOr<ControlAnswer> DetachFrom(int pid) {
  GPUMEM_RETURN_IF_ERROR(AskProcess(pid, "flush").status());
  GPUMEM_RETURN_IF_ERROR(AskProcess(pid, "stop").status());
  GPUMEM_RETURN_IF_ERROR(AskProcess(pid, "flush").status());
  return AskProcess(pid, "status");
}

std::string TextOf(const Attached& attached, const std::string& output) {
  std::string text = StatusText(attached.status);
  if (attached.was_there) {
    absl::StrAppend(&text, "  the recorder was there already", output.empty() ? "" : "; its file stays the one above",
                    "\n");
  } else {
    absl::StrAppend(&text, "  one thread stood still for ", FormatTime(attached.injection.stopped_ns), "\n");
  }
  return text;
}

void BeginJson(JsonWriter* json) {
  json->BeginObject();
  json->Field("schema_version", kJsonSchemaVersion);
  json->Field("command", "attach");
  json->Key("processes");
  json->BeginArray();
}

absl::StatusOr<int> PidOf(const std::string& text) {
  int pid = 0;
  if (absl::SimpleAtoi(text, &pid) && pid > 0) return pid;
  return absl::InvalidArgumentError(absl::StrCat(text, " is not a process id"));
}

// Signals that end this command wait until it is signalled. False: the time is over.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, number);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }
  bool Await(absl::Duration time) const {
    const timespec longest = absl::ToTimespec(std::min(time, absl::Hours(24 * 365)));
    return sigtimedwait(&signals_, nullptr, &longest) > 0;
  }

 private:
  sigset_t signals_;
};

// How many requests for memory have failed for good: of PyTorch, and of CUDA where PyTorch is not there, since PyTorch
// tries again. nullopt: the process does not answer, or has ended.
std::optional<uint64_t> FailuresOf(int pid) {
  const absl::StatusOr<ControlAnswer> answer = AskProcess(pid, "status");
  if (!answer.ok()) return std::nullopt;
  const bool has_torch = answer->Text("existing") == "known" || answer->Text("existing") == "awaited";
  return answer->Number(has_torch ? "failed_torch" : "failed_cuda");
}

class AttachCommand final : public Command {
 public:
  absl::string_view name() const override { return "attach"; }
  CommandPlace place() const override { return {CommandGroup::kRecord, 2}; }
  absl::string_view summary() const override { return "start or stop recording in a program that already runs"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override { return "[--stop] [FLAGS] PID | --name TEXT"; }
  absl::string_view help() const override {
    return R"(Starts recording in a running program, as if it had been started with gpumemshim run at this moment. What PyTorch
holds then is known from its own snapshot. One thread is stopped for about a millisecond. --stop ends the
recording of a program, however it began: the recorder stays loaded and asleep, the trace is complete up to
now, and gpumemshim attach begins again.

  gpumemshim attach 4242                        until gpumemshim attach --stop 4242, or its end
  gpumemshim attach --stop 4242
  gpumemshim attach 4242 -o now.gmtrace --duration 30s
  gpumemshim attach --name train.py --detach-on-exit
  gpumemshim attach 4242 --until-oom            stay until a request for memory fails for good
  gpumemshim attach --all-ranks 4242            every process below a torchrun that uses CUDA

Needs the right to trace the process (ptrace). Where that is forbidden, start the program with
GPUMEMSHIM_START=off gpumemshim run, and later gpumemshim ctl PID start. docs/attach.md
)";
  }
  size_t most_arguments() const override { return 1; }

  void AddFlags(Flags* flags) override {
    const Flag stop = flags->Add("--stop", &stop_, "stop recording");
    flags->Add("-o,--output", &output_, "where the trace goes (as gpumemshim run)").Value("FILE").Excludes(stop);
    flags->Add("--duration", &duration_, "detach after this time, for example 30s or 5m").Value("TIME").Excludes(stop);
    flags->Add("--until-oom", &until_oom_, "stay until a request for memory fails for good, then detach")
        .Excludes(stop);
    flags->Add("--detach-on-exit", &detach_on_exit_, "stay until Ctrl-C, then detach").Excludes(stop);
    flags->Add("--name", &name_, "the process whose command line has this text").Value("TEXT");
    flags->Add("--all-ranks", &all_ranks_, "PID is a launcher: attach to the processes below it that use CUDA");
    flags->Add("--json", &json_, "print JSON");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    absl::Duration duration = absl::InfiniteDuration();
    if (!duration_.empty() && (!absl::ParseDuration(duration_, &duration) || duration <= absl::ZeroDuration()))
      return absl::InvalidArgumentError(absl::StrCat("invalid time \"", duration_, "\": give 30s, 5m or 1h"));
    GPUMEM_ASSIGN_OR_RETURN(const std::vector<int> pids, Targets(arguments));
    if (stop_) return Stop(pids, console);
    const EndSignals end;  // before anything is begun
    std::vector<int> attached;
    const int code = AttachToAll(pids, console, &attached);
    if (attached.empty() || (duration_.empty() && !detach_on_exit_ && !until_oom_)) return code;
    Await(end, duration, attached, console);
    int detach_code = code;
    for (const int pid : attached) {
      const absl::StatusOr<ControlAnswer> answer = DetachFrom(pid);
      if (answer.ok()) {
        if (!json_) console->Print(absl::StrCat("detached\n", StatusText(*answer)));
      } else {
        console->Complain(absl::StrCat(
            "process ", pid, " cannot be asked to stop, perhaps it has ended: ", answer.status().message(), "."));
        detach_code = kExitCannotRead;
      }
    }
    return detach_code;
  }

 private:
  // The end of the time, a signal, or what --until-oom waits for.
  void Await(const EndSignals& end, absl::Duration duration, const std::vector<int>& pids, Console* console) const {
    if (!until_oom_) {
      end.Await(duration);
      return;
    }
    std::map<int, uint64_t> before;
    for (const int pid : pids) before[pid] = FailuresOf(pid).value_or(0);
    const Clock::time_point start = Clock::now();
    while (absl::FromChrono(Clock::now() - start) < duration && !end.Await(kBetweenLooks)) {
      bool any_runs = false;
      for (const int pid : pids) {
        const std::optional<uint64_t> failures = FailuresOf(pid);
        any_runs |= failures.has_value();
        if (failures.value_or(0) <= before[pid]) continue;
        if (!json_) console->Print(absl::StrCat("process ", pid, " is out of memory\n"));
        return;
      }
      if (!any_runs) return;
    }
  }

  absl::StatusOr<std::vector<int>> Targets(const std::vector<std::string>& arguments) const {
    if (arguments.empty() == name_.empty())
      return absl::InvalidArgumentError("one process is needed: gpumemshim attach PID, or --name TEXT.");
    int pid = 0;
    if (!name_.empty()) {
      const std::vector<int> named = ProcessesNamed(name_);
      if (named.empty())
        return absl::NotFoundError(absl::StrCat("no process of yours has \"", name_, "\" in its command line"));
      if (named.size() > 1 && !all_ranks_)
        return absl::InvalidArgumentError(absl::StrCat("several processes have \"", name_,
                                                       "\" in their command lines: ", absl::StrJoin(named, ", "),
                                                       ". Give one of them, or --all-ranks."));
      if (all_ranks_ && named.size() > 1) return named;
      pid = named[0];
    } else {
      GPUMEM_ASSIGN_OR_RETURN(pid, PidOf(arguments[0]));
    }
    if (!all_ranks_) return std::vector<int>{pid};
    std::vector<int> ranks = CudaProcessesBelow(pid);
    if (ranks.empty()) return absl::NotFoundError(absl::StrCat("no process at or below ", pid, " has loaded CUDA"));
    return ranks;
  }

  int Stop(const std::vector<int>& pids, Console* console) const {
    std::string out;
    JsonWriter json(&out);
    BeginJson(&json);
    int code = kExitFine;
    for (const int pid : pids) {
      const absl::StatusOr<ControlAnswer> answer = DetachFrom(pid);
      if (!answer.ok()) {
        console->Complain(absl::StrCat(answer.status().message(), "."));
        code = absl::IsFailedPrecondition(answer.status()) ? kExitCheckFailed : kExitCannotRead;
        continue;
      }
      json.BeginObject();
      WriteJsonStatus(*answer, &json);
      json.EndObject();
      if (json_) continue;
      console->Say(
          absl::StrCat(StatusText(*answer), "Next: gpumemshim report ", ShellQuoted(answer->Text("file")), "\n"));
    }
    json.EndArray();
    json.EndObject();
    if (json_) console->Print(absl::StrCat(out, "\n"));
    return code;
  }

  int AttachToAll(const std::vector<int>& pids, Console* console, std::vector<int>* attached) const {
    std::string out;
    JsonWriter json(&out);
    if (json_) BeginJson(&json);
    int code = kExitFine;
    for (const int pid : pids) {
      const absl::StatusOr<Attached> done = AttachTo(pid, output_);
      if (!done.ok()) {
        console->Complain(absl::StrCat(done.status().message(), "."));
        code = absl::IsFailedPrecondition(done.status()) ? kExitCheckFailed : kExitCannotRead;
        continue;
      }
      attached->push_back(pid);
      if (!json_) {
        console->Say(TextOf(*done, output_));
        continue;
      }
      json.BeginObject();
      WriteJsonStatus(done->status, &json);
      json.Field("was_there", done->was_there);
      json.Field("stopped_ns", done->injection.stopped_ns);
      json.EndObject();
    }
    if (json_) {
      json.EndArray();
      json.EndObject();
      console->Print(absl::StrCat(out, "\n"));
    }
    return code;
  }

  std::string output_, duration_, name_;
  bool stop_ = false, detach_on_exit_ = false, until_oom_ = false, all_ranks_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeAttachCommand() { return std::make_unique<AttachCommand>(); }

}  // namespace gpumem
