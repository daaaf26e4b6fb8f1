// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/training/training.h"
#include "cli/commands.h"
#include "cli/look/attributed_list.h"

namespace gpumem {
namespace {

class ModulesCommand final : public AttributedList {
 public:
  absl::string_view name() const override { return "modules"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 8}; }
  absl::string_view summary() const override { return "what each module of the model allocated, by stage"; }
  absl::string_view help() const override {
    return R"(Lists the modules of the model (torch.nn.Module) with what their calls allocated in each stage: in total, at
most at once, what autograd saved of it for the backward pass, and temporaries. Memory of the backward pass
counts for the module whose forward pass it belongs to.

  gpumemshim modules
  gpumemshim modules --top 0 --rules my.rules
  gpumemshim modules --print-rules > my.rules
  gpumemshim modules --json | jq '.modules[] | select(.stage == "forward") | {fqn, saved_peak_bytes}'
)";
  }

  void AddFlags(Flags* flags) override {
    AttributedList::AddFlags(flags);
    flags->Add("--print-rules", &prints_rules_, "print the built-in rules of --rules and end");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (!prints_rules_) return AttributedList::Run(arguments, console);
    console->Print(Rules::BuiltIn());
    return kExitFine;
  }

 private:
  AttributionRequest Request() const override {
    AttributionRequest request;
    request.modules = true;
    return request;
  }
  Document Answer(const LoadedTrace& loaded, size_t top) const override { return ModulesAnswer(loaded.input, top); }

  bool prints_rules_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeModulesCommand() { return std::make_unique<ModulesCommand>(); }

}  // namespace gpumem
