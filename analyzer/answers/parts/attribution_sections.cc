// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/attribution_sections.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/parts/attribution_parts.h"
#include "answers/report/marks.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "base/shown.h"
#include "ledger/stacks/names.h"
#include "render/cells.h"
#include "render/instants.h"

namespace gpumem {
namespace {

// Categories from the largest on; unknown stands last, whether there is any or not.
std::vector<size_t> Order(const CategoryBytes& bytes) {
  std::vector<size_t> order;
  for (size_t i = 0; i + 1 < kCategories; ++i) {
    if (bytes[i] != 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  order.push_back(Index(Category::kUnknown));
  return order;
}

std::string KnownBy(const std::array<uint64_t, kEvidences>& bytes) {
  uint64_t all = 0;
  std::vector<std::string> words;
  for (const uint64_t part : bytes) all += part;
  for (size_t i = 0; i < kEvidences; ++i) {
    if (bytes[i] == 0) continue;
    const absl::string_view name = EvidenceName(static_cast<Evidence>(i));
    words.push_back(bytes[i] == all ? std::string(name) : absl::StrCat(name, " ", ShareCell(bytes[i], all)));
  }
  return absl::StrJoin(words, ", ");
}

// "activations 2.00 GiB, parameters 512 MiB": the largest three.
std::string LargestCategories(const CategoryBytes& bytes) {
  std::vector<std::string> words;
  for (const size_t i : Order(bytes)) {
    if (bytes[i] != 0 && words.size() < 3)
      words.push_back(absl::StrCat(CategoryTitle(static_cast<Category>(i)), " ", FormatBytes(bytes[i])));
  }
  return absl::StrJoin(words, ", ");
}

// What of a category is told apart, where that says something: all parameters are trainable in most programs.
void AddParts(const Moment& moment, Category category, std::vector<Page::Row>* rows) {
  if (category == Category::kParameter && moment.parts[Index(Part::kFrozen)] == 0) return;
  for (size_t i = Index(Part::kTrainable); i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    if (CategoryOf(part) != category || moment.parts[i] == 0) continue;
    rows->push_back({FormatBytes(moment.parts[i]), ShareCell(moment.parts[i], moment.Total()), "",
                     absl::StrCat("  of these ", PartTitle(part)), ""});
  }
}

// Of each component what its forward and backward passes and the optimizer allocated; the rest was there before.
void AddComponentsOf(const Moment& moment, const ReportInput& input, Page* page) {
  const std::vector<ComponentBytes> components = DetailsByComponent(moment, *input.attribution);
  if (components.empty()) return;
  page->Gap();
  page->Line("By component", Tone::kHeading);
  std::vector<Page::Row> rows{{"bytes", "share", "forward", "backward", "optimizer", "component", "made of"}};
  for (const ComponentBytes& row : components) {
    const auto in = [&](Stage stage) { return BytesOrDash(row.by_stage[static_cast<size_t>(stage)]); };
    rows.push_back({FormatBytes(row.bytes), ShareCell(row.bytes, moment.Total()), in(Stage::kForward),
                    in(Stage::kBackward), in(Stage::kOptimizer), row.component, LargestCategories(row.by_category)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft},
              rows);
}

void AddModulesOf(const Moment& moment, const ReportInput& input, size_t top, Page* page) {
  const std::vector<ModuleBytes> modules = BytesByModule(moment);
  if (modules.empty()) return;
  page->Gap();
  page->Line("By module", Tone::kHeading);
  std::vector<Page::Row> rows{{"bytes", "share", "module", "made of"}};
  const uint64_t total = moment.Total();
  for (size_t i = 0; i < Shown(modules.size(), top); ++i) {
    rows.push_back({FormatBytes(modules[i].bytes), ShareCell(modules[i].bytes, total),
                    ModuleLabel(input.attribution->modules[modules[i].module]),
                    LargestCategories(modules[i].by_category)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
}

// Nothing where the program named no stage: the categories say as much.
void AddStagesOf(const Moment& moment, const ReportInput& input, size_t top, Page* page) {
  std::map<std::string, uint64_t> bytes;
  bool is_named = false;
  for (const AttributedUse& use : moment.uses) {
    bytes[StagePathTitle(input.attribution->user_stages[use.user_stage], use.stage)] += use.bytes;
    is_named |= use.user_stage != 0;
  }
  if (!is_named) return;
  std::vector<std::pair<uint64_t, std::string>> sorted;
  for (const auto& [path, each] : bytes) sorted.emplace_back(each, path);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  page->Gap();
  page->Line("By stage in which it was allocated", Tone::kHeading);
  std::vector<Page::Row> rows{{"bytes", "share", "stage"}};
  for (size_t i = 0; i < Shown(sorted.size(), top); ++i)
    rows.push_back({FormatBytes(sorted[i].first), ShareCell(sorted[i].first, moment.Total()), sorted[i].second});
  page->Table({Align::kRight, Align::kRight, Align::kLeft}, rows);
}

void AddNames(const Moment& moment, const ReportInput& input, size_t top, Page* page) {
  const std::vector<NamedBytes> names = BytesByName(moment, *input.attribution);
  if (names.empty()) return;
  page->Gap();
  page->Line("By name that the program gave", Tone::kHeading);
  std::vector<Page::Row> rows{{"bytes", "share", "blocks", "name", "made of"}};
  for (size_t i = 0; i < Shown(names.size(), top); ++i) {
    rows.push_back({FormatBytes(names[i].bytes), ShareCell(names[i].bytes, moment.Total()), FormatCount(names[i].count),
                    names[i].name, LargestCategories(names[i].by_category)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
}

// Stacks without their categories, as lists of stacks want them.
std::vector<StackUse> ToStackUses(const Moment& moment) {
  std::map<std::tuple<uint64_t, uint8_t, uint8_t>, StackUse> merged;
  for (const AttributedUse& use : moment.uses) {
    StackUse& stack = merged[{use.stack_id, use.layer, use.memory}];
    stack.stack_id = use.stack_id;
    stack.layer = use.layer;
    stack.memory = use.memory;
    stack.bytes += use.bytes;
    stack.count += use.count;
  }
  std::vector<StackUse> uses;
  for (const auto& [key, use] : merged) uses.push_back(use);
  std::stable_sort(uses.begin(), uses.end(), [](const StackUse& a, const StackUse& b) { return a.bytes > b.bytes; });
  return uses;
}

std::string Signed(int64_t bytes) {
  if (bytes == 0) return "0 B";
  const uint64_t size = bytes > 0 ? static_cast<uint64_t>(bytes) : uint64_t{0} - static_cast<uint64_t>(bytes);
  return absl::StrCat(bytes > 0 ? "+" : "-", FormatBytes(size));
}

// What lies outside of PyTorch's blocks is left out.
std::string LargestOfBlocks(CategoryBytes bytes) {
  for (const Category beyond : {Category::kAllocatorOverhead, Category::kContext, Category::kLibrary})
    bytes[Index(beyond)] = 0;
  return LargestCategories(bytes);
}

void AddStageTable(bool named, size_t top, const ReportInput& input, Page* page) {
  const Attribution& attribution = *input.attribution;
  const bool of_torch = attribution.measure == Measure::kAllocated;
  const auto bytes = [&](const StepPoint& at) { return FormatBytes(of_torch ? at.values.allocated : at.values.total); };
  std::vector<Page::Row> rows{{"begins", "took", "times", "start", "peak", "end", "growth", "stage", "peak made of"}};
  size_t all = 0;
  for (const AttributedStage& each : attribution.stages) {
    const StageRow& row = each.row;
    if (row.is_named != named || ++all > Shown(SIZE_MAX, top)) continue;
    rows.push_back({FormatTime(input.Since(row.start.time_ns)), FormatTime(row.time_ns),
                    absl::StrCat(FormatCount(row.count), row.complete ? "" : "*"), bytes(row.start), bytes(row.peak),
                    bytes(row.end), Signed(row.growth_bytes), StageLabel(row, RunPartTitle(row.part)),
                    of_torch ? LargestOfBlocks(each.at_peak) : LargestCategories(each.at_peak)});
  }
  if (all == 0) return;
  page->Gap();
  page->Line({{Tone::kHeading, absl::StrCat(named ? "Stages that the program named, on " : "Stages on ",
                                            DeviceLabel(attribution.device))},
              {Tone::kAside, of_torch ? "  PyTorch's allocated bytes" : "  all CUDA memory"}});
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
               Align::kLeft, Align::kLeft},
              rows);
  if (const size_t shown = Shown(all, top); shown < all)
    page->Line(absl::StrCat("  ", all - shown, " more: --top 0"), Tone::kAside);
}

// Columns that are there only where a step has such a number: what a trainer counts, and accumulated gradients.
struct StepColumn {
  absl::string_view heading;
  uint64_t Step::*number;
  uint64_t least;
};
constexpr StepColumn kStepColumns[] = {
    {"epoch", &Step::epoch, 1}, {"trainer's", &Step::trainer_step, 1}, {"passes", &Step::backward_passes, 2}};

std::vector<StepColumn> ColumnsOf(const std::vector<AttributedStep>& steps) {
  std::vector<StepColumn> columns;
  for (const StepColumn& column : kStepColumns) {
    if (std::any_of(steps.begin(), steps.end(),
                    [&](const AttributedStep& each) { return each.step.*column.number >= column.least; }))
      columns.push_back(column);
  }
  return columns;
}

// Set-up, an evaluation between steps, a checkpoint: what lies in no step may be higher than all of them.
void AddPeakOutsideSteps(const ReportInput& input, Page* page) {
  const DeviceAnalysis* const device = LargestDevice(*input.analysis);
  if (device == nullptr || device->device != input.attribution->device || !UsesTorch(*device)) return;
  const SeriesPeak& peak = PeakOf(*device, Measure::kAllocated);
  const std::vector<AttributedStep>& steps = input.attribution->steps;
  const bool is_inside = std::any_of(steps.begin(), steps.end(), [&](const AttributedStep& each) {
    return each.step.peak.values.allocated >= peak.bytes;
  });
  if (is_inside) return;
  page->Paragraph("  ", absl::StrCat("The run's peak is in no step: ", FormatBytes(peak.bytes), " at ",
                                     PeakInstant(peak.time_ns, input),
                                     " (set-up, evaluation or a checkpoint). gpumem stages shows which."));
}

}  // namespace

void AddCategories(const Moment& moment, absl::string_view of, const ReportInput& input, Page* page) {
  page->Line({{Tone::kHeading, absl::StrCat("Memory by category at ", of, " of ",
                                            DeviceLabel(input.attribution->device), ": ", FormatBytes(moment.Total()))},
              {Tone::kPlain, absl::StrCat(" at ", PeakInstant(moment.time_ns, input),
                                          moment.step == 0 ? "" : absl::StrCat(", step ", moment.step))}});
  std::vector<Page::Row> rows{{"bytes", "share", "blocks", "category", "evidence"}};
  for (const size_t i : Order(moment.categories)) {
    rows.push_back({FormatBytes(moment.categories[i]), ShareCell(moment.categories[i], moment.Total()),
                    moment.counts[i] == 0 ? "" : FormatCount(moment.counts[i]),
                    std::string(CategoryTitle(static_cast<Category>(i))), KnownBy(moment.by_evidence[i])});
    AddParts(moment, static_cast<Category>(i), &rows);
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
  if (!input.attribution->has_tensors) {
    page->Paragraph(
        "  ",
        "The program's tensors were not observed: parameters, gradients and optimizer state are identified by "
        "stacks only (docs/attribution.md).",
        Tone::kAside);
  }
}

void AddAt(absl::string_view asked, const ReportInput& input, const TextOptions& options, Page* page) {
  const Moment& moment = input.attribution->moments.front();
  page->Gap();
  AddCategories(moment, asked == "peak" ? "the peak" : asked, input, page);
  if (const std::string place = PlaceText(input.analysis->marks.At(moment.time_ns)); !place.empty())
    page->Paragraph("  at      ", place);
  AddComponentsOf(moment, input, page);
  AddModulesOf(moment, input, options.top, page);
  AddStagesOf(moment, input, options.top, page);
  AddNames(moment, input, options.top, page);
  page->Gap();
  page->Line("By line of your code", Tone::kHeading);
  const std::vector<StackUse> uses = ToStackUses(moment);
  if (uses.empty()) return page->Line("  nothing was live");
  AddStackRows(uses, {"it", moment.Total()}, input, options, page);
}

void AddSnapshots(const ReportInput& input, Page* page) {
  const std::vector<const Moment*> snapshots = SnapshotsOf(input.attribution);
  if (snapshots.empty()) return;
  page->Gap();
  page->Line({{Tone::kHeading, absl::StrCat("Snapshots on ", DeviceLabel(input.attribution->device))},
              {Tone::kAside, "  moments that the program named; gpumem at NAME says all of one"}});
  std::vector<Page::Row> rows{{"at", "allocated", "all", "name", "made of"}};
  for (const Moment* const moment : snapshots) {
    rows.push_back({FormatTime(input.Since(moment->time_ns)), FormatBytes(moment->values.allocated),
                    FormatBytes(moment->Total()), moment->asked, LargestCategories(moment->categories)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
  if (const size_t all = CountSnapshots(*input.analysis); all > snapshots.size())
    page->Line(absl::StrCat("  ", all - snapshots.size(), " others are not shown: gpumem at NAME"), Tone::kAside);
}

void AddSteps(const ReportInput& input, size_t top, Page* page) {
  const std::vector<AttributedStep>& steps = input.attribution->steps;
  page->Gap();
  if (steps.empty()) {
    page->Line("No steps: no optimizer stepped, and the program marked none (docs/marks.md).");
    return;
  }
  page->Line({{Tone::kHeading, absl::StrCat("Steps on ", DeviceLabel(input.attribution->device))},
              {Tone::kAside, "  PyTorch's allocated bytes; the largest categories are those of the peak"}});
  const std::vector<StepColumn> columns = ColumnsOf(steps);
  std::vector<Align> alignments{Align::kRight};
  Page::Row heading{"step"};
  for (const StepColumn& column : columns) heading.emplace_back(column.heading);
  heading.insert(heading.end(), {"begins", "start", "peak", "peak at", "end", "growth", "peak made of"});
  alignments.insert(alignments.end(), columns.size() + 6, Align::kRight);
  alignments.push_back(Align::kLeft);
  std::vector<Page::Row> rows{heading};
  const size_t shown = Shown(steps.size(), top);
  for (size_t i = steps.size() - shown; i < steps.size(); ++i) {
    const Step& step = steps[i].step;
    Page::Row row{absl::StrCat(step.number, step.complete ? "" : "*")};
    for (const StepColumn& column : columns) row.push_back(absl::StrCat(step.*column.number));
    row.insert(row.end(),
               {FormatTime(input.Since(step.start.time_ns)), FormatBytes(step.start.values.allocated),
                FormatBytes(step.peak.values.allocated), FormatTime(input.Since(step.peak.time_ns)),
                FormatBytes(step.end.values.allocated), Signed(step.GrowthBytes()), LargestOfBlocks(steps[i].at_peak)});
    rows.push_back(std::move(row));
  }
  page->Table(alignments, rows);
  if (shown < steps.size()) page->Line(absl::StrCat("  ", steps.size() - shown, " steps before these"), Tone::kAside);
  if (!steps.back().step.complete) page->Line("  * the trace ends in it", Tone::kAside);
  AddPeakOutsideSteps(input, page);
}

void AddStages(const ReportInput& input, size_t top, Page* page) {
  const Attribution& attribution = *input.attribution;
  if (attribution.stages.empty()) {
    page->Gap();
    page->Line("No stages: nothing was allocated whose stack is known, and the program named none (docs/marks.md).");
    return;
  }
  AddStageTable(false, top, input, page);
  AddStageTable(true, top, input, page);
  const bool is_cut = std::any_of(attribution.stages.begin(), attribution.stages.end(),
                                  [](const AttributedStage& each) { return !each.row.complete; });
  if (is_cut) page->Line("  * the trace ends in it", Tone::kAside);
  if (attribution.unlisted_stages != 0)
    page->Line(absl::StrCat("  ", FormatCount(attribution.unlisted_stages), " stretches of stages beyond the first ",
                            FormatCount(StageLog::kMaxRows), " are in no row"),
               Tone::kWarning);
}

void AddModules(const ReportInput& input, size_t top, Page* page) {
  const Attribution& attribution = *input.attribution;
  page->Gap();
  page->Line(
      {{Tone::kHeading, absl::StrCat("Modules on ", DeviceLabel(attribution.device))},
       {Tone::kAside,
        "  what their calls allocated, all in all; most at once; with all modules that they call; kept by autograd"}});
  std::vector<Page::Row> rows{
      {"total allocated", "count", "peak", "incl. submodules", "saved", "temporary", "stage", "module"}};
  for (size_t i = 0; i < Shown(attribution.module_uses.size(), top); ++i) {
    const ModuleUse& use = attribution.module_uses[i];
    rows.push_back({FormatBytes(use.allocated_bytes), FormatCount(use.count), FormatBytes(use.peak_bytes),
                    use.module == 0 ? "-" : FormatBytes(attribution.inclusive_peaks[use.module]),
                    BytesOrDash(use.saved_peak_bytes), BytesOrDash(use.temporary_bytes),
                    StagePathTitle(attribution.user_stages[use.user_stage], use.stage),
                    ModuleLabel(attribution.modules[use.module])});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft,
               Align::kLeft},
              rows);
  const size_t all = attribution.module_uses.size();
  if (const size_t shown = Shown(all, top); shown < all)
    page->Line(absl::StrCat("  ", all - shown, " more: --top 0"), Tone::kAside);
}

}  // namespace gpumem
