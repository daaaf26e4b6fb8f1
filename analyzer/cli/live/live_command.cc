// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <unistd.h>

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/symbol_flags.h"
#include "live/live_frame.h"
#include "live/live_job.h"
#include "live/live_view.h"
#include "render/draw.h"

namespace gpumem {
namespace {

constexpr double kLeastScreenInterval = 0.05, kMostScreenInterval = 3600;

std::string FrameText(const LiveFrame& frame, const TextStyle& style) {
  std::string text;
  const LiveSize size{0, style.terminal ? style.width : std::max(style.width, 100), style.utf8, style.phrases};
  for (const LiveRow& row : DrawLive(frame, LiveView(), size)) {
    for (const Span& span : row) text += Paint(style, span.tone, span.text);
    text += '\n';
  }
  return text;
}

bool Runs(const LiveFrame& frame) {
  for (const LiveProcess& process : frame.processes) {
    if (MayGrow(process) && process.problem.empty()) return true;
  }
  return false;
}

class LiveCommand final : public Command {
 public:
  absl::string_view name() const override { return "live"; }
  CommandPlace place() const override { return {CommandGroup::kLive, 1}; }
  absl::string_view summary() const override { return "watch running programs: memory now, its curve, growth"; }
  absl::string_view arguments() const override { return "[FLAGS] [PID|FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Shows a running program's GPU memory in the terminal: a bar for each GPU, the curve so far, what memory is for at
the moment, the lines of code that hold it, steps a second, growth from step to step, when memory runs out, and what
was dropped. It reads the trace as it grows, also one on a shared disk; the program is not asked for anything.
Without an argument: the newest trace here whose program runs, else the newest one. Of a DIR: all its processes.
Keys: ? lists them.

  gpumemshim live
  gpumemshim live 4242                    a recorded process, or the gpumemshim run that started it
  gpumemshim live runs/                   all ranks of a job
  gpumemshim live --once                  one frame as text
  gpumemshim live --json --interval 10    one JSON object a line, until the program ends
)";
  }

  void AddFlags(Flags* flags) override {
    flags->Add("--once", &once_, "print one frame as text and exit");
    flags->Add("--json", &json_, "print JSON: one object, or with --interval one a line until the program ends");
    interval_option_ = flags->Add("--interval", &interval_, "seconds from frame to frame (1)").Value("SECONDS");
    flags->Add("--device", &device_, "the GPU that categories, lines and steps are of (that with the largest peak)")
        .Value("N")
        .AtLeastZero();
    symbols_.AddFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (!(interval_ >= kLeastScreenInterval && interval_ <= kMostScreenInterval))
      return absl::InvalidArgumentError("--interval takes 0.05 to 3600 seconds.");
    LiveJob::Options options;
    options.device = device_;
    GPUMEM_ASSIGN_OR_RETURN(options.symbols, symbols_.Options());
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<LiveJob> job,
                            LiveJob::Open(arguments.empty() ? "" : arguments[0], options));
    const auto interval = std::chrono::milliseconds(static_cast<int64_t>(interval_ * 1000));
    const bool repeats = json_ && interval_option_.given() && !once_;
    if (!json_ && !once_) {
      if (isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1) return ShowLive(job.get(), interval, console);
      return absl::InvalidArgumentError("the view needs a terminal. gpumemshim live --once prints one frame.");
    }
    for (;;) {
      job->Poll(true);
      const LiveFrame frame = job->Frame();
      console->Print(json_ ? ToJson(LiveDocument(frame), repeats ? JsonLayout::kOneLine : JsonLayout::kLines)
                           : FrameText(frame, console->out_style()));
      if (!repeats || console->print_failed() || !Runs(frame)) return ExitCodeOf(frame);
      std::this_thread::sleep_for(interval);
    }
  }

 private:
  static int ExitCodeOf(const LiveFrame& frame) {
    for (const LiveProcess& process : frame.processes) {
      if (!process.problem.empty()) return kExitDamaged;
    }
    return kExitFine;
  }

  bool once_ = false, json_ = false;
  double interval_ = 1;
  Flag interval_option_;
  int device_ = -1;
  SymbolFlags symbols_;
};

}  // namespace

std::unique_ptr<Command> MakeLiveCommand() { return std::make_unique<LiveCommand>(); }

}  // namespace gpumem
