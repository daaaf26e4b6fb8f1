// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/parts/categories.h"
#include "answers/parts/model_parts.h"
#include "answers/training/training.h"
#include "base/format.h"
#include "render/cells.h"

namespace gpumem {
namespace {

// Some of the parameters: all of one component, type, device, or optimizer's group.
struct ParameterGroup {
  std::string by, name;
  ParameterSums sums;
  OptimizerGroupInfo settings = {};
};

struct KnownParameter {
  const ParameterRow* row;
  const TensorInfo* tensor;
};

std::string NameOrUnknown(const std::string& name) { return name.empty() ? "unknown" : name; }

std::vector<ParameterGroup> GroupsOf(const ModelTotals& totals) {
  std::vector<ParameterGroup> groups;
  const auto add = [&](const char* by, const GroupedSums& of) {
    for (const auto& [name, sums] : of) groups.push_back({by, NameOrUnknown(name), sums});
  };
  add("component", totals.by_component);
  add("dtype", totals.by_type);
  add("device", totals.by_device);
  for (const auto& [name, sums] : totals.by_optimizer_group) {
    const auto set = totals.optimizer_settings.find(name);
    groups.push_back({"optimizer_group", NameOrUnknown(name), sums,
                      set == totals.optimizer_settings.end() ? OptimizerGroupInfo() : set->second});
  }
  return groups;
}

std::vector<KnownParameter> ParametersOf(const Attribution& attribution, const ObjectTable& objects, size_t top) {
  std::vector<KnownParameter> parameters;
  for (size_t i = 0; i < Shown(attribution.parameters.size(), top); ++i) {
    const ParameterRow& row = attribution.parameters[i];
    if (const TensorInfo* const tensor = objects.tensor(row.tensor); tensor != nullptr)
      parameters.push_back({&row, tensor});
  }
  return parameters;
}

// One sum of a set of parameters; people read some of them.
struct SumColumn {
  absl::string_view key, title;
  Unit unit;
  absl::string_view meaning;
  Datum (*of)(const ParameterSums& sums);
};

constexpr char kNumbers[] = "how many elements; beside `totals` one object a parameter";
constexpr char kByGradient[] = "by whether they require gradients";
constexpr char kTensors[] = "of the tensors, when they were last there";
constexpr SumColumn kSums[] = {
    {"parameter_bytes", "bytes", Unit::kBytes, "of their data",
     [](const auto& sums) { return Datum(sums.parameter_bytes); }},
    {"parameters", "parameters", Unit::kCount, kNumbers, [](const auto& sums) { return Datum(sums.parameters); }},
    {"trainable_parameters", "trainable", Unit::kCount, kByGradient,
     [](const auto& sums) { return Datum(sums.trainable_parameters); }},
    {"trainable_bytes", "", Unit::kBytes, kByGradient, [](const auto& sums) { return Datum(sums.trainable_bytes); }},
    {"frozen_parameters", "", Unit::kCount, kByGradient,
     [](const auto& sums) { return Datum(sums.parameters - sums.trainable_parameters); }},
    {"frozen_bytes", "", Unit::kBytes, kByGradient,
     [](const auto& sums) { return Datum(sums.parameter_bytes - sums.trainable_bytes); }},
    {"trainable_percent", "", Unit::kNumber, "trainable ones of 100 parameters",
     [](const auto& sums) { return Datum(sums.TrainablePercent()); }},
    {"gradient_bytes", "gradient", Unit::kBytesOrDash, kTensors,
     [](const auto& sums) { return Datum(sums.gradient_bytes); }},
    {"optimizer_state_bytes", "state", Unit::kBytesOrDash, kTensors,
     [](const auto& sums) { return Datum(sums.state_bytes); }},
};

Datum BytesOf(const GroupedSums& groups) {
  std::vector<Member> members;
  for (const auto& [name, sums] : groups) members.push_back({NameOrUnknown(name), sums.parameter_bytes});
  return Datum::Object(std::move(members));
}

Datum TotalsDatum(const ModelTotals& totals) {
  std::vector<Member> members;
  for (const SumColumn& sum : kSums)
    members.push_back({std::string(sum.key), sum.of(totals.all), std::string(sum.meaning)});
  constexpr char kLora[] = "of low-rank adapters, by name", kObjects[] = "object: bytes by type or device";
  members.push_back({"lora_parameters", totals.lora.parameters, kLora});
  members.push_back({"lora_bytes", totals.lora.parameter_bytes, kLora});
  members.push_back({"bytes_by_dtype", BytesOf(totals.by_type), kObjects});
  members.push_back({"bytes_by_device", BytesOf(totals.by_device), kObjects});
  return Datum::Object(std::move(members));
}

void AddDistribution(absl::string_view lead, const GroupedSums& groups, Document* answer) {
  std::vector<std::string> words;
  for (const auto& [name, sums] : groups)
    words.push_back(absl::StrCat(NameOrUnknown(name), " ", FormatBytes(sums.parameter_bytes)));
  if (!words.empty()) answer->Paragraph(lead, absl::StrJoin(words, ", "));
}

void AddTotals(const ModelTotals& totals, Document* answer) {
  const ParameterSums& all = totals.all;
  answer->Line(
      {{Tone::kHeading, absl::StrCat(FormatCount(all.parameters), " parameters, ", FormatBytes(all.parameter_bytes))},
       {Tone::kPlain, absl::StrCat("; trainable ", FormatCount(all.trainable_parameters), " (",
                                   ShareCell(all.trainable_parameters, all.parameters), ", ",
                                   FormatBytes(all.trainable_bytes), ")")}});
  answer->Line(absl::StrCat("  gradients ", FormatBytes(all.gradient_bytes), ", optimizer state ",
                            FormatBytes(all.state_bytes)));
  if (totals.lora.parameters != 0) {
    answer->Line(absl::StrCat("  LoRA ", FormatCount(totals.lora.parameters), " parameters, ",
                              FormatBytes(totals.lora.parameter_bytes)));
  }
  AddDistribution("  by type    ", totals.by_type, answer);
  AddDistribution("  by device  ", totals.by_device, answer);
}

constexpr char kOptimizerTitle[] = "optimizer's group";

Datum NumberOf(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) ? Datum(number) : Datum();
}

// "0.0003", "0.001 to 0.0003", "-".
std::string RateText(const OptimizerGroupInfo& settings) {
  if (settings.learning_rate.empty()) return "-";
  const bool has_changed =
      !settings.first_learning_rate.empty() && settings.first_learning_rate != settings.learning_rate;
  return has_changed ? absl::StrCat(settings.first_learning_rate, " to ", settings.learning_rate)
                     : settings.learning_rate;
}

// What an optimizer's group is set to; in a table for people only of those groups.
void AddSettingColumns(bool is_shown, std::vector<AnswerColumn<ParameterGroup>>* columns) {
  constexpr char kSetting[] =
      "of an optimizer's group: at the last of its steps that was sampled (the first three, and each whose number is a "
      "power of two); null where it is not known";
  columns->emplace_back("first_learning_rate", "", Unit::kNumber, "the same at the first of them",
                        [](const ParameterGroup& group) { return NumberOf(group.settings.first_learning_rate); });
  columns->emplace_back(
      "learning_rate", is_shown ? "learning rate" : "", Unit::kNumber, kSetting,
      [](const ParameterGroup& group) { return NumberOf(group.settings.learning_rate); },
      [](const ParameterGroup& group) { return RateText(group.settings); });
  columns->emplace_back(
      "weight_decay", is_shown ? "weight decay" : "", Unit::kNumber, kSetting,
      [](const ParameterGroup& group) { return NumberOf(group.settings.weight_decay); },
      [](const ParameterGroup& group) {
        return group.settings.weight_decay.empty() ? "-" : group.settings.weight_decay;
      });
}

std::vector<AnswerColumn<ParameterGroup>> GroupColumns(uint64_t all_bytes, const std::string& title) {
  std::vector<AnswerColumn<ParameterGroup>> columns = {
      {"by", "", Unit::kText,
       "of a group: `component`, `dtype`, `device`, or `optimizer_group`, whose name is the optimizer's class and the "
       "group's index: `AdamW 0`",
       [](const ParameterGroup& group) { return group.by; }},
      {"name", "", Unit::kText, "of a group; of a parameter inside the outermost module (`root_class`)",
       [](const ParameterGroup& group) { return group.name; }}};
  for (const SumColumn& sum : kSums) {
    columns.emplace_back(sum.key, sum.title, sum.unit, sum.meaning,
                         [of = sum.of](const ParameterGroup& group) { return of(group.sums); });
    if (sum.title != "bytes") continue;
    columns.emplace_back("", ShareTitle(all_bytes), Unit::kCount, "", nullptr,
                         [=](const ParameterGroup& group) { return ShareCell(group.sums.parameter_bytes, all_bytes); });
  }
  AddSettingColumns(title == kOptimizerTitle, &columns);
  columns.emplace_back("", title, Unit::kText, "", nullptr, [](const ParameterGroup& group) { return group.name; });
  return columns;
}

// For people: the largest first.
void AddGroups(absl::string_view by, const std::string& title, const std::vector<ParameterGroup>& groups,
               uint64_t all_bytes, Document* answer) {
  auto rows = std::make_shared<std::vector<ParameterGroup>>();
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(*rows),
               [&](const ParameterGroup& each) { return each.by == by; });
  std::stable_sort(rows->begin(), rows->end(), [](const ParameterGroup& a, const ParameterGroup& b) {
    return a.sums.parameter_bytes > b.sums.parameter_bytes;
  });
  answer->Gap();
  answer->Table("", "", GroupColumns(all_bytes, title), std::shared_ptr<const std::vector<ParameterGroup>>(rows), {});
}

