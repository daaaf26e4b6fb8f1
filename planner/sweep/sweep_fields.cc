// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/row_json.h"
#include "planner/sweep/sweep_document.h"

namespace gpumem::plan {
namespace {

using RowColumn = AnswerColumn<SweepRow>;

template <typename T>
Datum ListDatum(const std::vector<T>& values) {
  return Datum::List(std::vector<Datum>(values.begin(), values.end()), JsonLayout::kOneLine);
}

// 0 where nothing was seen would read as a measurement: null.
Datum BytesOrNull(uint64_t bytes) { return Datum::If(bytes != 0, bytes); }

// Whole numbers as numbers.
Datum ValuesDatum(const Configuration& values) {
  std::set<std::string> written;
  std::vector<Member> members;
  for (const auto& [axis, value] : values) {
    if (!written.insert(axis).second) continue;  // twice the same key would be no good JSON
    int64_t number = 0;
    const bool is_number = absl::SimpleAtoi(value, &number) && absl::StrCat(number) == value;
    members.push_back({axis, is_number ? Datum(number) : Datum(value)});
  }
  return Datum::Object(std::move(members), JsonLayout::kOneLine);
}

Datum FitDatum(const ScalingFit& fit) {
  if (fit.model == ScalingModel::kNone) return {};
  constexpr char kTerms[] = "bytes = constant + linear n + quadratic n²";
  return Datum::Object(
      {{"model", ScalingModelName(fit.model),
        "`constant`, `linear`, `quadratic`, or `other` (it changes, and a line is too far off): the simplest whose "
        "error is close to that of the next"},
       {"constant_bytes", fit.constant, kTerms},
       {"linear_bytes", fit.linear, kTerms},
       {"quadratic_bytes", fit.quadratic, kTerms},
       {"r_squared", fit.r_squared, "1 = the curve goes through all points"},
       {"largest_relative_error", fit.largest_relative_error,
        "the largest error of a point, as a share of its measured value"}},
      JsonLayout::kOneLine);
}

void AddScalingFields(const SweepAnswer& answer, Document* document) {
  using Scaling = AxisScaling;
  constexpr char kLaw[] = "the law of each, or null", kFitted[] = "the fitted values, and what was measured there";
  constexpr char kGroups[] = "groups in which only this axis varies, and how many of them have the same model";
  document->Table<Scaling>(
      "scaling", "how memory grows: one object an axis",
      {{"axis", "its name", &Scaling::axis},
       {"basis",
        "`varied`; or why there is no law: `one_value`, `not_numeric`, `never_alone` (the axis never varies alone), "
        "`peaks_unknown`",
        [](const Scaling& scaling) { return ScalingBasisName(scaling.basis); }},
       {"sentence", "the result in words, in the language of the sweep",
        [&answer](const Scaling& scaling) { return ScalingSentence(scaling, answer.language); }},
       {"peak_allocated", kLaw, [](const Scaling& scaling) { return FitDatum(scaling.allocated); }},
       {"peak_reserved", kLaw, [](const Scaling& scaling) { return FitDatum(scaling.reserved); }},
       {"weakly_supported", "two values, or a quadratic through three: no point is left that could contradict the law",
        &Scaling::weak},
       {"small_effect", "from the smallest to the largest value the peak changes by less than 5 %", &Scaling::small},
       {"at_values", kFitted, [](const Scaling& scaling) { return ListDatum(scaling.values); }},
       {"allocated_bytes", kFitted, [](const Scaling& scaling) { return ListDatum(scaling.allocated_bytes); }},
       {"reserved_bytes", kFitted, [](const Scaling& scaling) { return ListDatum(scaling.reserved_bytes); }},
       {"fixed", "the values of the other axes in that group",
        [](const Scaling& scaling) { return ValuesDatum(scaling.fixed); }},
       {"comparisons", kGroups, &Scaling::groups},
       {"agreeing_comparisons", kGroups, &Scaling::agreeing}},
      answer.scaling, {});
}

// What both files say of a configuration.
const std::vector<RowColumn>& SharedColumns() {
  constexpr char kNumber[] = "of a configuration: its number; axis to value, whole numbers as numbers";
  static const auto* const kColumns = new std::vector<RowColumn>{
      {"number", kNumber, &SweepRow::number},
      {"values", kNumber, [](const SweepRow& row) { return ValuesDatum(row.values); }},
      {"state",
       "`fits`, `out_of_memory`, `failed`, `timed_out`, `spins` (waits for a value that no simulated kernel computes), "
       "`no_cuda`",
       [](const SweepRow& row) { return RowStateName(row.state); }},
      {"peak_allocated_bytes",
       "peak of PyTorch's blocks; if it does not fit: what it would need, if known; of a stage: while it lasted",
       [](const SweepRow& row) { return BytesOrNull(row.peak_allocated); }},
      {"stages", "objects with what follows", StagesDatum}};
  return *kColumns;
}

std::vector<RowColumn> ConfigurationColumns() {
  std::vector<RowColumn> columns = SharedColumns();
  const std::vector<RowColumn> own = {
      {"fits", "whether it fits", [](const SweepRow& row) { return row.state == RowState::kFits; }},
      {"reason", "in one line, why it does not fit or has no answer", &SweepRow::reason},
      {"exit_code", "128 + signal", &SweepRow::exit_code},
      {"peak_reserved_bytes", "PyTorch's segments", [](const SweepRow& row) { return BytesOrNull(row.peak_reserved); }},
      {"peak_process_bytes", "the whole process, as nvidia-smi shows it, which decides whether it fits",
       [](const SweepRow& row) { return BytesOrNull(row.peak_process); }},
      {"capacity_bytes", "of the device", [](const SweepRow& row) { return BytesOrNull(row.capacity); }},
      {"seconds", "", &SweepRow::seconds},
      {"optimizer_steps", "steps that it made", &SweepRow::steps},
      {"lost_events", "if not 0, the peaks may be higher", &SweepRow::lost_events},
      {"trace", "its file beside the results, for every other command; or null",
       [](const SweepRow& row) { return Datum::TextOrNull(row.trace); }}};
  columns.insert(columns.end(), own.begin(), own.end());
  return columns;
}

// What ran, on what, when: what every file begins with.
Document HeadOf(const SweepAnswer& answer) {
  Document head;
  head.Field("schema_version", kJsonSchemaVersion, "that of [json.md](../json.md)");
  head.Field("command", "sweep", "`sweep`");
  head.Field("gpumemshim_version", answer.version, "the version that wrote the file");
  head.Field("simulated", answer.simulated, "true if no GPU was used");
  head.Field("mode", answer.simulated ? "simulated" : "gpu", "`simulated` or `gpu`");
  head.Field("command_line", ListDatum(answer.command), "the program with its placeholders");
  head.Field("device", answer.device, "the GPU");
  head.Field("device_bytes", BytesOrNull(answer.capacity), "its memory as a program sees it");
  head.Field("steps", answer.steps, "how far each run went: a number, `stable` or `all`");
  head.Field("start_realtime_ns", answer.started_realtime_ns, "start of the sweep in nanoseconds since 1970");
  head.Field("duration_seconds", answer.seconds, "of the sweep");
  return head;
}

Datum NumberDatum(const SweepRow* row) { return row == nullptr ? Datum() : Datum(row->number); }

}  // namespace

Document SweepDocument(const SweepAnswer& answer) {
  constexpr char kBest[] = "numbers of configurations, by allocated memory";
  Document document = HeadOf(answer);
  document.Field("not_run", answer.left, "number of configurations that did not run");
  document.Table<std::string>(
      "axes", "one object an axis",
      {{"name", "of an axis, a stage, a component", [](const std::string& axis) { return axis; }},
       {"tried", "its values, as text",
        [&answer](const std::string& axis) { return ListDatum(ValuesOf(answer.rows, axis)); }}},
      AxesOf(answer.rows), {.layout = JsonLayout::kOneLine});
  document.Field("margin", answer.margin, "the share of the device that the largest that fits leaves free: 0.05");
  document.Field("largest_that_fits", NumberDatum(LargestThatFits(answer.rows, answer.margin)), kBest);
  document.Field("next_larger", NumberDatum(NextAfterLargest(answer.rows, answer.margin)),
                 "the number of the one that needs least of those that do not fit with that margin");
  document.Field("least_memory", NumberDatum(LeastThatFits(answer.rows)), kBest);
  AddScalingFields(answer, &document);
  document.Table("configurations", "one object each", ConfigurationColumns(), answer.rows, {});
  document.Field("directory", answer.directory, "where the files are");
  document.Field("files", ListDatum(answer.files), "their names");
  document.Field("notes", ListDatum(answer.notes), "what the numbers rest on");
  AddSweep(answer, &document);
  return document;
}

namespace {

// Each of these is always there, so that a script need not ask; all others are in "others".
Datum TypesDatum(const SweepRow& row) {
  constexpr char kType[] = "bytes; `gradients` excludes per-sample gradients, which differential privacy needs";
  constexpr std::pair<const char*, const char*> kNames[] = {{"parameters", "parameter"},
                                                            {"gradients", "gradient"},
                                                            {"per_sample_gradients", "per_sample_gradient"},
                                                            {"optimizer_state", "optimizer_state"},
                                                            {"activations", "activation"}};
  std::map<std::string, uint64_t> types;
  for (const PartBytes& type : MemoryTypes(row)) types[type.name] = type.bytes;
  std::vector<Member> members;
  for (const auto& [key, name] : kNames) {
    members.push_back({key, types[name], kType});
    types.erase(name);
  }
  members.push_back({"others", BytesDatum(types), "bytes of the others, by name"});
  return Datum::Object(std::move(members));
}

Datum OperationsDatum(const std::vector<PartBytes>& operations) {
  std::vector<Member> members;
  for (const PartBytes& operation : operations) members.push_back({operation.name, operation.bytes, "bytes"});
  return Datum::Object(std::move(members), JsonLayout::kOneLine);
}

Datum ComponentsDatum(const SweepRow& row) {
  using Component = RowComponent;
  static const auto* const kColumns = new std::vector<AnswerColumn<Component>>{
      {"name", "", &Component::name},
      {"bytes_at_peak", "of a component", [](const Component& each) { return SumOf(each.at_peak); }},
      {"by_category_at_peak", "the same by category", [](const Component& each) { return BytesDatum(each.at_peak); }},
      {"allocated_by_stage", "its allocations in the whole run by stage",
       [](const Component& each) { return BytesDatum(each.allocated); }},
      {"operations", "", [](const Component& each) { return OperationsDatum(Operations(each.allocated)); }}};
  std::vector<Datum> components;
  for (const Component& each : row.components) components.push_back(ObjectOf(*kColumns, each, JsonLayout::kLines));
  return Datum::List(std::move(components));
}

// Columns rather than points: a third of the text, and ready for a data frame.
Datum TimelineDatum(const SweepRow& row) {
  const auto column = [&](auto member) {
    std::vector<Datum> values;
    for (const RowPoint& point : row.timeline) values.emplace_back(point.*member);
    return Datum::List(std::move(values), JsonLayout::kOneLine);
  };
  return Datum::Object({{"seconds", column(&RowPoint::seconds)},
                        {"allocated_bytes", column(&RowPoint::allocated)},
                        {"reserved_bytes", column(&RowPoint::reserved)},
                        {"process_bytes", column(&RowPoint::process), "at those times"}});
}

}  // namespace

Document DetailedDocument(const SweepAnswer& answer) {
  std::vector<RowColumn> columns = SharedColumns();
  const std::vector<RowColumn> own = {
      {"memory_types", "at the peak: objects of what follows", TypesDatum},
      {"categories", "the same by the names of [json.md](../json.md)",
       [](const SweepRow& row) { return BytesDatum(row.categories); }},
      {"parts", "their parts", [](const SweepRow& row) { return BytesDatum(row.parts); }},
      {"tensors",
       "bytes of the tensors at the peak, without rounding: `parameter`, `gradient` (includes `per_sample`, also "
       "listed), `optimizer_state`, `buffer`, `input`",
       [](const SweepRow& row) { return BytesDatum(row.tensors); }},
      {"operations",
       "everything that was allocated, freed or not: `forward` (with the loss), `backward`, `optimizer` (with "
       "zero_grad), `other`",
       [](const SweepRow& row) { return OperationsDatum(Operations(row)); }},
      {"components", "attention, mlp, embedding, norm, lora, head, linear, ...: one object each", ComponentsDatum},
      {"timeline", "columns of equal length: `seconds`, `allocated_bytes`, `reserved_bytes`, `process_bytes`",
       TimelineDatum}};
  columns.insert(columns.end(), own.begin(), own.end());
  Document document = HeadOf(answer);
  document.Table("configurations", "", std::move(columns), answer.rows, {});
  return document;
}

}  // namespace gpumem::plan
