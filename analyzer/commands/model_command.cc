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

class ModelCommand final : public Command {
 public:
  absl::string_view name() const override { return "model"; }
  absl::string_view summary() const override {
    return "the model's parameters with their gradients and optimizer state";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return "Lists the parameters of the program's models with shape, type, device, bytes, whether they are trained, "
           "and the\n"
           "bytes of their gradients and optimizer state; totals, and how they are spread over types and devices. The\n"
           "largest are listed; --top 0 has all.\n"
           "\n"
           "  gpumem model\n"
           "  gpumem model --top 0\n"
           "  gpumem model --json | jq .totals\n"
           "  gpumem model --json | jq '.parameters[] | select(.trainable | not) | .name'\n";
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
    const std::unique_ptr<Attribution> attribution = AttributeLoaded(flags_, request, loaded.get(), console);
    if (attribution == nullptr) return kExitUsage;
    if (trace_.json) {
      console->Print(ModelJson(loaded->input, loaded->stacks.objects(), top_option_->count() > 0 ? top_ : 0));
      return loaded->exit_code;
    }
    Page page(console->out_style());
    AddHead(loaded->input, Detail::kBrief, &page);
    AddModel(loaded->input, loaded->stacks.objects(), top_, &page);
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

std::unique_ptr<Command> MakeModelCommand() { return std::make_unique<ModelCommand>(); }

}  // namespace gpumem
