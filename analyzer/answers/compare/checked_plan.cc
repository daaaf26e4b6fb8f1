// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ParsePlanJson: peaks of a planned run, with the range that the plan gives.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/compare/check.h"
#include "base/json_reader.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

using Json = nlohmann::json;

std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

std::optional<uint64_t> Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

uint64_t Add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// What the doubts of a plan leave open of PyTorch's own numbers. The context, other processes and managed memory are
// none of PyTorch's.
struct Slack {
  uint64_t less = 0, more = 0;
  bool bounded = true;
  std::vector<std::string> what, of_total;  // the latter: with what is open of the device alone
};

absl::StatusOr<Slack> SlackOf(const Json& doubts) {
  Slack slack;
  if (!doubts.is_array()) return absl::InvalidArgumentError("its doubts are no list");
  for (const Json& doubt : doubts) {
    if (!doubt.is_object()) return absl::InvalidArgumentError("a doubt is not an object");
    const std::string kind = Text(doubt, "kind"), settle = Text(doubt, "settle");
    const std::string what = absl::StrCat(Text(doubt, "what"), settle.empty() ? "" : ". To settle it: ", settle);
    slack.of_total.push_back(what);
    if (kind == "context" || kind == "processes" || kind == "managed") continue;
    slack.less = Add(slack.less, Number(doubt, "less_bytes").value_or(0));
    const std::optional<uint64_t> more = Number(doubt, "more_bytes");
    slack.bounded &= more.has_value();
    slack.more = Add(slack.more, more.value_or(0));
    slack.what.push_back(what);
  }
  return slack;
}

CheckedBytes With(uint64_t bytes, const Slack& slack) {
  CheckedBytes result{bytes, bytes - std::min(bytes, slack.less), {}};
  if (slack.bounded) result.most = Add(bytes, slack.more);
  return result;
}

// Plans of before 0.2 have no range: only one without anything open is exact.
std::string DoubtWithoutRange(const Json& root) {
  if (Text(root, "verdict") == "depends_on_data") return "it depends on data values";
  const auto confidence = root.find("confidence");
  if (confidence == root.end() || !confidence->is_object()) return "the plan has no range";
  const auto unknown = confidence->find("unknown_workspaces");
  const bool is_open = unknown == confidence->end() || !unknown->is_array() || !unknown->empty();
  return is_open ? "nobody measured what some libraries need" : "";
}

absl::Status ReadRange(const Json& root, CheckedRun* run, uint64_t allocated, uint64_t reserved, uint64_t process) {
  const auto range = root.find("range");
  if (range == root.end() || range->is_null()) {
    Slack slack;
    const std::string open = DoubtWithoutRange(root);
    slack.bounded = open.empty();
    if (!open.empty()) run->doubt = open;
    run->peak = With(allocated, slack);
    run->reserved = With(reserved, slack);
    run->total = With(process, slack);
    return absl::OkStatus();
  }
  if (!range->is_object()) return absl::InvalidArgumentError("its range is not an object");
  const auto low = Number(*range, "low_bytes"), likely = Number(*range, "likely_bytes"),
             high = Number(*range, "high_bytes");
  const auto bounded = range->find("bounded");
  const bool is_bounded = bounded != range->end() && bounded->is_boolean() && bounded->get<bool>();
  const bool has_high = range->contains("high_bytes") && !(*range)["high_bytes"].is_null();
  if (!low || !likely || *low > *likely || (has_high || is_bounded ? !high || *likely > *high : false))
    return absl::InvalidArgumentError("its range has no bytes in order");
  GPUMEM_ASSIGN_OR_RETURN(const Slack slack, SlackOf(root.value("doubts", Json::array())));
  run->doubt = absl::StrJoin(slack.what, "; ");
  run->peak = With(allocated, slack);
  run->reserved = With(reserved, slack);
  run->total = CheckedBytes{*likely, *low, {}};
  if (is_bounded) run->total->most = *high;
  run->total_doubt = absl::StrJoin(slack.of_total, "; ");
  return absl::OkStatus();
}

absl::Status ReadPlan(const Json& root, CheckedRun* run) {
  if (!root.is_object() || Text(root, "command").empty()) return absl::InvalidArgumentError("it has no command");
  if (Text(root, "command") != "plan")
    return absl::InvalidArgumentError(absl::StrCat("it is of gpumemshim ", Text(root, "command")));
  const auto peak = root.find("peak");
  const bool has_peak = peak != root.end() && peak->is_object();
  if (!has_peak || Text(root, "verdict") == "unknown") {
    run->doubt = "gpumemshim plan has no answer for this program";
    return absl::OkStatus();
  }
  const auto allocated = Number(*peak, "allocated_bytes"), reserved = Number(*peak, "reserved_bytes"),
             process = Number(*peak, "process_bytes");
  if (!allocated || !reserved || !process) return absl::InvalidArgumentError("its peak has no bytes");
  GPUMEM_RETURN_IF_ERROR(ReadRange(root, run, *allocated, *reserved, *process));
  run->fragmentation_is_exact = run->doubt.empty();
  if (*reserved == 0) return absl::OkStatus();
  run->fragmentation = 1 - static_cast<double>(std::min(*allocated, *reserved)) / static_cast<double>(*reserved);
  run->fragmentation_is_least = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckedRun> ParsePlanJson(const std::string& text, const std::string& name) {
  CheckedRun run;
  run.name = name;
  run.is_planned = true;
  const absl::StatusOr<Json> root = ParseJson(text);
  const absl::Status status = root.ok() ? ReadPlan(*root, &run) : root.status();
  if (status.ok()) return run;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is neither a trace nor an answer of gpumemshim plan --json: ", status.message()));
}

}  // namespace gpumem
