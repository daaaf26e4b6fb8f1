// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "answers/report/leak_words.h"
#include "answers/report/owner_words.h"
#include "answers/report/sections.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "ledger/load/leaks.h"
#include "ledger/load/own_trace.h"
#include "render/draw.h"

namespace gpumem {
namespace {

constexpr char kSourcesNote[] =
    "Lines that may keep memory are not looked for: this trace is not this user's, or was not recorded on this machine "
    "since it started, so the source files that it names are not read. --sources DIR reads those in DIR.";

// Whether source files could tell more.
bool AnyOwnerIsUnknown(const LeakFindings& leaks) {
  return std::any_of(leaks.devices.begin(), leaks.devices.end(), [](const LeakDevice& device) {
    return std::any_of(device.rows.begin(), device.rows.end(), [](const LeakRow& row) {
      const bool has_owner = row.kind == LeakKind::kGraph || (row.kind == LeakKind::kMemory && !row.is_replaced);
      return row.status == LeakStatus::kGrowing && has_owner && !MainOwner(row) && row.candidate.line == 0;
    });
  });
}

class LeaksCommand final : public Command {
 public:
  absl::string_view name() const override { return "leaks"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 3}; }
  absl::string_view summary() const override {
    return "which lines keep more memory from step to step, and what was never freed";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Shows which lines of code hold more memory after each training step (without steps: after each iteration of
what repeats, such as a request or a batch). Each line is growing, stopped, or grew once; growth of parameters,
optimizer state and workspaces is expected. Then lists what was never freed.

  gpumemshim leaks
  gpumemshim leaks --check                       exit code 1 where something keeps growing, 7 if not known
  gpumemshim leaks --suppressions known.supp     hides growth that is meant to be (docs/leaks.md)
  gpumemshim leaks --from 60 --to 600            also what is alive at minute 10 and was not at minute 1
  gpumemshim leaks --sources ~/job sent.gmtrace  of a trace from elsewhere: the lines that keep memory
  gpumemshim leaks --json | jq '.devices[].leaks[] | {status, bytes_per_iteration, file, line}'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    trace_.AddSourceFlag(flags);
    list_.AddFlags(flags, 10);
    flags->Add("--check", &check_, "exit code 1 where something keeps growing, 7 where growth cannot be judged");
    flags->Add("--suppressions", &suppressions_, "file of leak:PATTERN lines: growth that is meant to be")
        .Value("FILE");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadSection(trace_, arguments, console));
    GPUMEM_ASSIGN_OR_RETURN(const auto leaks, LoadLeaks(suppressions_, loaded.get()));
    const bool is_withheld = trace_.sources.empty() && AnyOwnerIsUnknown(*leaks) &&
                             !IsOwnTrace(loaded->analysis.path, loaded->analysis.process);
    if (is_withheld && !trace_.json) console->Complain(kSourcesNote);
    const Document answer = LeaksAnswer(loaded->input, list_.ForText(Detail::kFull), list_.ForJson());
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCode(*loaded, *leaks);
  }

 private:
  // Where nothing is left, nothing can have leaked.
  int ExitCode(const LoadedTrace& loaded, const LeakFindings& leaks) const {
    if (!check_) return ExitCodeOf(loaded);
    uint64_t alive = 0;
    for (const DeviceAnalysis& device : loaded.analysis.devices)
      alive += device.leaks.at_end_torch.bytes + device.leaks.at_end_cuda.bytes;
    const bool is_unknown = leaks.loops.empty() && alive > 0;
    if (leaks.AnyGrows()) return kExitCheckFailed;
    return is_unknown && !loaded.is_damaged() ? kExitNotKnown : ExitCodeOf(loaded);
  }

  bool check_ = false;
  std::string suppressions_;
  TraceOptions trace_;
  ListOptions list_;
};

}  // namespace

std::unique_ptr<Command> MakeLeaksCommand() { return std::make_unique<LeaksCommand>(); }

}  // namespace gpumem