// "frozen, large"; "-": neither.
std::string NotesOf(const KnownParameter& each) {
  std::vector<absl::string_view> words;
  if (!each.tensor->trainable) words.push_back("frozen");
  if (each.row->bytes > kLargeParameterBytes) words.push_back("large");
  return words.empty() ? "-" : absl::StrJoin(words, ", ");
}

template <typename T>
Datum ListOf(const std::vector<T>& values) {
  return Datum::List({values.begin(), values.end()}, JsonLayout::kOneLine);
}

std::vector<AnswerColumn<KnownParameter>> IdentityColumns(const ObjectTable& objects, const Attribution& of) {
  constexpr char kName[] = "of a group; of a parameter inside the outermost module (`root_class`)";
  constexpr char kOptimizer[] = "class of the optimizer that has it, and index of its param_group; null = none";
  return {
      {"name", "", Unit::kText, kName, [](const KnownParameter& each) { return each.tensor->name; }},
      {"other_names", "", Unit::kObject, "other places that share it",
       [](const KnownParameter& each) { return ListOf(each.tensor->other_names); }},
      {"root_class", "", Unit::kText, "class of the outermost module; null where it is not known",
       [&objects](const KnownParameter& each) {
         const NnModuleInfo* const root = objects.module(each.tensor->root);
         return root == nullptr ? Datum() : Datum(root->class_name);
       }},
      {"elements", "", Unit::kCount, "those of this process",
       [](const KnownParameter& each) { return each.tensor->elements; }},
      {"device", "", Unit::kText, "where its data are", [](const KnownParameter& each) { return each.tensor->device; }},
      {"trainable", "", Unit::kText, "requires gradients",
       [](const KnownParameter& each) { return each.tensor->trainable; }},
      {"large", "", Unit::kText, "of more than 100 MiB",
       [](const KnownParameter& each) { return each.row->bytes > kLargeParameterBytes; }},
      {"component", "", Unit::kText, "what the module is that holds it, by the rules",
       [&of](const KnownParameter& each) { return ComponentOf(*each.row, of); }},
      {"optimizer", "", Unit::kText, kOptimizer,
       [&objects](const KnownParameter& each) {
         const uint32_t optimizer = each.tensor->optimizer;
         return Datum::If(optimizer != 0, optimizer == 0 ? "" : objects.optimizer_class(optimizer));
       }},
      {"group", "", Unit::kNumber, kOptimizer,
       [](const KnownParameter& each) { return each.tensor->group == 0 ? Datum() : Datum(each.tensor->group - 1); }},
  };
}

