// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_frame.h"

#include <algorithm>
#include <cmath>

#include "answers/parts/categories.h"
#include "answers/report/trace_answer.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

using LiveColumn = AnswerColumn<LiveDevice>;

Datum OthersDatum(const std::vector<OtherProcess>& others) {
  std::vector<Datum> listed;
  for (const OtherProcess& other : others) {
    listed.push_back(Datum::Object({{"pid", other.pid},
                                    {"name", Datum::TextOrNull(other.name)},
                                    {"used_bytes", Datum::If(other.bytes != kNotStated, other.bytes)}},
                                   JsonLayout::kOneLine));
  }
  return Datum::List(std::move(listed));
}

std::vector<LiveColumn> DeviceColumns(const LiveProcess& process) {
  constexpr char kNow[] =
      "`allocated_bytes`, `reserved_bytes`, `other_bytes`, `total_bytes`: at the newest event; each one's highest";
  constexpr char kSaid[] =
      "what the device said last: in use by all processes, by this one, and the other processes that it named: objects "
      "with `pid`, `name`, `used_bytes`; null = it did not";
  return {{"device", "of `devices`: which it is; of a process: the GPU that what follows is of", &LiveDevice::device},
          {"name", "of a device; null = not known",
           [](const LiveDevice& device) { return Datum::TextOrNull(device.name); }},
          {"capacity_bytes", "null = not known",
           [](const LiveDevice& device) { return Datum::If(device.capacity != 0, device.capacity); }},
          {"now", kNow, [](const LiveDevice& device) { return ValuesDatum(device.now); }},
          {"peak", kNow, [](const LiveDevice& device) { return ValuesDatum(device.peak); }},
          {"peak_bound", "of `peak`, as `bound` in [devices](#devices)",
           [](const LiveDevice& device) { return PeakBoundName(device.bound); }},
          {"unsure", "events are missing, and PyTorch has not said its totals since", &LiveDevice::is_unsure},
          {"device_used_bytes", kSaid, &LiveDevice::used},
          {"process_used_bytes", kSaid, &LiveDevice::own},
          {"others", kSaid, [](const LiveDevice& device) { return OthersDatum(device.others); }},
          {"curve", "at most 240 points, each with the maxima around it", [&process](const LiveDevice& device) {
             std::vector<Datum> points;
             for (const TimelinePoint& point : device.curve) {
               const MeasureValues& max = point.max;
               points.push_back(Datum::Object({{"time_ns", point.time_ns - process.origin_ns},
                                               {"allocated_bytes", max.allocated},
                                               {"reserved_bytes", max.reserved},
                                               {"other_bytes", max.other},
                                               {"total_bytes", max.total}},
                                              JsonLayout::kOneLine));
             }
             return Datum::List(std::move(points));
           }}};
}

Datum StepsDatum(const LiveSteps& steps) {
  const bool any = steps.count != 0, timed = steps.step_ns > 0;
  return Datum::Object({{"count", steps.count, "of complete ones"},
                        {"last", Datum::If(any, steps.last), "its number"},
                        {"step_ns", Datum::If(timed, static_cast<uint64_t>(steps.step_ns)), "median of the newest 50"},
                        {"steps_per_second", Datum::If(timed, 1e9 / std::max(steps.step_ns, 1.0)), "by `step_ns`"},
                        {"last_peak_bytes", Datum::If(any, steps.level), "the last step's peak"},
                        {"growth_bytes_per_step", steps.per_step, "of the peaks, where it goes on; else 0"}});
}

Datum ForecastDatum(const Outlook& outlook) {
  constexpr char kUntil[] = "from the last step to the limit; null where none is reached";
  const Forecast& forecast = outlook.forecast;
  const bool reaches = forecast.kind == ForecastKind::kReaches || forecast.kind == ForecastKind::kFar;
  const auto steps = [&](double value) {
    const bool known = reaches && std::isfinite(value);
    return Datum::If(known, known ? static_cast<uint64_t>(std::llround(value)) : 0);
  };
  const auto limit = static_cast<uint64_t>(outlook.limit.high);
  return Datum::Object({{"kind", ForecastKindName(forecast.kind), "as [forecast](#forecast) has it"},
                        {"risk", RiskLevelName(outlook.risk), "as [forecast](#forecast) has it"},
                        {"sentence", outlook.sentence, "as [forecast](#forecast) has it"},
                        {"limit_bytes", Datum::If(outlook.limit.high > 0, limit),
                         "what PyTorch's blocks can have of the GPU; null = not known"},
                        {"earliest_steps", steps(forecast.earliest), kUntil},
                        {"likely_steps", steps(forecast.likely), kUntil},
                        {"latest_steps", steps(forecast.latest), kUntil}});
}

