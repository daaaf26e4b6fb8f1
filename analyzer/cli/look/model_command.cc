// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/training/training.h"
#include "cli/commands.h"
#include "cli/look/attributed_list.h"

namespace gpumem {
namespace {

class ModelCommand final : public AttributedList {
 public:
  absl::string_view name() const override { return "model"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 9}; }
  absl::string_view summary() const override {
    return "the model's parameters with their gradients and optimizer state";
  }
  absl::string_view help() const override {
    return R"(Lists the parameters of the program's models: shape, type, device, bytes, whether they are trained, and the
bytes of their gradients and optimizer state. Totals are also given by component, type, device and
optimizer group. The largest parameters are listed; --top 0 lists all.

  gpumemshim model
  gpumemshim model --top 0
  gpumemshim model --json | jq .totals
  gpumemshim model --json | jq '.parameters[] | select(.trainable | not) | .name'
)";
  }

 private:
  Document Answer(const LoadedTrace& loaded, size_t top) const override {
    return ModelAnswer(loaded.input, loaded.stacks.objects(), top);
  }
};

}  // namespace

std::unique_ptr<Command> MakeModelCommand() { return std::make_unique<ModelCommand>(); }

}  // namespace gpumem