std::vector<AnswerColumn<KnownParameter>> ParameterColumns(const ObjectTable& objects, const Attribution& of,
                                                           uint64_t all_bytes) {
  constexpr char kWhole[] = "as a whole";
  std::vector<AnswerColumn<KnownParameter>> columns = IdentityColumns(objects, of);
  const std::vector<AnswerColumn<KnownParameter>> shown = {
      {"bytes", "bytes", Unit::kBytes, "of its data", [](const KnownParameter& each) { return each.row->bytes; }},
      {"", ShareTitle(all_bytes), Unit::kCount, "", nullptr,
       [=](const KnownParameter& each) { return ShareCell(each.row->bytes, all_bytes); }},
      {"gradient_bytes", "gradient", Unit::kBytesOrDash, kTensors,
       [](const KnownParameter& each) { return each.row->gradient_bytes; }},
      {"optimizer_state_bytes", "state", Unit::kBytesOrDash, kTensors,
       [](const KnownParameter& each) { return each.row->state_bytes; }},
      {"dtype", "type", Unit::kText, kWhole, [](const KnownParameter& each) { return each.tensor->dtype; }},
      {"shape", "shape", Unit::kText, kWhole, [](const KnownParameter& each) { return ListOf(each.tensor->shape); },
       [](const KnownParameter& each) { return absl::StrCat("[", absl::StrJoin(each.tensor->shape, ", "), "]"); }},
      {"", "note", Unit::kText, "", nullptr, NotesOf},
      {"", "parameter", Unit::kText, "", nullptr, [](const KnownParameter& each) { return each.tensor->name; }},
  };
  columns.insert(columns.end(), shown.begin(), shown.end());
  return columns;
}