const std::vector<AnswerColumn<LiveLine>>& LineColumns() {
  constexpr char kOfLine[] = "of a line";
  static const auto* const kColumns = new std::vector<AnswerColumn<LiveLine>>{
      {"site", kOfLine, &LiveLine::site},
      {"through", "what it called; \"\" = nothing to add", &LiveLine::through},
      {"category", kOfLine, [](const LiveLine& line) { return CategoryName(line.category); }},
      {"bytes", kOfLine, &LiveLine::bytes},
      {"blocks", kOfLine, &LiveLine::blocks},
      {"change_bytes", "what it gained since `changes_since_ns`; null in the first frame", &LiveLine::change}};
  return *kColumns;
}

Document ProcessDocument(const LiveProcess& process) {
  constexpr char kSize[] = "size of the file, time of the newest event, events so far";
  const ProcessInfo& info = process.process;
  Document object;
  object.Field("file", process.file, "the trace");
  object.Field("program", info.program, "");
  object.Field("pid", Datum::If(info.pid != 0, info.pid), "null = not known");
  object.Field("rank", Datum::If(info.rank >= 0, info.rank), "null = not known");
  object.Field("host", info.hostname, "whose trace");
  object.Field("state", LiveStateName(process.state),
               "`running`, `ended`, `killed` (its trace was not closed), `unknown` (not a process of this machine)");
  object.Field("read", process.read,
               "how much of the file was read, of 1: below 1 all numbers are of an earlier moment");
  object.Field("file_bytes", process.file_bytes, kSize);
  object.Field("time_ns", process.now_ns, kSize);
  object.Field("events", process.events, kSize);
  object.Field(
      "heartbeat_age_ns", process.heartbeat_age_ns,
      "how long ago the newest event or sample was, by this machine's clock; the recorder samples about once a "
      "second. Null where the program has ended, or its file was not read to its end");
  object.Table("devices", "one object a GPU", DeviceColumns(process), process.devices, {});
  object.Field("device", Datum::If(process.device >= 0, process.device), "");
  object.Field("measure", MeasureName(process.measure), "whether lines are of `allocated` or of `total` memory");
  object.Field("at_program_end", process.at_program_end,
               "the program's own code has ended: `now`, categories and lines are of that moment");
  object.Field("categories", Datum::If(process.device >= 0, CategoriesDatum(process.categories)),
               "bytes by category, as `gpumemshim at` has them; null without GPU memory");
  object.Field("lines_bytes", process.lines_bytes, "of all lines");
  object.Field("changes_since_ns", Datum::If(process.changes_since_ns != 0, process.changes_since_ns),
               "the moment that `change_bytes` are since, at most about a minute ago; null in the first frame");
  object.Table("lines", "the 200 lines of code that hold most", LineColumns(), process.lines,
               {.layout = JsonLayout::kOneLine});
  object.Field("steps", StepsDatum(process.steps), "object");
  object.Field("forecast", ForecastDatum(process.outlook), "object; the line that is why is not looked for");
  object.Field("failed_requests", process.failed_requests,
               "requests that PyTorch's allocator (without it: CUDA) refused for want of memory");
  object.Field("losses", LossesDatum(process.losses), "as in [report](#report)");
  object.Field("last_mark", process.last_mark, "the newest mark");
  object.Field("problem", process.problem, "what cannot be read, and why");
  return object;
}

}  // namespace

std::vector<const LiveProcess*> LaggingRanks(const std::vector<LiveProcess>& processes) {
  std::vector<const LiveProcess*> ranks;
  for (const LiveProcess& process : processes) {
    if (process.process.rank >= 0 && MayGrow(process) && process.read >= 1 && process.steps.count != 0)
      ranks.push_back(&process);
  }
  if (ranks.size() < 2) return {};
  const auto [least, most] = std::minmax_element(
      ranks.begin(), ranks.end(), [](const auto* a, const auto* b) { return a->steps.last < b->steps.last; });
  const uint64_t lowest = (*least)->steps.last;
  if ((*most)->steps.last < lowest + 2) return {};
  std::erase_if(ranks, [&](const LiveProcess* rank) { return rank->steps.last != lowest; });
  return ranks;
}

Document LiveDocument(const LiveFrame& frame) {
  std::vector<Document> processes;
  for (const LiveProcess& process : frame.processes) processes.push_back(ProcessDocument(process));
  Document answer;
  answer.Field("schema_version", kJsonSchemaVersion, "");
  answer.Field("command", "live", "");
  answer.Field("place", frame.place, "as asked");
  answer.Documents("processes", "one object a process", std::move(processes));
  std::vector<Datum> lagging;
  for (const LiveProcess* const process : LaggingRanks(frame.processes)) lagging.push_back(process->process.rank);
  answer.Field("lagging_ranks", Datum::List(std::move(lagging)),
               "ranks at the lowest step of those that may still run, where another is at least two steps further");
  return answer;
}

}  // namespace gpumem
