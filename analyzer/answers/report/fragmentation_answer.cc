// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/parts/pin_lines.h"
#include "answers/report/reserve_causes.h"
#include "answers/report/sections.h"
#include "answers/report/segments_at_end.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "ledger/load/ground.h"
#include "ledger/stacks/names.h"
#include "render/sparkline.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// A row of the table of moments and pools; machines get objects without the name.
struct NamedPoint {
  std::string name;
  FragmentationPoint point;
};

// What follows from segments, where they were recorded.
template <typename Value>
Datum IfKnown(Value value, const ReportInput& input) {
  return Datum::If(GroundOf(*input.analysis).has_segments, value);
}

std::vector<AnswerColumn<NamedPoint>> PointColumns(const ReportInput& input) {
  std::vector<AnswerColumn<NamedPoint>> columns = {
      {"", kNoTitle, Unit::kText, "", [](const NamedPoint& row) { return row.name; }},
      {"time_ns", "", [&input](const NamedPoint& row) { return input.Since(row.point.time_ns); }},
      {"reserved_bytes", "reserved", Unit::kBytes, "", [](const NamedPoint& row) { return row.point.reserved; }},
      {"allocated_bytes", "", [](const NamedPoint& row) { return row.point.allocated; }},
      {"pending_bytes", "pending", Unit::kBytes,
       "freed, and in use by another stream until later; 0 where nothing tells of it",
       [](const NamedPoint& row) { return row.point.pending; }},
      {"free_bytes", "free", Unit::kBytes, "reserved - allocated - pending",
       [&input](const NamedPoint& row) { return IfKnown(row.point.free, input); }},
      {"largest_free_range_bytes", "largest", Unit::kBytes, "inside one segment",
       [&input](const NamedPoint& row) { return IfKnown(row.point.largest_free_range, input); }},
      {"free_ranges", "ranges", Unit::kCount, "how many",
       [&input](const NamedPoint& row) { return IfKnown(row.point.free_ranges, input); }},
      {"external_ratio", "external", Unit::kShare, "1 - largest / free; 0 where nothing is free",
       [&input](const NamedPoint& row) { return IfKnown(row.point.external_ratio, input); }},
      {"rounding_bytes", "rounding", Unit::kBytes, "blocks minus what was asked for; null where requests are not known",
       [](const NamedPoint& row) { return Datum::If(row.point.requested_known, row.point.rounding); },
       [](const NamedPoint& row) { return row.point.requested_known ? FormatBytes(row.point.rounding) : "not known"; }},
      {"empty_cache_bytes", "empty_cache()", Unit::kBytes,
       "what `torch.cuda.empty_cache()` would return to CUDA: segments without a block, of expandable segments mapped "
       "pages without one",
       [&input](const NamedPoint& row) { return IfKnown(row.point.empty_cache, input); }},
  };
  columns[4].telling = [](const NamedPoint& row) { return row.point.pending != 0; };
  return columns;
}

void AddTable(const Fragmentation& fragmentation, const ReportInput& input, Detail detail, Document* answer) {
  std::vector<NamedPoint> rows = {{"at the peak", fragmentation.at_peak}, {"at the end", fragmentation.at_end}};
  if (detail == Detail::kFull) {
    for (const PoolFragmentation& pool : fragmentation.pools) {
      rows.push_back({absl::StrCat(pool.pool, " pool, peak"), pool.at_peak});
      rows.push_back({absl::StrCat(pool.pool, " pool, end"), pool.at_end});
    }
  }
  answer->Table("", "", PointColumns(input), std::move(rows), {});
}

// External fragmentation as a curve from 0 to 100 %.
void AddCurve(const Fragmentation& fragmentation, const ReportInput& input, Document* answer) {
  if (fragmentation.over_time.size() < 2) return;
  TimeCurve curve;
  curve.room = 40;
  curve.top = 1000;
  curve.lead = {{Tone::kPlain, "  external over time  "}};
  curve.after = {{Tone::kAside, "  0 to 100 %"}};
  curve.values = [&fragmentation, &input](size_t count) {
    std::vector<TimelinePoint> points;
    for (const FragmentationPoint& point : fragmentation.over_time) {
      TimelinePoint& shown = points.emplace_back();
      shown.time_ns = point.time_ns;
      shown.max.total = static_cast<uint64_t>(point.external_ratio * 1000);
    }
    return Resample(points, Measure::kTotal, input.window_start_ns(), input.window_end_ns(), count);
  };
  answer->Curve(std::move(curve));
}

// By line of code, with true totals. In a brief report the first line alone.
void AddPins(absl::string_view when, uint64_t time_ns, const std::vector<PinGroup>& groups, const ReportInput& input,
             const TextOptions& options, Document* answer) {
  if (groups.empty()) return;
  answer->Line({{Tone::kPlain, absl::StrCat("  Blocks that keep mostly empty segments from CUDA, ", when, ":")},
                {Tone::kAside, absl::StrCat("  ", FormatBytes(ReturnableBytes(groups)), " in all")}});
  AddPinLines(PinLines(groups, input), time_ns, input, options, answer);
}