// For people: the largest first.
void AddParameters(const ObjectTable& objects, const Attribution& attribution, uint64_t all_bytes, size_t top,
                   Document* answer) {
  auto rows = std::make_shared<std::vector<KnownParameter>>(ParametersOf(attribution, objects, 0));
  std::stable_sort(rows->begin(), rows->end(),
                   [](const KnownParameter& a, const KnownParameter& b) { return a.row->bytes > b.row->bytes; });
  const size_t shown = Shown(rows->size(), top);
  answer->Gap();
  answer->Table("", "", ParameterColumns(objects, attribution, all_bytes),
                std::shared_ptr<const std::vector<KnownParameter>>(rows), {.count = shown, .counts_rest = true});
}

bool HasSettings(const ModelTotals& totals) {
  return std::any_of(totals.optimizer_settings.begin(), totals.optimizer_settings.end(),
                     [](const auto& each) { return !each.second.learning_rate.empty(); });
}

}  // namespace

Document ModelAnswer(const ReportInput& input, const ObjectTable& objects, size_t top) {
  const Attribution& attribution = *input.attribution;
  const ModelTotals totals = TotalsOf(attribution, objects);
  const uint64_t all_bytes = totals.all.parameter_bytes;
  const auto groups = std::make_shared<const std::vector<ParameterGroup>>(GroupsOf(totals));
  const auto parameters = std::make_shared<const std::vector<KnownParameter>>(ParametersOf(attribution, objects, top));
  Document::Rows lines;
  lines.layout = JsonLayout::kOneLine;
  lines.is_shown = false;
  Document answer = AttributedAnswer("model", input);
  answer.Field("totals", TotalsDatum(totals), "object: sums over the parameters");
  answer.Table("groups", "the same sums of some of the parameters: objects with `by`, `name` and these",
               GroupColumns(all_bytes, ""), groups, lines);
  answer.Table("parameters", kNumbers, ParameterColumns(objects, attribution, all_bytes), parameters, lines);
  answer.Gap();
  if (attribution.parameters.empty()) {
    answer.Line("No parameters are known: the program's tensors were not looked at (docs/attribution.md).");
    return answer;
  }
  AddTotals(totals, &answer);
  AddGroups("component", "component", *groups, all_bytes, &answer);
  if (totals.by_optimizer_group.size() > 1 || HasSettings(totals))
    AddGroups("optimizer_group", kOptimizerTitle, *groups, all_bytes, &answer);
  AddParameters(objects, attribution, all_bytes, top, &answer);
  return answer;
}

}  // namespace gpumem
