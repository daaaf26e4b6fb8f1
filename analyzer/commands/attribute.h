// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the commands that say what memory was for have in common: the rules' flag, and asking attribution/ about a
// loaded trace.
//
//   const std::unique_ptr<Attribution> attribution = AttributeLoaded(flags, request, loaded.get(), console);
//   if (attribution == nullptr) return kExitUsage;

#ifndef GPUMEM_ANALYZER_COMMANDS_ATTRIBUTE_H_
#define GPUMEM_ANALYZER_COMMANDS_ATTRIBUTE_H_

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "attribution/attribution.h"
#include "commands/console.h"
#include "commands/trace_options.h"

namespace gpumem {

struct AttributionFlags {
  std::string rules;  // a file
  void AddFlags(CLI::App* app);
};

// Names of the trace's frames; valid while `loaded` is.
FrameResolver ResolverOf(LoadedTrace* loaded);

// Sets loaded->input.attribution to the result, which must stay where it is. Complains and returns null where the
// rules or the trace cannot be read. `request.device` is set here: to the one with the largest peak.
std::unique_ptr<Attribution> AttributeLoaded(const AttributionFlags& flags, AttributionRequest request,
                                             LoadedTrace* loaded, Console* console);

// Whether the program's objects or autograd said anything in this trace: where not, a short report leaves categories
// out.
bool SaysWhatFor(const Analysis& analysis);

// The moments that the program asked for (gpumemshim_snapshot), the last ones where there are very many.
std::vector<MomentQuery> SnapshotQueries(const Analysis& analysis);

// "peak", a time, "step 12" or "step:12", else a mark's text ("mark:TEXT" where that looks like something else).
MomentQuery ParseMoment(const std::string& asked, const LoadedTrace& loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_COMMANDS_ATTRIBUTE_H_