std::string PartName(const CachePart& part, bool is_imported) {
  if (is_imported) return NameOfPool(part.stream, part.pool);
  const std::string stream = part.stream == 0 ? "default stream" : absl::StrCat("stream ", part.stream);
  return part.pool == 0 ? stream : absl::StrCat(stream, ", private pool of capture ", part.pool);
}

std::vector<AnswerColumn<CachePart>> PartColumns(const ReportInput& input) {
  const bool is_imported = ImportInfoOf(input.analysis->process.settings).any();
  constexpr char kIds[] =
      "PyTorch's id of the stream, 0 = the default one; the private pool by the first capture of a CUDA graph in it, "
      "0 = the common one; in imports 2^32 * first + second number of the pool's id";
  std::vector<AnswerColumn<CachePart>> columns = {
      {"stream", "", Unit::kCount, kIds, [](const CachePart& part) { return part.stream; }},
      {"pool", "", Unit::kCount, kIds, [](const CachePart& part) { return part.pool; }},
      {"reserved_bytes", "reserved", Unit::kBytes, "", [](const CachePart& part) { return part.reserved; }},
      {"pending_bytes", "pending", Unit::kBytes, "freed, and in use by another stream until later",
       [](const CachePart& part) { return part.pending; }},
      {"free_bytes", "free", Unit::kBytes, "which no other stream and no other pool can use",
       [](const CachePart& part) { return part.free; }},
      {"empty_bytes", "in whole segments", Unit::kBytes, "of it: in segments, or mapped pages, without a block",
       [](const CachePart& part) { return part.empty; }},
      {"segments", "segments", Unit::kCount, "", [](const CachePart& part) { return part.segments; }},
      {"", kNoTitle, Unit::kText, "", [is_imported](const CachePart& part) { return PartName(part, is_imported); }},
  };
  columns[3].telling = [](const CachePart& part) { return part.pending != 0; };
  return columns;
}

// Where there is more than one.
void AddParts(const Fragmentation& fragmentation, const ReportInput& input, const TextOptions& options,
              Document* answer) {
  if (fragmentation.caches_at_peak.size() < 2) return;
  answer->Line("  By stream and private pool, at the peak of reserved:");
  answer->Table("", "", PartColumns(input), fragmentation.caches_at_peak,
                {.count = Shown(fragmentation.caches_at_peak.size(), options.top), .counts_rest = true});
}

// Of a file without segments.
std::string NotKnown(const FragmentationPoint& peak) {
  if (peak.reserved == 0)
    return "Not known: this file does not say what PyTorch reserved. A memory snapshot or gpumemshim run does.";
  return absl::StrCat("Not known: this file says how much PyTorch reserved (", FormatBytes(peak.reserved),
                      " at most), and not where. A memory snapshot or gpumemshim run does.");
}

std::string Judgement(const FragmentationPoint& peak) {
  switch (FreeSpaceOf(peak)) {
    case FreeSpace::kLittle:
      return "little is free inside PyTorch's segments; there is nothing to gain here";
    case FreeSpace::kScattered:
      return absl::StrCat(FormatBytes(peak.free), " is free inside PyTorch's segments but scattered: a request over ",
                          FormatBytes(peak.largest_free_range), " needs new memory from CUDA");
    case FreeSpace::kCached:
      break;
  }
  return absl::StrCat(FormatBytes(peak.free),
                      " is free inside PyTorch's segments, mostly in one piece: cached, not scattered");
}

}  // namespace

void AddFragmentation(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options,
                      Document* answer) {
  const Fragmentation& fragmentation = device.fragmentation;
  answer->Gap();
  answer->Line({{Tone::kHeading, absl::StrCat("Fragmentation on ", DeviceLabel(device.device))},
                {Tone::kAside, "  free space inside PyTorch's segments"}});
  if (!GroundOf(*input.analysis).has_segments) {
    answer->Paragraph("  ", NotKnown(fragmentation.at_peak));
    return;
  }
  if (fragmentation.at_peak.reserved == 0) {
    answer->Line("  PyTorch reserved nothing on this device.");
    return;
  }
  answer->Paragraph("  ", absl::StrCat("At the peak of reserved ", Judgement(fragmentation.at_peak), "."));
  AddTable(fragmentation, input, options.detail, answer);
  if (options.detail == Detail::kBrief) {
    TextOptions one = options;
    one.top = 1;
    AddPins("at the end", fragmentation.at_end.time_ns, fragmentation.groups_at_end, input, one, answer);
    return;
  }
  AddCurve(fragmentation, input, answer);
  AddParts(fragmentation, input, options, answer);
  AddPins("at the peak of reserved", fragmentation.at_peak.time_ns, fragmentation.groups_at_peak, input, options,
          answer);
  AddPins("at the end", fragmentation.at_end.time_ns, fragmentation.groups_at_end, input, options, answer);
}

