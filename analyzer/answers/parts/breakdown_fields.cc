// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the samples of the device tell machines, and what this process's share of it is made of.

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "answers/parts/breakdown_parts.h"
#include "answers/report/sections.h"

namespace gpumem {
namespace {

Datum StatedDatum(uint64_t number) { return Datum::If(number != kNotStated, number); }

std::vector<AnswerColumn<DeviceReading>> ReadingColumns(const ReportInput& input) {
  constexpr absl::string_view kCauses[] = {"none", "periodic", "growth", "first_event", "out_of_memory", "program_end"};
  constexpr absl::string_view kMatches[] = {"unknown", "by_pid", "by_pid_inside", "only_one"};
  const auto stated = [](absl::string_view key, absl::string_view meaning, uint64_t DeviceReading::*number) {
    return AnswerColumn<DeviceReading>(key, meaning,
                                       [number](const DeviceReading& reading) { return StatedDatum(reading.*number); });
  };
  return {
      {"time_ns", "", [&input](const DeviceReading& reading) { return input.Since(reading.time_ns); }},
      {"took_ns", "how long the devices took to answer", [](const DeviceReading& reading) { return reading.took_ns; }},
      {"cause", "why it was taken: `periodic`, `growth`, `first_event`, `out_of_memory`, `program_end`",
       [=](const DeviceReading& reading) { return kCauses[reading.cause < std::size(kCauses) ? reading.cause : 0]; }},
      stated("own_bytes", "by this process; null = not stated, as all that follow", &DeviceReading::own),
      stated("used_bytes", "by all processes", &DeviceReading::used),
      stated("free_bytes", "not in use", &DeviceReading::free),
      stated("hardware_bytes", "size of the hardware's memory: more than CUDA's total", &DeviceReading::total),
      stated("driver_reserved_bytes", "kept by driver and firmware, whoever runs", &DeviceReading::driver_reserved),
      stated("pool_reserved_bytes", "by the device's default pool of stream-ordered memory",
             &DeviceReading::pool_reserved),
      {"own_process", "how this process was found: `by_pid`, `by_pid_inside` (a container), `only_one`, `unknown`",
       [=](const DeviceReading& reading) { return kMatches[static_cast<size_t>(reading.own_process)]; }}};
}

Datum SampleDatum(const MemoryBreakdown& breakdown, const ReportInput& input) {
  if (!breakdown.has_reading) return {};
  std::vector<Datum> others;
  for (const OtherProcess& other : breakdown.reading.others) {
    others.push_back(Datum::Object(
        {{"pid", other.pid}, {"name", Datum::TextOrNull(other.name)}, {"used_bytes", StatedDatum(other.bytes)}},
        JsonLayout::kOneLine));
  }
  std::vector<Member> members = *ObjectOf(ReadingColumns(input), breakdown.reading).members();
  members.push_back(
      {"same_state", breakdown.same_state, "whether CUDA's memory was the same in the sample and at the instant"});
  members.push_back(
      {"other_process_count", StatedDatum(breakdown.reading.other_count), "other processes on the device"});
  members.push_back({"other_processes", Datum::List(std::move(others)), "the largest of them"});
  return Datum::Object(std::move(members));
}

Datum PartListDatum(const MemoryBreakdown& breakdown, const ReportInput& input) {
  std::vector<Datum> parts;
  for (const BreakdownPart& part : PartsOf(breakdown, input)) {
    parts.push_back(Datum::Object(
        {{"part", part.name,
          "`pytorch_allocated`, `pytorch_idle`, `library` (memory outside PyTorch's cache, by who asked), `pool_idle`, "
          "`graphs`, `contexts`, `modules`, `local_memory`, `static_variables` and `unseen_calls` (both by CUPTI "
          "alone), "
          "`rounding`"},
         {"label", part.label, "the same for people"},
         {"library", Datum::TextOrNull(part.asked.library), "of a `library`: its name"},
         {"line", Datum::TextOrNull(part.asked.line), "of a `library`: the program's line that made it ask"},
         {"threads", Datum::If(!part.asked.threads.empty(), part.asked.threads.size()),
          "of a `library`: in how many threads; null = not known"},
         {"communicator", Datum::If(part.asked.communicator != 0, part.asked.communicator),
          "of NCCL: its communicator's number in the process; null where it was allocated otherwise, or that is not "
          "known"},
         {"ranks", Datum::If(part.asked.ranks != 0, part.asked.ranks), "of the communicator"},
         {"rank", Datum::If(part.asked.rank >= 0, part.asked.rank), "of this process in the communicator"},
         {"bytes", part.bytes},
         {"basis", BasisName(part.basis), "`measured`, `derived` (computed from what was measured) or `unknown`"}},
        JsonLayout::kOneLine));
  }
  return Datum::List(std::move(parts));
}

Datum BreakdownDatum(const MemoryBreakdown& breakdown, const ReportInput& input) {
  constexpr char kWhole[] = "of the whole process, in no device's share";
  constexpr char kStatic[] =
      "static variables of loaded code, by CUPTI: beside the parts `contexts` and `modules`, and within them; null "
      "where "
      "CUPTI did not watch";
  if (!breakdown.any) return {};
  const bool known = breakdown.process != kNotStated;
  const bool by_cupti = breakdown.cupti_known;
  return Datum::Object(
      {{"time_ns", input.Since(breakdown.time_ns)},
       {"parts", PartListDatum(breakdown, input), "what the share is made of"},
       {"unexplained_bytes", Datum::If(known, breakdown.unexplained),
        "the rest; negative where more is recorded than the device shows; null where the share is not known"},
       {"guess", Datum::TextOrNull(GuessAtRest(breakdown, *input.analysis)),
        "what the rest may be; null where it is small"},
       {"process_bytes", StatedDatum(breakdown.process), "what nvidia-smi shows for this process; null = not known"},
       {"process_basis", BasisName(BasisOfProcess(breakdown)),
        "`measured`: the device was sampled in this very state; `derived`: what changed since the sample is added"},
       {"why_unknown", Datum::TextOrNull(known ? "" : WhyNotKnown(breakdown, *input.analysis)),
        "why `process_bytes` is null"},
       {"host_pinned_bytes", breakdown.host_pinned, kWhole},
       {"managed_bytes", breakdown.managed, kWhole},
       {"imported_bytes", breakdown.imported, kWhole},
       {"static_bytes", by_cupti ? StatedDatum(breakdown.cupti.static_bytes) : Datum(), kStatic},
       {"static_in_measured_bytes", by_cupti ? StatedDatum(breakdown.cupti.static_in_measured_bytes) : Datum(),
        kStatic},
       {"sample", SampleDatum(breakdown, input), "the sample that was used; null where there is none"}});
}

Datum UseDatum(const DeviceUse& use, const ReportInput& input) {
  constexpr char kPeaks[] = "the largest sampled values", kNeighbour[] = "of a neighbour";
  std::vector<Datum> neighbours;
  for (const Neighbour& neighbour : use.neighbours) {
    neighbours.push_back(Datum::Object({{"pid", neighbour.pid},
                                        {"name", Datum::TextOrNull(neighbour.name)},
                                        {"peak_bytes", neighbour.peak},
                                        {"last_bytes", neighbour.last, kNeighbour},
                                        {"first_ns", input.Since(neighbour.first_ns), kNeighbour},
                                        {"last_ns", input.Since(neighbour.last_ns), kNeighbour}},
                                       JsonLayout::kOneLine));
  }
  return Datum::Object({{"samples", use.samples, "how many were taken"},
                        {"peak_used_bytes", use.peak_used, kPeaks},
                        {"peak_used_time_ns", input.Since(use.peak_used_ns), kPeaks},
                        {"peak_own_bytes", use.peak_own, kPeaks},
                        {"peak_own_time_ns", input.Since(use.peak_own_ns), kPeaks},
                        {"neighbours", Datum::List(std::move(neighbours)),
                         "every other process that a sample found, with its largest and last bytes"}});
}

Datum LimitsDatum(const SamplingInfo& sampling, const ReportInput& input) {
  constexpr char kLimit[] = "the limit: one of them";
  std::vector<Datum> limits;
  for (const CrossedLimit& limit : sampling.crossed) {
    limits.push_back(Datum::Object({{"device", limit.device},
                                    {"time_ns", input.Since(limit.time_ns)},
                                    {"limit_percent", Datum::If(limit.percent != 0, limit.percent), kLimit},
                                    {"limit_bytes", Datum::If(limit.percent == 0, limit.bytes), kLimit},
                                    {"used_bytes", limit.used},
                                    {"hardware_bytes", limit.total},
                                    {"own_bytes", StatedDatum(limit.own)}},
                                   JsonLayout::kOneLine));
  }
  return Datum::List(std::move(limits));
}

}  // namespace

void AddBreakdownFields(const DeviceAnalysis& device, const ReportInput& input, Document* answer) {
  answer->Field("breakdown",
                Datum::Object({{"at_peak", BreakdownDatum(device.breakdown_at_peak, input),
                                "in `breakdown`: at the peak of total; at the end (or at `--to`). Null where there is "
                                "none; in `fragmentation`: the point at the peak of reserved"},
                               {"at_end", BreakdownDatum(device.breakdown_at_end, input)}}),
                "in devices: what this process's share of the device is made of, below");
  answer->Field("device_use", UseDatum(device.use, input), "in devices: what the samples say all in all, below");
}

void AddDeviceSamples(const DeviceAnalysis& device, const ReportInput& input, Document* answer) {
  answer->Table("device_samples",
                "in devices: what the device said over time; of a long run every second, fourth, ... sample",
                ReadingColumns(input), device.use.readings, {.layout = JsonLayout::kOneLine});
}

Datum SamplingDatum(const ReportInput& input) {
  constexpr char kRam[] = "RAM of the machine";
  const SamplingInfo& sampling = input.analysis->sampling;
  return Datum::Object({{"samples", sampling.samples, "how many were taken"},
                        {"took_ns", sampling.took_ns},
                        {"source", Datum::TextOrNull(sampling.source), "who was asked: NVML with its version"},
                        {"error", Datum::TextOrNull(sampling.source_error),
                         "why nobody could be asked, or the last question that failed; else null"},
                        {"process_rss_peak_bytes", sampling.peak_rss, "most resident memory that was seen"},
                        {"system_total_bytes", sampling.system_total, kRam},
                        {"system_least_available_bytes", sampling.least_system_available, kRam},
                        {"limits_reached", LimitsDatum(sampling, input), "limits of `GPUMEMSHIM_WARN_AT`, in order"}});
}

}  // namespace gpumem
