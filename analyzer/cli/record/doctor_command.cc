// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/files/cross_check.h"
#include "cli/record/doctor_checks.h"
#include "cli/record/doctor_conclusion.h"
#include "render/page.h"
#include "trace/ring/ring_leftovers.h"

namespace gpumem {
namespace {

absl::string_view HealthName(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarning:
      return "warn";
    case Health::kFailure:
      break;
  }
  return "fail";
}

Tone HealthTone(Health health) {
  return health == Health::kOk ? Tone::kGood : health == Health::kWarning ? Tone::kWarning : Tone::kAlarm;
}

std::string EnvironmentOr(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::vector<Finding> CheckMachine(bool clean) {
  const std::string rings = RingFolder();
  std::vector<Finding> findings = {CheckLibrary(),         CheckUnwinder(),
                                   CheckDriver(),          CheckPreload(EnvironmentOr("LD_PRELOAD", "")),
                                   CheckRingMemory(rings), CheckWorkingDirectory(),
                                   CheckFileLimit(),       CheckCoreLimit(),
                                   CheckSymbols(),         CheckCupti()};
  for (Finding& ring : CheckRings(rings, clean)) findings.push_back(std::move(ring));
  return findings;
}

void AddFinding(const Finding& finding, Page* page) {
  constexpr int kLead = 18;
  page->Line({{HealthTone(finding.health), PadRight(HealthName(finding.health), 6)},
              {Tone::kHeading, PadRight(finding.check, kLead - 6)},
              {Tone::kPlain, finding.found}});
  if (!finding.next.empty()) page->Paragraph(PadRight("", kLead), absl::StrCat("-> ", finding.next));
}

std::string FindingsJson(const std::vector<Finding>& findings, Health worst) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "doctor");
  json.Field("health", HealthName(worst));
  json.Key("findings");
  json.BeginArray();
  for (const Finding& finding : findings) {
    json.BeginObject(JsonLayout::kOneLine);
    json.Field("check", finding.check);
    json.Field("health", HealthName(finding.health));
    json.Field("found", finding.found);
    json.Field("next", finding.next);
    json.EndObject();
  }
  json.EndArray();
  const Conclusion conclusion = Conclude(findings);
  json.Field("recorded", ExtentName(conclusion.extent));
  json.Field("conclusion", conclusion.sentence);
  json.Field("change", conclusion.change);
  json.EndObject();
  out += '\n';
  return out;
}

class DoctorCommand final : public Command {
 public:
  absl::string_view name() const override { return "doctor"; }
  CommandPlace place() const override { return {CommandGroup::kRecord, 3}; }
  absl::string_view summary() const override { return "whether this machine or program can be recorded, and why not"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override { return "[FLAGS] [PID | FILE... | -- COMMAND [ARGUMENT...]]"; }
  absl::string_view help() const override {
    return R"(Checks the library, the unwinder, the CUDA driver, LD_PRELOAD, /dev/shm and the limits of this shell.
With COMMAND also the program to be traced; it is not started, but a Python interpreter is asked for its
version. With PID also a running program. Exit code 1 if a check fails.

With --cross-check COMMAND is run, recorded by the library and by NVIDIA's CUPTI side by side, and what the
two saw is compared (docs/cross-check.md). Exit code 0: every difference has a known cause. 1: one has not.
3: CUPTI recorded nothing, so nothing was compared.

  gpumemshim doctor
  gpumemshim doctor --clean
  gpumemshim doctor -- python train.py
  gpumemshim doctor 4242
  gpumemshim doctor --cross-check -- python train.py
  gpumemshim doctor --cross-check run.gmtrace      recorded before, with GPUMEMSHIM_CUPTI=1
)";
  }
  bool takes_command_line() const override { return true; }

  void AddFlags(Flags* flags) override {
    flags->Add("--cross-check", &cross_check_, "run COMMAND, or read traces, and compare the recorder with CUPTI");
    flags->Add("--clean", &clean_, "put the rings of dead processes beside their traces");
    flags->Add("--json", &json_, "for machines (docs/json.md)");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (cross_check_) return CrossCheckCommand(arguments, json_, console);
    std::vector<Finding> findings = CheckMachine(clean_);
    if (!arguments.empty()) {
      pid_t pid = 0;
      const bool is_pid = arguments.size() == 1 && absl::SimpleAtoi(arguments.front(), &pid) && pid > 0;
      const std::vector<Finding> target = is_pid ? CheckProcess(pid) : CheckCommand(arguments);
      findings.insert(findings.end(), target.begin(), target.end());
    }
    Health worst = Health::kOk;
    for (const Finding& finding : findings) worst = std::max(worst, finding.health);
    console->Print(json_ ? FindingsJson(findings, worst) : Text(findings, worst, console->out_style()));
    return worst == Health::kFailure ? kExitCheckFailed : kExitFine;
  }

 private:
  static std::string Text(const std::vector<Finding>& findings, Health worst, const TextStyle& style) {
    Page page(style);
    for (const Finding& finding : findings) AddFinding(finding, &page);
    page.Gap();
    const Conclusion conclusion = Conclude(findings);
    std::string last = conclusion.sentence;
    if (!conclusion.change.empty()) {
      absl::StrAppend(&last, " First: ", conclusion.change);
    } else if (conclusion.extent == Conclusion::Extent::kAll) {
      absl::StrAppend(&last, " Next: gpumemshim run -- python train.py");
    }
    page.Paragraph("", last, HealthTone(worst));
    return page.text();
  }

  bool json_ = false, clean_ = false, cross_check_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDoctorCommand() { return std::make_unique<DoctorCommand>(); }

}  // namespace gpumem