Datum PointDatum(const FragmentationPoint& point, const ReportInput& input) {
  return ObjectOf(PointColumns(input), {"", point});
}

Document FragmentationFields(const Fragmentation& fragmentation, size_t top, const ReportInput& input) {
  constexpr char kEnd[] = "the point at the end", kPins[] = "live blocks that keep segments from CUDA";
  constexpr char kPinLines[] =
      "lines of code whose live blocks alone keep mostly empty segments from CUDA; of an expandable segment, mapped "
      "pages";
  Document fields;
  fields.Field("at_peak", PointDatum(fragmentation.at_peak, input), "the point at the peak of reserved");
  fields.Field("at_end", PointDatum(fragmentation.at_end, input), kEnd);
  fields.Table<PoolFragmentation>(
      "pools", "the same for each pool (inferred from the segments' sizes)",
      {{"pool", "`small`, `large` or `expandable`", [](const PoolFragmentation& pool) { return pool.pool; }},
       {"at_peak", "", [&input](const PoolFragmentation& pool) { return PointDatum(pool.at_peak, input); }},
       {"at_end", "", [&input](const PoolFragmentation& pool) { return PointDatum(pool.at_end, input); }}},
      fragmentation.pools, {});
  fields.Table<CachePart>(
      "caches_at_peak", "what each stream and each private pool had at the peak of reserved", PartColumns(input),
      fragmentation.caches_at_peak,
      {.count = Shown(fragmentation.caches_at_peak.size(), top), .layout = JsonLayout::kOneLine, .is_shown = false});
  fields.Table<StreamChain>(
      "stream_chains", "side streams that were used one after another, as where a program takes a new one each time",
      {{"streams", "PyTorch's ids, in the order of use",
        [](const StreamChain& chain) {
          return Datum::List({chain.streams.begin(), chain.streams.end()});
        }},
       {"takes", "how often one was taken; null where that was not recorded",
        [](const StreamChain& chain) { return Datum::If(chain.is_taken, chain.takes); }},
       {"site", "where they were taken, else the first of their blocks was allocated",
        [&input](const StreamChain& chain) { return SiteOfStack(chain.stack_id, input); }}},
      fragmentation.chains, {.layout = JsonLayout::kOneLine, .is_shown = false});
  fields.Table<SizeRatchet>(
      "size_ratchets", "lines whose blocks each needed a segment larger than any before: none that is free serves them",
      {{"site", "the line", [&input](const SizeRatchet& ratchet) { return SiteOfStack(ratchet.stack_id, input); }},
       {"segments", "that were made so", [](const SizeRatchet& ratchet) { return ratchet.segments; }},
       {"bytes", "in all", [](const SizeRatchet& ratchet) { return ratchet.bytes; }},
       {"first", "bytes of the first", [](const SizeRatchet& ratchet) { return ratchet.first; }},
       {"last", "of the last", [](const SizeRatchet& ratchet) { return ratchet.last; }}},
      fragmentation.ratchets,
      {.count = Shown(fragmentation.ratchets.size(), top), .layout = JsonLayout::kOneLine, .is_shown = false});
  std::vector<Datum> points;
  for (const FragmentationPoint& point : fragmentation.over_time) points.push_back(PointDatum(point, input));
  fields.Field("over_time", Datum::List(std::move(points)), "points");
  AddListOfPinLines("pin_lines_at_peak", kPinLines, fragmentation.groups_at_peak, top, input, &fields);
  AddListOfPinLines("pin_lines_at_end", kPinLines, fragmentation.groups_at_end, top, input, &fields);
  AddListOfPins("pins_at_peak", kPins, fragmentation.pins_at_peak, top, input, &fields);
  AddListOfPins("pins_at_end", kPins, fragmentation.pins_at_end, top, input, &fields);
  return fields;
}

Document FragmentationAnswer(const ReportInput& input, const WhatIfAnswer* what_if, const TextOptions& options,
                             size_t top) {
  Document answer = TraceAnswer("fragmentation", input);
  const std::vector<SegmentAtEnd> at_end = SegmentsAtEnd(input.analysis->path);
  answer.Field("what_if", WhatIfDatum(what_if), "");
  AddDevices(
      input,
      [&](const DeviceAnalysis& device, Document* object) {
        object->Object("fragmentation", "", FragmentationFields(device.fragmentation, top, input));
        AddFieldsAtEnd(at_end, device.device, top, object);
      },
      &answer);
  for (const DeviceAnalysis& device : input.analysis->devices) {
    AddFragmentation(device, input, options, &answer);
    AddSegmentsAtEnd(at_end, device.device, options.top, &answer);
  }
  if (what_if != nullptr) AddWhatIf(*what_if, &answer);
  EndWithNotes(input, &answer);
  return answer;
}

}  // namespace gpumem
