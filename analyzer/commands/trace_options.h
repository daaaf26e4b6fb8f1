// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the commands that read a trace have in common: their flags, finding the file, analyzing it, and the exit codes
// that follow from it.
//
//   TraceOptions options;
//   options.AddFlags(&app);
//   ...
//   const LoadedTrace loaded = LoadTrace(options, arguments, console);
//   if (loaded.exit_code != kExitFine && loaded.exit_code != kExitDamaged) return loaded.exit_code;

#ifndef GPUMEM_ANALYZER_COMMANDS_TRACE_OPTIONS_H_
#define GPUMEM_ANALYZER_COMMANDS_TRACE_OPTIONS_H_

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "commands/console.h"
#include "commands/symbol_flags.h"
#include "replay/analysis.h"
#include "replay/analyze.h"
#include "report/input.h"
#include "symbols/symbolizer.h"
#include "trace/stack_table.h"

namespace gpumem {

struct TraceOptions {
  bool json = false;
  int device = -1;
  std::string layer = "all", from, to;
  SymbolFlags symbols;
  // Not flags here: commands set them.
  uint32_t timeline_buckets = 240, plateaus = 5;
  bool shows_stacks = true;  // false: LoadTrace looks nothing up

  // --json, --device, --layer, --from, --to, and SymbolFlags.
  void AddFlags(CLI::App* app);
  // The same without the last, for commands that resolve no frames.
  void AddFilterFlags(CLI::App* app);
  bool filters() const { return device >= 0 || layer != "all" || !from.empty() || !to.empty(); }
};

// The flags as replay/ wants them. Complains and returns false where they make no sense.
bool MakeAnalyzeOptions(const TraceOptions& options, AnalyzeOptions* result, Console* console);

// How lists are printed: --top/--limit, --full-stacks, --native, --by.
struct ListOptions {
  size_t top = 10;
  bool top_given = false;
  bool full_stacks = false;
  std::string native = "telling";
  std::string by = "line";

  void AddFlags(CLI::App* app, size_t default_top);
  TextOptions ForText(Detail detail) const;
  // Machine answers are whole unless a limit was asked for.
  size_t ForJson() const { return top_given ? top : 0; }

 private:
  CLI::Option* top_option_ = nullptr;
};

struct LoadedTrace {
  int exit_code = 0;
  Analysis analysis;
  StackTable stacks;
  std::unique_ptr<Symbolizer> symbolizer;
  std::unique_ptr<StackSource> source;
  ReportInput input;

  bool readable() const { return source != nullptr; }
};

// Complains and sets exit_code where the trace cannot be read or the flags make no sense. Never null. `look`:
// Analyze's.
std::unique_ptr<LoadedTrace> LoadTrace(const TraceOptions& options, const std::vector<std::string>& arguments,
                                       Console* console, const FurtherLook& look = nullptr);

// The file itself, or the newest *.gmtrace of a directory; "" means the working directory.
absl::StatusOr<std::string> FindTrace(const std::string& argument);

// `text` so that a shell takes it as one word.
std::string ShellQuoted(const std::string& text);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_COMMANDS_TRACE_OPTIONS_H_
