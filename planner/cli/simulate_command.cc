// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "attach/preload.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "planner/cli/plan_flags.h"
#include "planner/launch/program.h"
#include "planner/launch/simulated_run.h"

namespace gpumem::plan {
namespace {

class SimulateCommand final : public Command {
 public:
  absl::string_view name() const override { return "simulate"; }
  CommandPlace place() const override { return {CommandGroup::kPredict, 3}; }
  absl::string_view summary() const override { return "run a program on a GPU that is not there"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override { return "[FLAGS] -- COMMAND [ARGUMENT...]"; }
  absl::string_view help() const override {
    return R"(Runs COMMAND, unmodified, on simulated CUDA: PyTorch and its allocator work as on a GPU, memory is handed out and
runs out, but kernels compute nothing, so results and timings mean nothing. No GPU and no driver is needed. Nothing is
recorded and nothing ends the program early: gpumemshim run records it, gpumemshim plan predicts what it needs.

  gpumemshim simulate -- python train.py
  gpumemshim run -- gpumemshim simulate -- python train.py
  gpumemshim simulate --device rtx4090 -- python train.py
  gpumemshim simulate --device-count 2 --memory 24GiB -- torchrun --nproc-per-node 2 train.py
  SIMCUDA_DATA_DEPENDENT=upper gpumemshim simulate -- python train.py        all of simcuda/README.md

gpumemshim becomes COMMAND: exit code and signals are its own. Codes of gpumemshim are 127 where COMMAND is not found,
126 where it cannot be executed, 2 also where the installed PyTorch does not fit, 3 where the simulated CUDA is missing.
)";
  }
  bool takes_command_line() const override { return true; }

  void AddFlags(Flags* flags) override {
    flags->Add("--device", &device_.device, "which GPU; gpumemshim plan --list-devices names all").Value("NAME");
    flags->Add("--memory", &device_.memory, "its memory, as a program sees it (24GiB)").Value("SIZE");
    flags->Add("--capability", &device_.capability, "its compute capability (8.6)").Value("X.Y");
    flags->Add("--device-count", &device_.ranks.devices, "how many of them (1)").Value("N");
    flags->Add("--force", &force_, "run even where the installed PyTorch is known not to fit");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* /*console*/) override {
    if (arguments.empty())
      return absl::InvalidArgumentError("no command to run. Like this: gpumemshim simulate -- python train.py");
    std::error_code error;
    const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    GPUMEM_ASSIGN_OR_RETURN(const SimulationTools tools, FindSimulationTools(program, ""));
    GPUMEM_RETURN_IF_ERROR(DescribeDevices());
    return Become(tools, arguments);
  }

 private:
  // Without a flag the devices are what SIMCUDA_* says.
  absl::Status DescribeDevices() const {
    RunRequest request;
    GPUMEM_RETURN_IF_ERROR(device_.Fill(&request));
    Variables variables;
    if (!device_.device.empty() || !device_.memory.empty() || !device_.capability.empty())
      variables = DeviceVariables(request.device);
    if (device_.ranks.devices.has_value())
      variables.emplace_back("SIMCUDA_DEVICES", absl::StrCat(request.device_count));
    for (const auto& [name, value] : variables) {
      if (value.empty()) {
        unsetenv(name.c_str());
      } else {
        setenv(name.c_str(), value.c_str(), 1);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> Become(const SimulationTools& tools, const std::vector<std::string>& command) const {
    std::vector<std::string> words = ProgramWords(tools, false, {});
    words.pop_back();  // "--"
    words.insert(words.end(), {"--called", "gpumemshim simulate"});
    if (force_) words.emplace_back("--force");
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    if (FindProgram(words[0]).empty()) {
      return absl::NotFoundError(
          absl::StrCat("there is no ", words[0], " on PATH, which finds out what the program's PyTorch needs"));
    }
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execvp(pointers[0], pointers.data());
    return absl::UnavailableError(absl::StrCat(words[0], " cannot be started: ", std::strerror(errno)));
  }

  PlanFlags device_;
  bool force_ = false;
};

}  // namespace
}  // namespace gpumem::plan

std::unique_ptr<gpumem::Command> gpumem::MakeSimulateCommand() { return std::make_unique<plan::SimulateCommand>(); }
