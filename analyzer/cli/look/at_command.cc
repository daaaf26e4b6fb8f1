// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/attribution_answer.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "ledger/load/attribute.h"
#include "ledger/load/moment.h"
#include "ledger/load/window.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class AtCommand final : public Command {
 public:
  absl::string_view name() const override { return "at"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 2}; }
  absl::string_view summary() const override { return "what was alive at one moment, by category, module and stack"; }
  absl::string_view arguments() const override { return "[FLAGS] TIME|step N|STAGE|MARK|peak|end [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Shows what the memory of a GPU was used for at one moment: parameters, gradients, optimizer state,
activations and so on, each with its evidence; then which modules of the model and which lines of your
code hold it. The moment is the peak, the end of the program's own code, a time since the first event, the
highest moment of a step or stage, or a mark with this text (mark:TEXT if the text looks like a time). Of several
marks with one text it is the first; TEXT#3 is the third.
Without --device: the GPU with the largest peak.

  gpumemshim at peak
  gpumemshim at 12.5s run.gmtrace
  gpumemshim at step 3 --top 20
  gpumemshim at 'epoch 2 done'
  gpumemshim at 'validation#3'
  gpumemshim at peak --json | jq .categories
)";
  }
  size_t most_arguments() const override { return 3; }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    list_.AddFlags(flags, 10);
    flags_.AddFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    std::vector<std::string> rest = arguments;
    if (rest.empty()) {
      return absl::InvalidArgumentError(
          "which moment? Give peak, end, a time (1.5s), step N, a stage, or a mark's text: gpumemshim at peak");
    }
    std::string asked = rest.front();
    rest.erase(rest.begin());
    if (asked == "step" && !rest.empty()) {
      asked += " " + rest.front();
      rest.erase(rest.begin());
    }
    if (rest.size() > 1) {
      return absl::InvalidArgumentError("unexpected argument " + rest[1] + " (one trace at a time)");
    }
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, rest, console));
    AttributionRequest request;
    GPUMEM_ASSIGN_OR_RETURN(request.moments.emplace_back(), NamedMoment(asked, loaded.get()));
    GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(request, flags_.rules, loaded.get()));
    if (!attribution->moments.front().found && asked != "peak") {
      return NoSuchMoment(asked, *loaded);
    }
    TextOptions options = list_.ForText(Detail::kFull);
    if (trace_.json) options.top = list_.ForJson();
    Document answer = AtAnswer(asked, loaded->input, options);
    if (const std::string others = OtherMarks(asked, *loaded); !others.empty())
      answer.Paragraph("  ", others, Tone::kAside);
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  TraceOptions trace_;
  ListOptions list_;
  AttributionFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeAtCommand() { return std::make_unique<AtCommand>(); }

}  // namespace gpumem
