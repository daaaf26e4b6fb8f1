// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AttributedList: a command that prints one list of what attribution found in a trace. The commands say which and how.

#ifndef GPUMEM_ANALYZER_CLI_LOOK_ATTRIBUTED_LIST_H_
#define GPUMEM_ANALYZER_CLI_LOOK_ATTRIBUTED_LIST_H_

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/trace_options.h"
#include "ledger/load/attribute.h"
#include "render/draw.h"

namespace gpumem {

class AttributedList : public Command {
 public:
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    flags_.AddFlags(flags);
    top_option_ = flags->Add("--top,--limit", &top_, "longest list; 0 = all (20)").Value("K");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadSection(trace_, arguments, console));
    GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(Request(), flags_.rules, loaded.get()));
    Narrow(loaded->input, attribution.get());
    const Document answer = Answer(*loaded, trace_.json && !top_option_.given() ? 0 : top_);
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  virtual AttributionRequest Request() const { return {}; }
  // Leaves out what lies outside of the times asked for.
  virtual void Narrow(const ReportInput& input, Attribution* attribution) const {
    static_cast<void>(input);
    static_cast<void>(attribution);
  }
  virtual Document Answer(const LoadedTrace& loaded, size_t top) const = 0;

  TraceOptions trace_;
  AttributionFlags flags_;
  size_t top_ = 20;
  Flag top_option_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_LOOK_ATTRIBUTED_LIST_H_
