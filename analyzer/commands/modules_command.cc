// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <CLI/CLI.hpp>

#include "commands/attribute.h"
#include "commands/command.h"
#include "commands/commands.h"
#include "commands/trace_options.h"
#include "report/attribution_json.h"
#include "report/attribution_sections.h"
#include "report/sections.h"

namespace gpumem {
namespace {

class ModulesCommand final : public Command {
 public:
  absl::string_view name() const override { return "modules"; }
  absl::string_view summary() const override { return "what each module of the model allocated, by stage"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return "Lists the modules of the model (torch.nn.Module) with what their calls allocated in each stage: all in "
           "all,\n"
           "most at once, what autograd kept of it for the backward pass, and temporaries. Memory of the backward "
           "pass\n"
           "counts for the module whose forward pass it belongs to.\n"
           "\n"
           "  gpumem modules\n"
           "  gpumem modules --top 0 --rules my.rules\n"
           "  gpumem modules --json | jq '.modules[] | select(.stage == \"forward\") | {fqn, saved_peak_bytes}'\n";
  }

  void AddFlags(CLI::App* app) override {
    trace_.AddFlags(app);
    flags_.AddFlags(app);
    top_option_ = app->add_option("--top,--limit", top_, "longest list; 0 = all (20)")->type_name("K");
  }

  int Run(const std::vector<std::string>& arguments, Console* console) override {
    const auto loaded = LoadTrace(trace_, arguments, console);
    if (!loaded->readable()) return loaded->exit_code;
    AttributionRequest request;
    request.modules = true;
    const std::unique_ptr<Attribution> attribution = AttributeLoaded(flags_, request, loaded.get(), console);
    if (attribution == nullptr) return kExitUsage;
    if (trace_.json) {
      console->Print(ModulesJson(loaded->input, top_option_->count() > 0 ? top_ : 0));
      return loaded->exit_code;
    }
    Page page(console->out_style());
    AddHead(loaded->input, Detail::kBrief, &page);
    AddModules(loaded->input, top_, &page);
    console->Print(page.text());
    return loaded->exit_code;
  }

 private:
  TraceOptions trace_;
  AttributionFlags flags_;
  size_t top_ = 20;
  CLI::Option* top_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> MakeModulesCommand() { return std::make_unique<ModulesCommand>(); }

}  // namespace gpumem
