// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the commands that read a trace have in common: their flags, loading the trace that they name, and the exit code
// that follows from it.
//
//   TraceOptions options;
//   options.AddFlags(flags);
//   ...
//   GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(options, arguments, console));
//   ...
//   return ExitCodeOf(*loaded);

#ifndef GPUMEM_ANALYZER_CLI_TRACE_OPTIONS_H_
#define GPUMEM_ANALYZER_CLI_TRACE_OPTIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "cli/flags.h"
#include "cli/symbol_flags.h"
#include "ledger/load/input.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

struct TraceOptions {
  bool json = false;
  int device = -1;
  std::string layer = "all", from, to;
  std::string sources;  // a folder
  SymbolFlags symbols;
  // Not flags here: commands set them.
  uint32_t timeline_buckets = 240, plateaus = 5;
  bool shows_stacks = true;  // false: LoadTrace looks nothing up

  // --json, --device, --layer, --from, --to, and SymbolFlags.
  void AddFlags(Flags* flags);
  // The same without the last, for commands that resolve no frames.
  void AddFilterFlags(Flags* flags);
  // --sources, for commands that show lines of source files.
  void AddSourceFlag(Flags* flags);
  // InvalidArgument where the flags make no sense.
  absl::StatusOr<AnalyzeOptions> ForAnalyze() const;
  // The first of `arguments` is the place. Progress goes to `console`, which must outlive what is loaded.
  absl::StatusOr<LoadRequest> Request(const std::vector<std::string>& arguments, Console* console) const;
  bool filters() const { return device >= 0 || layer != "all" || !from.empty() || !to.empty(); }
};

struct AttributionFlags {
  std::string rules;  // a file
  void AddFlags(Flags* flags);
};

// How lists are printed: --top/--limit, --full-stacks, --native, --by.
struct ListOptions {
  size_t top = 10;
  bool full_stacks = false;
  std::string native = "telling";
  std::string by = "line";

  void AddFlags(Flags* flags, size_t default_top);
  TextOptions ForText(Detail detail) const;
  // Machine answers are whole unless a limit was asked for.
  size_t ForJson(size_t otherwise = 0) const { return top_option_.given() ? top : otherwise; }

 private:
  Flag top_option_;
};

// With times in the place of names in --from and --to ("step 10", a stage, a mark, end): the trace is read once for
// them. InvalidArgument where it has no such moment.
absl::StatusOr<TraceOptions> WithTimes(const TraceOptions& options, const std::vector<std::string>& arguments,
                                       Console* console);

// What is printed beside the answer: symbols that could not be found, and damage. Ends the line of progress.
void ReportLoading(const TraceOptions& options, LoadedTrace* loaded, Console* console);

// loading/'s LoadTrace with the flags of a command, and ReportLoading.
absl::StatusOr<std::unique_ptr<LoadedTrace>> LoadTrace(const TraceOptions& options,
                                                       const std::vector<std::string>& arguments, Console* console,
                                                       FurtherLook look = nullptr);

// The same for a section of a report: of several under one command line those with the same request share what the
// first of them loaded, as long as a SharedLoads is there.
absl::StatusOr<std::shared_ptr<LoadedTrace>> LoadSection(const TraceOptions& options,
                                                         const std::vector<std::string>& arguments, Console* console);

// At most one at a time. Not thread-safe.
class SharedLoads {
 public:
  SharedLoads();
  SharedLoads(const SharedLoads&) = delete;
  SharedLoads& operator=(const SharedLoads&) = delete;
  ~SharedLoads();

  std::shared_ptr<LoadedTrace>& Of(const std::string& request) { return loaded_[request]; }

 private:
  std::map<std::string, std::shared_ptr<LoadedTrace>> loaded_;
};

// kExitDamaged where answers are of a part of what happened: the trace is damaged, or its recorder lost events. Else
// kExitFine.
int ExitCodeOf(const LoadedTrace& loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_TRACE_OPTIONS_H_
