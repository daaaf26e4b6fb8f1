// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/trace_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/format.h"
#include "commands/command.h"
#include "replay/analyze.h"
#include "report/state.h"
#include "symbols/stack_hash.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

// The Symbolizer as report/ wants it.
class SymbolizedStacks final : public StackSource {
 public:
  SymbolizedStacks(const StackTable* stacks, Symbolizer* symbolizer) : stacks_(stacks), symbolizer_(symbolizer) {}
  std::vector<ResolvedFrame> Frames(uint64_t stack_id) override { return symbolizer_->Resolve(stack_id); }
  uint64_t Hash(uint64_t stack_id) override { return StackHash(*stacks_, stack_id); }

 private:
  const StackTable* stacks_;
  Symbolizer* symbolizer_;
};

LayerFilter ParseLayer(const std::string& name) {
  if (name == "driver") return LayerFilter::kDriver;
  if (name == "runtime") return LayerFilter::kRuntime;
  return name == "torch" ? LayerFilter::kTorch : LayerFilter::kAll;
}

bool ParseBound(absl::string_view flag, const std::string& text, uint64_t* bound, Console* console) {
  if (text.empty()) return true;
  const std::optional<uint64_t> time = ParseTime(text);
  if (!time) {
    console->Complain(absl::StrCat(text, " is no time, in ", flag,
                                   ". Give seconds from the first event on, or 1.5s, 200ms, 1e9ns, 2min."));
    return false;
  }
  *bound = *time;
  return true;
}

}  // namespace

bool MakeAnalyzeOptions(const TraceOptions& options, AnalyzeOptions* result, Console* console) {
  result->device = options.device;
  result->layer = ParseLayer(options.layer);
  result->timeline_buckets = options.timeline_buckets;
  result->plateaus = options.plateaus;
  if (!ParseBound("--from", options.from, &result->from_ns, console) ||
      !ParseBound("--to", options.to, &result->to_ns, console))
    return false;
  if (result->from_ns <= result->to_ns) return true;
  console->Complain("--from is later than --to. Give the earlier time first.");
  return false;
}

void TraceOptions::AddFilterFlags(CLI::App* app) {
  app->add_flag("--json", json, "exact numbers for machines (docs/json.md)");
  app->add_option("--device", device, "only this GPU")
      ->type_name("N")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""));
  app->add_option("--layer", layer, "only events of driver, runtime or torch")
      ->type_name("LAYER")
      ->check(CLI::Validator(CLI::IsMember({"driver", "runtime", "torch", "all"})).description(""));
  app->add_option("--from", from, "look at what comes after this time (1.5s, 200ms)")->type_name("TIME");
  app->add_option("--to", to, "look at what comes before this time")->type_name("TIME");
}

void TraceOptions::AddFlags(CLI::App* app) {
  AddFilterFlags(app);
  symbols.AddFlags(app);
}

void ListOptions::AddFlags(CLI::App* app, size_t default_top) {
  top = default_top;
  top_option_ = app->add_option("--top,--limit", top, "longest list of stacks; 0 = all")->type_name("K");
  app->add_flag("--full-stacks", full_stacks, "the frames of every stack shown");
  app->add_option("--native", native, "with --full-stacks: native frames that tell something, all (full), or none")
      ->type_name("WHICH")
      ->check(CLI::Validator(CLI::IsMember({"telling", "full", "none"})).description(""));
  app->add_option("--by", by, "group by line of your code, or by stack")
      ->type_name("WHAT")
      ->check(CLI::Validator(CLI::IsMember({"line", "stack"})).description(""));
  app->parse_complete_callback([this] { top_given = top_option_->count() > 0; });
}

TextOptions ListOptions::ForText(Detail detail) const {
  TextOptions text;
  text.detail = detail;
  text.top = top;
  text.full_stacks = full_stacks;
  if (native == "full") text.native = NativeFrames::kFull;
  if (native == "none") text.native = NativeFrames::kNone;
  text.by_stack = by == "stack" || full_stacks;
  return text;
}

std::string ShellQuoted(const std::string& text) {
  static constexpr absl::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%=";
  if (!text.empty() && text[0] != '-' && text.find_first_not_of(std::string(kPlain)) == std::string::npos) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

absl::StatusOr<std::string> FindTrace(const std::string& argument) {
  std::error_code error;
  const std::string place = argument.empty() ? "." : argument;
  if (!fs::is_directory(place, error)) return place;
  std::string newest;
  fs::file_time_type newest_time;
  for (fs::directory_iterator entry(place, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() != ".gmtrace" || !entry->is_regular_file(ignored)) continue;
    const fs::file_time_type time = entry->last_write_time(ignored);
    if (!newest.empty() && time <= newest_time) continue;
    newest = argument.empty() ? entry->path().filename().string() : entry->path().string();
    newest_time = time;
  }
  if (error)
    return absl::PermissionDeniedError(
        absl::StrCat("cannot list ", place, ": ", error.message(), ". Name the trace file."));
  if (!newest.empty()) return newest;
  return absl::NotFoundError(absl::StrCat("no *.gmtrace in ", argument.empty() ? "the working directory" : argument,
                                          ". Make one with: gpumem run -- python train.py"));
}

std::unique_ptr<LoadedTrace> LoadTrace(const TraceOptions& options, const std::vector<std::string>& arguments,
                                       Console* console, const FurtherLook& look) {
  auto loaded = std::make_unique<LoadedTrace>();
  AnalyzeOptions asked;
  loaded->exit_code = kExitUsage;
  if (!MakeAnalyzeOptions(options, &asked, console) || !options.symbols.Check(console)) return loaded;
  loaded->exit_code = kExitCannotRead;
  const absl::StatusOr<std::string> path = FindTrace(arguments.empty() ? "" : arguments.front());
  if (!path.ok()) {
    console->Complain(path.status().message());
    return loaded;
  }
  const auto progress = [&](uint64_t done, uint64_t all) {
    console->Progress(absl::StrCat("reading ", *path), done, all);
  };
  absl::StatusOr<Analysis> analysis = Analyze(*path, asked, &loaded->stacks, progress, look);
  console->ProgressDone();
  if (!analysis.ok()) {
    console->Complain(analysis.status().message());
    return loaded;
  }
  loaded->analysis = *std::move(analysis);
  if (options.device >= 0 && loaded->analysis.devices.empty()) {
    console->Complain(
        absl::StrCat("no memory of GPU ", options.device, " in ", *path, ". Leave --device out to see all."));
    loaded->exit_code = kExitUsage;
    return loaded;
  }
  loaded->exit_code = loaded->analysis.damage.empty() ? kExitFine : kExitDamaged;
  loaded->symbolizer = std::make_unique<Symbolizer>(
      &loaded->stacks, options.symbols.Options(loaded->analysis.process.working_directory, console));
  if (options.shows_stacks) {
    loaded->symbolizer->Prepare();
    console->ProgressDone();
    // Said by every command, whether its text has a place for notes or not.
    for (const std::string& note : loaded->symbolizer->notes()) {
      if (!options.json) console->Complain(note);
      if (options.json) loaded->analysis.notes.push_back(note);
    }
  }
  loaded->source = std::make_unique<SymbolizedStacks>(&loaded->stacks, loaded->symbolizer.get());
  loaded->input = {&loaded->analysis, loaded->source.get(), asked, arguments.empty() ? "" : ShellQuoted(*path)};
  if (loaded->exit_code == kExitDamaged) console->Complain(DamageText(loaded->input));
  return loaded;
}

}  // namespace gpumem
