// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The parameters of a model as text.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/parts/attribution_sections.h"
#include "answers/parts/model_parts.h"
#include "base/format.h"
#include "base/shown.h"
#include "render/cells.h"

namespace gpumem {
namespace {

std::string ShapeText(const std::vector<uint64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::string NameOrUnknown(const std::string& name) { return name.empty() ? "unknown" : name; }

void AddDistribution(absl::string_view lead, const GroupedSums& groups, Page* page) {
  std::vector<std::string> words;
  for (const auto& [name, sums] : groups)
    words.push_back(absl::StrCat(NameOrUnknown(name), " ", FormatBytes(sums.parameter_bytes)));
  if (!words.empty()) page->Paragraph(lead, absl::StrJoin(words, ", "));
}

void AddTotals(const ModelTotals& totals, Page* page) {
  const ParameterSums& all = totals.all;
  page->Line(
      {{Tone::kHeading, absl::StrCat(FormatCount(all.parameters), " parameters, ", FormatBytes(all.parameter_bytes))},
       {Tone::kPlain, absl::StrCat("; trainable ", FormatCount(all.trainable_parameters), " (",
                                   ShareCell(all.trainable_parameters, all.parameters), ", ",
                                   FormatBytes(all.trainable_bytes), ")")}});
  page->Line(absl::StrCat("  gradients ", FormatBytes(all.gradient_bytes), ", optimizer state ",
                          FormatBytes(all.state_bytes)));
  if (totals.lora.parameters != 0) {
    page->Line(absl::StrCat("  LoRA ", FormatCount(totals.lora.parameters), " parameters, ",
                            FormatBytes(totals.lora.parameter_bytes)));
  }
  AddDistribution("  by type    ", totals.by_type, page);
  AddDistribution("  by device  ", totals.by_device, page);
}

// Largest first.
void AddGroups(absl::string_view of, const GroupedSums& groups, const ParameterSums& all, Page* page) {
  std::vector<std::pair<std::string, ParameterSums>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.parameter_bytes > b.second.parameter_bytes; });
  page->Gap();
  std::vector<Page::Row> rows{{"bytes", "share", "parameters", "trainable", "gradient", "state", std::string(of)}};
  for (const auto& [name, sums] : sorted) {
    rows.push_back({FormatBytes(sums.parameter_bytes), ShareCell(sums.parameter_bytes, all.parameter_bytes),
                    FormatCount(sums.parameters), FormatCount(sums.trainable_parameters),
                    BytesOrDash(sums.gradient_bytes), BytesOrDash(sums.state_bytes), NameOrUnknown(name)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft},
              rows);
}

// "lm_head.weight  (frozen, large)".
std::string NameWithWords(const ParameterRow& parameter, const TensorInfo& tensor) {
  std::vector<absl::string_view> words;
  if (!tensor.trainable) words.push_back("frozen");
  if (parameter.bytes > kLargeParameterBytes) words.push_back("large");
  return words.empty() ? tensor.name : absl::StrCat(tensor.name, "  (", absl::StrJoin(words, ", "), ")");
}

void AddParameters(std::vector<ParameterRow> parameters, uint64_t all_bytes, const ObjectTable& objects, size_t top,
                   Page* page) {
  page->Gap();
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const ParameterRow& a, const ParameterRow& b) { return a.bytes > b.bytes; });
  std::vector<Page::Row> rows{{"bytes", "share", "gradient", "state", "type", "shape", "parameter"}};
  for (size_t i = 0; i < Shown(parameters.size(), top); ++i) {
    const TensorInfo* const tensor = objects.tensor(parameters[i].tensor);
    if (tensor == nullptr) continue;
    rows.push_back({FormatBytes(parameters[i].bytes), ShareCell(parameters[i].bytes, all_bytes),
                    BytesOrDash(parameters[i].gradient_bytes), BytesOrDash(parameters[i].state_bytes), tensor->dtype,
                    ShapeText(tensor->shape), NameWithWords(parameters[i], *tensor)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft, Align::kLeft},
              rows);
  if (const size_t shown = Shown(parameters.size(), top); shown < parameters.size())
    page->Line(absl::StrCat("  ", parameters.size() - shown, " more: --top 0"), Tone::kAside);
}

}  // namespace

void AddModel(const ReportInput& input, const ObjectTable& objects, size_t top, Page* page) {
  page->Gap();
  if (input.attribution->parameters.empty()) {
    page->Line("No parameters are known: the program's tensors were not looked at (docs/attribution.md).");
    return;
  }
  const ModelTotals totals = TotalsOf(*input.attribution, objects);
  AddTotals(totals, page);
  AddGroups("component", totals.by_component, totals.all, page);
  if (totals.by_optimizer_group.size() > 1) AddGroups("optimizer's group", totals.by_optimizer_group, totals.all, page);
  AddParameters(input.attribution->parameters, totals.all.parameter_bytes, objects, top, page);
}

}  // namespace gpumem
