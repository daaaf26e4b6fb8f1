// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/moment_fields.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "answers/parts/attribution_parts.h"
#include "answers/parts/categories.h"
#include "answers/report/stack_rows.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "ledger/stacks/names.h"
#include "render/cells.h"

namespace gpumem {
namespace {

constexpr char kByCategory[] = "object: its bytes by category";
constexpr char kComponent[] = "what it is by the rules";

// Members that have bytes.
template <size_t kCount, typename Name>
Datum NonzeroDatum(const std::array<uint64_t, kCount>& bytes, Name name, JsonLayout layout = JsonLayout::kOneLine) {
  std::vector<Member> members;
  for (size_t i = 0; i < kCount; ++i) {
    if (bytes[i] != 0) members.push_back({std::string(name(i)), bytes[i]});
  }
  return Datum::Object(std::move(members), layout);
}

Datum ByCategoryDatum(const CategoryBytes& bytes) {
  return NonzeroDatum(bytes, [](size_t i) { return CategoryName(static_cast<Category>(i)); });
}

Datum ByStageDatum(const std::array<uint64_t, kStages>& bytes) {
  return NonzeroDatum(
      bytes, [](size_t i) { return StageName(static_cast<Stage>(i)); }, JsonLayout::kLines);
}

template <typename Map>
Datum BytesDatum(const Map& bytes) {
  std::vector<Member> members;
  for (const auto& [name, each] : bytes) members.push_back({name, each});
  return Datum::Object(std::move(members));
}

Datum DetailsDatum(const Moment& moment) {
  std::vector<Datum> details;
  for (size_t i = 0; i < kCategories; ++i) {
    if (moment.categories[i] == 0) continue;
    details.push_back(Datum::Object(
        {{"category", CategoryName(static_cast<Category>(i)), "its name; of a stack: what its blocks are"},
         {"bytes", moment.categories[i]},
         {"tensor_bytes", moment.tensor_bytes[i],
          "of the tensors in the blocks, without rounding, as far as they are known"},
         {"count", moment.counts[i]},
         {"known_by",
          NonzeroDatum(moment.by_evidence[i], [](size_t k) { return EvidenceName(static_cast<Evidence>(k)); }),
          "in `category_details` an object of bytes by evidence: `measured`, `address`, `autograd`, `stack`, `rule`, "
          "`stated`, `none`; of a stack the evidence"}},
        JsonLayout::kOneLine));
  }
  return Datum::List(std::move(details));
}

Datum PartsDatum(const Moment& moment) {
  constexpr char kPart[] = "bytes of such a part, as far as the program's tensors tell it";
  std::vector<Member> categories;
  for (const Category category : {Category::kParameter, Category::kGradient}) {
    std::vector<Member> parts;
    for (size_t i = 0; i < kParts; ++i) {
      const auto part = static_cast<Part>(i);
      if (CategoryOf(part) == category) parts.push_back({std::string(PartName(part)), moment.parts[i], kPart});
    }
    categories.push_back({std::string(CategoryName(category)), Datum::Object(std::move(parts), JsonLayout::kOneLine)});
  }
  return Datum::Object(std::move(categories));
}

// Bytes and share come first in every list.
template <typename Row>
void AddSizeColumns(uint64_t total, std::vector<AnswerColumn<Row>>* columns) {
  columns->push_back({"bytes", "bytes", Unit::kBytes, "", [](const Row& row) { return row.bytes; }});
  columns->push_back({"", ShareTitle(total), Unit::kShare, "", nullptr,
                      [total](const Row& row) { return ShareCell(row.bytes, total); }});
}

// What it is made of comes last.
template <typename Row>
void AddMadeOf(std::vector<AnswerColumn<Row>>* columns) {
  columns->push_back({"by_category", "made of", Unit::kText, kByCategory,
                      [](const Row& row) { return ByCategoryDatum(row.by_category); },
                      [](const Row& row) { return LargestCategories(row.by_category); }});
}

std::vector<AnswerColumn<ComponentBytes>> ComponentColumns(const Moment& moment) {
  std::vector<AnswerColumn<ComponentBytes>> columns;
  AddSizeColumns(moment.Total(), &columns);
  const auto add = [&columns](absl::string_view title, Stage stage) {
    columns.push_back({"", title, Unit::kBytesOrDash, "",
                       [stage](const ComponentBytes& row) { return row.by_stage[static_cast<size_t>(stage)]; }});
  };
  add("forward", Stage::kForward);
  add("backward", Stage::kBackward);
  add("optimizer", Stage::kOptimizer);
  columns.push_back(
      {"component", "component", Unit::kText, kComponent, [](const ComponentBytes& row) { return row.component; }});
  AddMadeOf(&columns);
  columns.push_back({"by_stage", "object: its bytes by the stage in which they were allocated",
                     [](const ComponentBytes& row) { return ByStageDatum(row.by_stage); }});
  return columns;
}

// Which module a row is of, by the number that `module` finds in it.
template <typename Row, typename Module>
void AddModuleColumns(const Attribution& attribution, Module module, std::vector<AnswerColumn<Row>>* columns) {
  const auto row_of = [&attribution, module](const Row& row) -> const ModuleRow& {
    return attribution.modules[module(row)];
  };
  columns->push_back(
      {"fqn",
       "its name inside the outermost module, as `named_modules()` has it, \"\" for that one; null where "
       "its model is not known, or where there is none",
       [row_of](const Row& row) { return Datum::If(row_of(row).root != 0, row_of(row).fqn); }});
  columns->push_back({"class", "of the module; null where not known",
                      [row_of](const Row& row) { return Datum::TextOrNull(row_of(row).class_name); }});
  columns->push_back({"root_class", "class of the outermost module that holds it; null where not known",
                      [row_of](const Row& row) { return Datum::TextOrNull(row_of(row).root_class); }});
  columns->push_back({"component", kComponent, [row_of](const Row& row) { return row_of(row).component; }});
}

// A heading where there are rows, and the largest of them.
template <typename Row>
void AddList(absl::string_view key, absl::string_view meaning, absl::string_view heading,
             std::vector<AnswerColumn<Row>> columns, std::vector<Row> rows, size_t top, Document* answer) {
  Document::Rows first;
  first.count = Shown(rows.size(), top);
  first.is_shown = !rows.empty();
  if (first.is_shown) answer->Heading(heading);
  answer->Table(key, meaning, std::move(columns), std::move(rows), first);
}

}  // namespace

Document MomentFields(const Moment& moment, const ReportInput& input) {
  constexpr char kInstant[] = "the instant, and all four series then";
  Document fields;
  fields.Field("time_ns", input.Since(moment.time_ns), kInstant);
  fields.Field("step", Datum::If(moment.step != 0, moment.step), "in which it lies, else null");
  fields.Field("bytes", moment.Total(), "the sum of the categories: reserved and other memory, and contexts");
  fields.Field("values", ValuesDatum(moment.values), kInstant);
  fields.Field("categories", CategoriesDatum(moment.categories), "object: bytes of each category, all of them");
  fields.Field("category_details", DetailsDatum(moment),
               "categories that have bytes: objects with `category`, `bytes`, `tensor_bytes`, `count` and `known_by`");
  fields.Field("category_parts", PartsDatum(moment),
               "object: `parameter` (bytes of `trainable` and `frozen` ones) and `gradient` (`per_sample`: of one "
               "gradient for each sample of a batch, as differential privacy computes them)");
  fields.Field("components", BytesDatum(BytesByComponent(moment, *input.attribution)),
               "object: bytes by component (`attention`, `mlp`, `loss`, ..., "
               "[attribution.md](attribution.md#components))");
  fields.Table("component_details",
               "the same with what they are, largest first: objects with `component`, `bytes`, `by_category` and "
               "`by_stage`",
               ComponentColumns(moment), DetailsByComponent(moment, *input.attribution), {.is_shown = false});
  fields.Field("stages", ByStageDatum(BytesByStage(moment)),
               "object: bytes by the stage in which they were allocated (`forward`, `loss`, `backward`, "
               "`optimizer_step`, `zero_grad`, `data`, `model_construction`, `checkpoint_load`, "
               "`checkpoint_save`, `evaluation`, `gc`, `collective`, `wrapping`, `optimizer_setup`, "
               "`privacy_setup`, `lora_setup`, `other`)");
  fields.Field("stage_paths", BytesDatum(BytesByStagePath(moment, *input.attribution)),
               "the same with the stages that the program named around: `train > forward`; of a stack `stage_path`");
  return fields;
}

void AddComponents(const Moment& moment, const ReportInput& input, Document* answer) {
  std::vector<ComponentBytes> rows = DetailsByComponent(moment, *input.attribution);
  if (!rows.empty()) AddList("", "", "By component", ComponentColumns(moment), std::move(rows), 0, answer);
}

void AddModules(const Moment& moment, const ReportInput& input, size_t top, Document* answer) {
  std::vector<AnswerColumn<ModuleBytes>> columns;
  AddSizeColumns(moment.Total(), &columns);
  AddModuleColumns<ModuleBytes>(
      *input.attribution, [](const ModuleBytes& row) { return row.module; }, &columns);
  columns.push_back({"", "module", Unit::kText, "",
                     [&input](const ModuleBytes& row) { return ModuleLabel(input.attribution->modules[row.module]); }});
  AddMadeOf(&columns);
  AddList("modules",
          "modules with live bytes, largest first: `fqn`, `class`, `root_class`, `component`, `bytes`, `by_category`",
          "By module", std::move(columns), BytesByModule(moment), top, answer);
}

void AddNames(const Moment& moment, const ReportInput& input, size_t top, Document* answer) {
  std::vector<AnswerColumn<NamedBytes>> columns;
  AddSizeColumns(moment.Total(), &columns);
  columns.push_back({"count", "blocks", Unit::kCount, "", [](const NamedBytes& row) { return row.count; }});
  columns.push_back({"tensor_bytes", "", [](const NamedBytes& row) { return row.tensor_bytes; }});
  columns.push_back({"name", "name", Unit::kText, "the name; of a stack: of its blocks, else null",
                     [](const NamedBytes& row) { return row.name; }});
  AddMadeOf(&columns);
  AddList("names",
          "memory that the program gave a name ([python.md](python.md)), largest first: `name`, `bytes`, "
          "`tensor_bytes`, `count`, `by_category`",
          "By name that the program gave", std::move(columns), BytesByName(moment, *input.attribution), top, answer);
}

void AddUses(const Moment& moment, const ReportInput& input, size_t top, Document* answer) {
  const Attribution& attribution = *input.attribution;
  std::vector<AnswerColumn<AttributedUse>> columns = {
      {"bytes", "", [](const AttributedUse& use) { return use.bytes; }},
      {"tensor_bytes", "", [](const AttributedUse& use) { return use.tensor_bytes; }},
      {"count", "", [](const AttributedUse& use) { return use.count; }},
      {"layer", "", [](const AttributedUse& use) { return LayerName(use.layer); }},
      {"memory", "", [](const AttributedUse& use) { return MemoryName(use.memory); }},
      {"category", "", [](const AttributedUse& use) { return CategoryName(use.category); }},
      {"known_by", "", [](const AttributedUse& use) { return EvidenceName(use.evidence); }},
      {"stage", "", [](const AttributedUse& use) { return StageName(use.stage); }},
      {"stage_path", "",
       [&attribution](const AttributedUse& use) {
         return StagePath(attribution.user_stages[use.user_stage], use.stage);
       }},
      {"recomputed", "of a stack: a forward pass that ran again for the backward pass made it",
       [](const AttributedUse& use) { return use.recomputed; }},
      {"name", "",
       [&attribution](const AttributedUse& use) {
         const auto name = attribution.names.find(use.name);
         return name == attribution.names.end() ? Datum() : Datum(name->second);
       }},
  };
  AddModuleColumns<AttributedUse>(
      attribution, [](const AttributedUse& use) { return use.module; }, &columns);
  AppendStackColumns<AttributedUse>(
      [](const AttributedUse& use) {
        return StackKey{use.stack_id, ""};
      },
      input, &columns);
  Document::Rows first;
  first.count = Shown(moment.uses.size(), top);
  answer->Field("stack_count", moment.uses.size(), "");
  answer->Table("stacks", "", std::move(columns), moment.uses, first);
}

}  // namespace gpumem
