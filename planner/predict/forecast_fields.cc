// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What machines get of a forecast, but for what people read as it stands.

#include "planner/predict/plan_answer.h"
#include "planner/predict/verdict.h"

namespace gpumem::plan {
namespace {

Datum DeviceDatum(const Forecast& forecast) {
  return Datum::Object({{"name", forecast.device.name},
                        {"full_name", forecast.device.full_name},
                        {"count", forecast.device_count},
                        {"memory_bytes", forecast.capacity()},
                        {"capability", CapabilityText(forecast.device.capability)},
                        {"multiprocessors", forecast.device.multiprocessors},
                        {"source", forecast.device.source, "of a GPU: where its numbers are from"}});
}

Datum SimulatedRankDatum(const Forecast& forecast) {
  if (forecast.world_size == 0) return {};
  return Datum::Object({{"rank", forecast.rank}, {"world_size", forecast.world_size, "how many ranks there are"}},
                       JsonLayout::kOneLine);
}

Datum RangeDatum(const Assessment& assessment, bool is_whole) {
  constexpr char kEnds[] =
      "of the steps that were run; `high_bytes` null = there is no upper bound, for a value that is not known sets a "
      "size, or the program did not come to its end";
  return Datum::Object({{"low_bytes", assessment.low, kEnds},
                        {"likely_bytes", assessment.likely, kEnds},
                        {"high_bytes", Datum::If(assessment.has_upper() && is_whole, assessment.high), kEnds},
                        {"bounded", assessment.bounded() && is_whole,
                         "false: a doubt has no upper end, or the program did not come to its end"}},
                       JsonLayout::kOneLine);
}

Datum TightDatum(const Forecast& forecast) {
  if (!forecast.fits_when_tight.has_value()) return {};
  return Datum::Object({{"runs_through", *forecast.fits_when_tight, "it gets to its end"},
                        {"refused_requests", forecast.refused_when_tight, "that the program lived on after"},
                        {"largest_refused_bytes", forecast.largest_refused, "the largest of them"},
                        {"peak", PeaksDatum(forecast.when_tight)}});
}

void AddDoubtFields(std::vector<Doubt> doubts, Document* answer) {
  answer->Table<Doubt>(
      "doubts", "what makes it a range: one object each",
      {{"kind",
        "of a doubt: `later_steps`, `values`, `data`, `workspaces`, `context`, `streams`, `processes`, `managed`, "
        "`lost_events`; of a read: `shape`, `branch`, `value`, `copy`",
        [](const Doubt& doubt) { return DoubtName(doubt.kind); }},
       {"what", "in words", &Doubt::what},
       {"less_bytes", "what it may change; null = no upper end", &Doubt::less},
       {"more_bytes", "what it may change; null = no upper end",
        [](const Doubt& doubt) { return Datum::If(doubt.bounded, doubt.more); }},
       {"settle", "what would settle it, or \"\"", &Doubt::settle}},
      std::move(doubts), {});
}

void AddProcessFields(const Forecast& forecast, Document* answer) {
  using Process = PlannedProcess;
  answer->Table<Process>(
      "processes", "one object for each that used CUDA",
      {{"pid", "", [](const Process& each) { return each.reported.pid; }},
       {"rank", "", [](const Process& each) { return each.reported.rank; }},
       {"steps", "that its optimizer made", [](const Process& each) { return each.reported.steps; }},
       {"last_growth", "the step with the last new peak",
        [](const Process& each) { return each.reported.last_growth; }},
       {"torch", "PyTorch's version", [](const Process& each) { return each.reported.torch; }},
       {"command", "", &Process::name},
       {"values_failed", "why values that decide were not computed; null = they were",
        [](const Process& each) { return Datum::TextOrNull(each.reported.values_failed); }},
       {"managed_bytes", "the most of it", &Process::managed},
       {"pinned_host_bytes", "the most of it", &Process::pinned_host},
       {"refused_requests", "", &Process::refused},
       {"trace", "its file, or null", [](const Process& each) { return Datum::TextOrNull(each.trace); }},
       {"peak", "", [](const Process& each) { return PeaksDatum(&each.peaks); }}},
      forecast.processes, {});
}

void AddSharedFields(const Forecast& forecast, Document* answer) {
  std::vector<SharedDevice> shared;
  for (const SharedDevice& each : forecast.shared) {
    if (each.processes.size() > 1) shared.push_back(each);
  }
  answer->Table<SharedDevice>(
      "shared_devices", "devices that several processes use",
      {{"device", "", &SharedDevice::device},
       {"pids", "the processes on it",
        [&forecast](const SharedDevice& each) {
          std::vector<Datum> pids;
          for (const size_t process : each.processes) pids.push_back(forecast.processes[process].reported.pid);
          return Datum::List(std::move(pids), JsonLayout::kOneLine);
        }},
       {"in_time_bytes", "most of all together at an instant of the run", &SharedDevice::in_time},
       {"at_once_bytes", "were all at their peaks at once", &SharedDevice::at_once}},
      std::move(shared), {.layout = JsonLayout::kOneLine});
}

}  // namespace

Datum PeaksDatum(const RunPeaks* peaks) {
  if (peaks == nullptr || peaks->device < 0) return {};
  return Datum::Object({{"device", peaks->device},
                        {"allocated_bytes", peaks->allocated, "PyTorch's blocks"},
                        {"reserved_bytes", peaks->reserved, "PyTorch's segments"},
                        {"process_bytes", peaks->process, "as nvidia-smi shows it"},
                        {"context_bytes", peaks->context, "of `process_bytes`: no call asked for them"},
                        {"other_bytes", peaks->elsewhere, "of `process_bytes`: asked for past PyTorch's allocator"},
                        {"device_bytes", peaks->need(), "of that device, with all processes on it and managed memory"}},
                       JsonLayout::kOneLine);
}

absl::string_view RunEndName(RunEnd end) {
  switch (end) {
    case RunEnd::kStable:
      return "stable";
    case RunEnd::kSteps:
      return "steps";
    case RunEnd::kEnded:
      return "ended";
    case RunEnd::kTimedOut:
      return "timed_out";
    case RunEnd::kSpins:
      return "spins";
    case RunEnd::kFailed:
      return "failed";
    case RunEnd::kCapability:
      return "capability";
  }
  return "";
}

Document ForecastFields(const Forecast& forecast) {
  const Assessment assessment = Assess(forecast);
  std::vector<Datum> command(forecast.command.begin(), forecast.command.end());
  Document answer;
  answer.Field("schema_version", kJsonSchemaVersion, "");
  answer.Field("command", "plan", "");
  answer.Field("simulated", true, "always true: no GPU was used");
  answer.Field("command_line", Datum::List(std::move(command), JsonLayout::kOneLine),
               "what was run: with `--vary` the largest that fits");
  answer.Field("device", DeviceDatum(forecast),
               "the GPU: `name`, `full_name`, `count`, `memory_bytes`, `capability`, `multiprocessors`, `source`; of a "
               "peak, its number");
  answer.Field("simulated_rank", SimulatedRankDatum(forecast),
               "the rank that the process simulated, `rank` and `world_size`, with `--world-size`; else null");
  answer.Field(
      "verdict", VerdictName(assessment.verdict),
      "`fits`, `fits_unless` (something without an upper end is open, or only the upper end is above the device and "
      "what is likely is more than 3 % below it), `too_close` (the device's size is "
      "within the range), `does_not_fit`, `unknown`");
  answer.Field("fits", assessment.verdict == Verdict::kFits,
               "true for the first; of a run of `--vary`: with the margin");
  answer.Field("range", RangeDatum(assessment, forecast.answered() && !IsCutShort(forecast.end)),
               "of the fullest device, in nvidia-smi's terms");
  AddDoubtFields(assessment.doubts, &answer);
  answer.Field("tight", TightDatum(forecast),
               "of a run with no more memory than the device has, where more was wanted; else null. With refused "
               "requests, the whole answer is of that run");
  answer.Field("peak", PeaksDatum(forecast.answered() ? &forecast.peaks() : nullptr),
               "of the process that needs most, on its fullest device; of another run, the same of it; null = no "
               "answer");
  answer.Field("end", RunEndName(forecast.end),
               "`stable`, `steps`, `ended`, `timed_out`, `spins`, `failed`, `capability`");
  answer.Field("exit_code", forecast.exit_code, "of the program");
  answer.Field("stuck_at", forecast.stuck_at, "where it was when it was ended, \"\" where it was not");
  std::vector<Datum> lines;
  for (std::string& line : forecast.last_lines()) lines.emplace_back(std::move(line));
  answer.Field("last_lines", Datum::List(std::move(lines)),
               "the end of what the program wrote, where it did not come to its end; else empty");
  answer.Field("seconds", forecast.seconds, "how long it ran");
  AddProcessFields(forecast, &answer);
  answer.Field("skew_bytes", forecast.skew(), "by how much `process_bytes` of the processes differ");
  AddSharedFields(forecast, &answer);
  return answer;
}

Document PlanAnswer(const Forecast& forecast, Document peak, Document losses) {
  Document answer = ForecastFields(forecast), why;
  if (forecast.answered()) AddVerdict(forecast, &answer);
  if (!forecast.answered()) AddFailure(forecast, &answer);
  AddVaried(forecast, &why);
  why.Append(std::move(peak));
  AddWhatIfs(forecast, &why);
  AddExplanation(forecast, &why);
  AddConfidence(forecast, &why);
  why.Append(std::move(losses));
  AddTime(forecast.time, &why);
  forecast.answered() ? answer.Append(std::move(why)) : answer.AppendFields(std::move(why));
  return answer;
}

}  // namespace gpumem::plan
