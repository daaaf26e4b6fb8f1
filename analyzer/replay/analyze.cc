// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// budget: one device's answers from one pass; what they share would go through a header.

#include "replay/analyze.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "replay/counters.h"
#include "replay/crosscheck/evidence.h"
#include "replay/first_pass.h"
#include "replay/fragmentation.h"
#include "replay/live_set.h"
#include "replay/losses.h"
#include "replay/notes.h"
#include "replay/oom_moment.h"
#include "replay/owners.h"
#include "replay/process_info.h"
#include "replay/state/replay.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

bool AsksForExpandableSegments(const ProcessInfo& process) {
  return std::any_of(process.environment.begin(), process.environment.end(), [](const auto& variable) {
    return absl::StrContains(variable.first, "ALLOC_CONF") &&
           absl::StrContains(variable.second, "expandable_segments:True");
  });
}

// A device's answers, put together from the first pass and from looks at single events.
class DeviceAnalyst {
 public:
  DeviceAnalyst(uint32_t slot, const AnalyzeOptions& options, FirstPass* pass, const StackTable* names,
                DeviceAnalysis* out)
      : slot_(slot), options_(options), pass_(pass), series_(pass->series(slot)), names_(names), out_(out) {}

  void Describe() {
    out_->device = DeviceOfSlot(slot_);
    if (const auto it = names_->devices().find(out_->device); it != names_->devices().end()) {
      out_->name = it->second.name;
      out_->capacity = it->second.total_bytes;
    }
    if (pass_->program_end_event() == FirstPass::kNoEvent) {
      const uint64_t last = pass_->last_event_in_window() == FirstPass::kNoEvent ? 0 : pass_->last_event_in_window();
      DescribeEnd(pass_->state(), pass_->window_end_ns(), last);
    }
    DescribeFrees(pass_->state().accounts().devices);
    out_->fragmentation.over_time = pass_->fragmentation().Points(slot_);
    if (series_ == nullptr) return;
    out_->peak_allocated = series_->peak_allocated();
    out_->peak_reserved = series_->peak_reserved();
    out_->peak_total = series_->peak_total();
    out_->peak_other = series_->peak_other();
    // Blocks whose segments nobody recorded are memory of the device all the same.
    const bool has_segments = out_->peak_reserved.bytes != 0;
    if (has_segments && out_->peak_reserved.bytes < out_->peak_allocated.bytes) {
      out_->peak_reserved = out_->peak_allocated;
      out_->bound = PeakBound::kAtLeast;
    }
    if (out_->peak_total.bytes < out_->peak_allocated.bytes) out_->peak_total = out_->peak_allocated;
    out_->timeline = series_->timeline().Points();
    for (TimelinePoint& point : out_->timeline) point.max.total = std::max(point.max.total, point.max.allocated);
  }

  // Once all that the program said of its requests is known.
  void Bound(const Analysis& analysis) {
    if (series_ == nullptr) return;
    const bool misses = analysis.MissesEvents();
    // Its oldest files are gone: what was alive then is known, what had been alive before is not.
    const bool begins_late = analysis.series.first_number > 1 && options_.from_ns == 0;
    if (misses || begins_late || series_->is_raised()) out_->bound = PeakBound::kAtLeast;
    if (misses && series_->is_about()) out_->bound = PeakBound::kAbout;
    if (out_->bound == PeakBound::kExact) return;
    for (TimelinePoint& point : out_->timeline) out_->ClampToPeaks(&point.max);
  }

  // Totals of PyTorch's that stand in its failed requests.
  void TakeStated(const std::vector<OomEvent>& ooms) {
    for (const OomEvent& oom : ooms) {
      if (series_ == nullptr || oom.device != DeviceOfSlot(slot_) || !oom.torch_stated) continue;
      if (options_.layer != LayerFilter::kAll || oom.time_ns < pass_->window_start_ns()) continue;
      series_->TakeStated(oom.time_ns, oom.event_index, oom.torch_allocated, oom.torch_reserved, /*is_sure=*/true);
    }
  }

  void AddLooks(std::vector<StateLook>* looks) {
    if (pass_->program_end_event() != FirstPass::kNoEvent) {
      looks->push_back({pass_->program_end_event(), [this](const LiveState& state) {
                          DescribeEnd(state, pass_->program_end_ns(), pass_->program_end_event());
                        }});
    }
    if (series_ == nullptr) return;
    LookAtPeak(out_->peak_allocated, Measure::kAllocated, &out_->at_peak_allocated, looks);
    LookAtPeak(out_->peak_reserved, Measure::kReserved, &out_->at_peak_reserved, looks);
    LookAtPeak(out_->peak_total, Measure::kTotal, &out_->at_peak_total, looks);
    const std::vector<SeriesPeak> plateaus = series_->Plateaus();
    out_->plateaus.resize(plateaus.size());
    const Measure measure = out_->peak_allocated.bytes > 0 ? Measure::kAllocated : Measure::kTotal;
    for (size_t i = 0; i < plateaus.size(); ++i) LookAtPeak(plateaus[i], measure, &out_->plateaus[i], looks);
    if (out_->peak_reserved.bytes > 0) {
      looks->push_back(
          {out_->peak_reserved.event_index, [this](const LiveState& state) { DescribeFragmentationAtPeak(state); }});
    }
    if (out_->peak_total.bytes > 0) {
      looks->push_back({out_->peak_total.event_index, [this](const LiveState& state) {
                          const SeriesPeak& peak = out_->peak_total;
                          out_->breakdown_at_peak = TakeBreakdown(state, slot_, peak.time_ns, *names_);
                        }});
    }
    AddGrowthLooks(looks);
  }

  // After the looks.
  void Finish(const CuptiInfo& cupti) {
    if (out_->bound != PeakBound::kExact) out_->ClampToPeaks(&out_->end);
    const MeasureValues& last = pass_->state().values(slot_);
    const auto freed = [](const LiveSet& at_end, uint64_t later) {
      return at_end.bytes - std::min(at_end.bytes, later);
    };
    out_->leaks.freed_by_teardown =
        freed(out_->leaks.at_end_torch, last.allocated) + freed(out_->leaks.at_end_cuda, last.other);
    out_->leaks.growth = Growth(before_, after_);
    const bool all_calls_seen = pass_->losses().unseen.empty();
    CompleteBreakdown(pass_->counters(), slot_, all_calls_seen, cupti, out_->device, &out_->breakdown_at_peak);
    CompleteBreakdown(pass_->counters(), slot_, all_calls_seen, cupti, out_->device, &out_->breakdown_at_end);
    if (const DeviceLog* log = pass_->counters().Of(slot_); log != nullptr) {
      out_->use = {log->count,       log->peak_used,  log->peak_used_ns, log->peak_own,
                   log->peak_own_ns, log->neighbours, log->readings};
    }
  }

 private:
  // An address that is not allocated is on no known device: the first one has those frees.
  void DescribeFrees(const std::vector<DeviceAccount>& accounts) {
    const bool is_first = std::none_of(accounts.begin() + (slot_ == 0 ? 0 : 1), accounts.begin() + slot_,
                                       [](const DeviceAccount& account) { return account.seen; });
    out_->leaks.unknown_frees = accounts[slot_].unknown_frees;
    for (const uint32_t slot : {slot_, 0u}) {
      if (slot == 0 && (!is_first || slot_ == 0)) continue;
      out_->leaks.refused_frees += accounts[slot].refused_frees;
      out_->leaks.refused_unknown_frees += accounts[slot].refused_unknown_frees;
    }
  }

  void DescribeEnd(const LiveState& state, uint64_t end_ns, uint64_t last) {
    out_->end = state.values(slot_);
    out_->end.total = std::max(out_->end.total, out_->end.allocated);
    out_->residual = state.residual().device(slot_);
    out_->leaks.at_end_torch = CollectLiveSet(state, slot_, Measure::kAllocated, end_ns, last, *names_);
    out_->leaks.at_end_cuda = CollectLiveSet(state, slot_, Measure::kOther, end_ns, last, *names_);
    out_->breakdown_at_end = TakeBreakdown(state, slot_, end_ns, *names_);
    FragmentationDetail detail = DetailFragmentation(state, slot_, end_ns);
    out_->fragmentation.at_end = detail.all;
    out_->fragmentation.pins_at_end = std::move(detail.pins);
    out_->fragmentation.groups_at_end = std::move(detail.groups);
    for (const auto& [name, point] : detail.pools) PoolNamed(name).at_end = point;
  }

  void DescribeFragmentationAtPeak(const LiveState& state) {
    FragmentationDetail detail = DetailFragmentation(state, slot_, out_->peak_reserved.time_ns);
    out_->fragmentation.at_peak = detail.all;
    out_->fragmentation.pins_at_peak = std::move(detail.pins);
    out_->fragmentation.groups_at_peak = std::move(detail.groups);
    for (const auto& [name, point] : detail.pools) PoolNamed(name).at_peak = point;
    out_->fragmentation.caches_at_peak = pass_->streams().ByPool(detail.caches);
    out_->fragmentation.chains = pass_->streams().Chains(slot_);
    out_->fragmentation.ratchets = pass_->ratchets().Ratchets(slot_);
    out_->fragmentation.uses = pass_->streams().uses();
  }

  PoolFragmentation& PoolNamed(const std::string& name) {
    for (PoolFragmentation& pool : out_->fragmentation.pools) {
      if (pool.pool == name) return pool;
    }
    out_->fragmentation.pools.emplace_back().pool = name;
    return out_->fragmentation.pools.back();
  }

  void LookAtPeak(const SeriesPeak& peak, Measure measure, LiveSet* set, std::vector<StateLook>* looks) {
    set->device = out_->device;
    set->measure = measure;
    if (peak.bytes == 0) return;
    looks->push_back({peak.event_index, [this, peak, measure, set](const LiveState& state) {
                        *set = CollectLiveSet(state, slot_, measure, peak.time_ns, peak.event_index, *names_);
                        AddNotRecorded(peak.bytes, set);
                      }});
  }

  void AddGrowthLooks(std::vector<StateLook>* looks) {
    if (options_.from_ns == 0 && options_.to_ns == UINT64_MAX) return;
    out_->leaks.growth_from_ns = pass_->window_start_ns();
    out_->leaks.growth_to_ns = pass_->window_end_ns();
    if (pass_->last_event_before_window() != FirstPass::kNoEvent) {
      looks->push_back({pass_->last_event_before_window(),
                        [this](const LiveState& state) { before_ = CollectUse(state, slot_, *names_); }});
    }
    if (pass_->last_event_in_window() != FirstPass::kNoEvent) {
      looks->push_back({pass_->last_event_in_window(),
                        [this](const LiveState& state) { after_ = CollectUse(state, slot_, *names_); }});
    }
  }

  uint32_t slot_;
  const AnalyzeOptions& options_;
  FirstPass* pass_;
  DeviceSeries* series_;
  const StackTable* names_;
  DeviceAnalysis* out_;
  std::vector<StackUse> before_, after_;
};

bool IsWanted(uint32_t slot, const AnalyzeOptions& options, FirstPass* pass) {
  if (!pass->state().accounts().devices[slot].seen) return false;
  if (options.device >= 0 && DeviceOfSlot(slot) != options.device) return false;
  // "No device" matters only where device memory came without one.
  return slot != 0 || (pass->series(0) != nullptr &&
                       pass->series(0)->peak_total().bytes + pass->series(0)->peak_allocated().bytes > 0);
}

void AnalyzeDevices(const AnalyzeOptions& options, TraceReader* reader, FirstPass* pass, const StackTable& names,
                    Analysis* analysis) {
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot < pass->state().slots(); ++slot) {
    if (IsWanted(slot, options, pass)) slots.push_back(slot);
  }
  analysis->devices.resize(slots.size());
  std::vector<DeviceAnalyst> analysts;
  for (size_t i = 0; i < slots.size(); ++i)
    analysts.emplace_back(slots[i], options, pass, &names, &analysis->devices[i]);
  const AllocatorSettings settings{pass->torch_limits(), AsksForExpandableSegments(analysis->process)};
  std::vector<StateLook> looks = LooksAtOoms(names, settings, &analysis->ooms);
  for (DeviceAnalyst& analyst : analysts) {
    analyst.TakeStated(analysis->ooms);
    analyst.Describe();
    analyst.Bound(*analysis);
  }
  for (DeviceAnalyst& analyst : analysts) analyst.AddLooks(&looks);
  Revisit(reader, pass->checkpoints(), std::move(looks));
  EstimateExpandableFits(reader, pass->checkpoints(), &analysis->ooms);
  analysis->communicators = pass->Communicators();
  analysis->owners = OwnersAtMoments(reader, pass->checkpoints(), names.objects(), pass->until_ns());
  for (DeviceAnalyst& analyst : analysts) analyst.Finish(analysis->cupti);
}

// Reads past the other sections, and adds notes about them. `first` is the part that the first one began with.
void SkipOtherSections(const trace::Part& first, TraceReader* reader, std::vector<std::string>* notes) {
  std::string others;
  uint64_t count = 0, misplaced = 0;
  do {
    if (IsSameSeries(reader->header().part(), first)) {
      ++misplaced;
    } else if (++count <= 3) {
      absl::StrAppend(&others, count == 1 ? "" : ", ", reader->header().program(), " (pid ", reader->header().pid(),
                      ")");
    }
  } while (reader->SkipSection() == ItemType::kHeader);
  if (misplaced > 0) {
    notes->push_back(
        "Files of this trace's series stand in it behind later ones; from the first of them on nothing was read. Join "
        "them in the order of their numbers: cat $(ls -v ...).");
  }
  if (count > 0) {
    notes->push_back(absl::StrCat("This file holds ", count + 1, " processes; only the first is analyzed. The others: ",
                                  others, count > 3 ? ", ..." : "", "."));
  }
}

// "1 file", "3 files".
std::string CountedAs(uint64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

SeriesInfo ToInfo(const TraceReader& reader, const FirstPass& pass, uint64_t events_before) {
  SeriesInfo info;
  const std::set<uint32_t>& parts = reader.parts();
  if (parts.empty()) return info;
  info.files = parts.size();
  info.first_number = *parts.begin();
  info.last_number = *parts.rbegin();
  info.events_before = events_before;
  info.objects_not_in_snapshot = pass.live_snapshot_lost();
  info.missing_files = info.last_number - info.first_number + 1 - info.files;
  info.goes_on_elsewhere = reader.goes_on_elsewhere();
  return info;
}

// What of a series of files is not here.
void AddSeriesNotes(const SeriesInfo& series, std::vector<std::string>* notes) {
  if (series.first_number > 1) {
    notes->push_back(absl::StrCat("This trace starts with file ", series.first_number,
                                  " of a series, with what was alive then; ", CountedAs(series.events_before, "event"),
                                  " before it are gone."));
  }
  if (series.objects_not_in_snapshot > 0) {
    notes->push_back(
        absl::StrCat(CountedAs(series.objects_not_in_snapshot, "object"), " that were alive then are not known."));
  }
  if (series.missing_files > 0) {
    notes->push_back(absl::StrCat(CountedAs(series.missing_files, "file"),
                                  " of the series missing in between: what happened in them is in no number."));
  }
  if (series.goes_on_elsewhere)
    notes->push_back(absl::StrCat("The trace goes on in file ", series.last_number + 1, ", which is not here."));
}

void AddRecovery(const Recovery& recovery, Analysis* analysis) {
  if (recovery.process == ProcessState::kRunning) analysis->state = Analysis::Process::kRunning;
  if (recovery.process == ProcessState::kEnded) analysis->state = Analysis::Process::kEnded;
  analysis->end_unknown = recovery.end_unknown;
  if (!recovery.note.empty()) analysis->notes.push_back(recovery.note);
}

SamplingInfo ToInfo(const CounterLog& log, const AnalyzeOptions& options) {
  SamplingInfo info;
  info.samples = log.samples();
  info.took_ns = log.took_ns();
  info.source = log.source();
  info.source_error = log.source_error();
  info.peak_rss = log.peak_rss();
  info.system_total = log.system_total();
  info.least_system_available = log.least_system_available() == UINT64_MAX ? 0 : log.least_system_available();
  for (const CrossedLimit& limit : log.crossed()) {
    if (options.device < 0 || limit.device == options.device) info.crossed.push_back(limit);
  }
  return info;
}

void AddOoms(const AnalyzeOptions& options, FirstPass* pass, Analysis* analysis) {
  analysis->ooms = pass->ooms().Finish();
  analysis->retries = pass->ooms().TakeRetries();
  if (options.device >= 0) {
    std::erase_if(analysis->ooms, [&](const OomEvent& oom) { return oom.device != options.device; });
    std::erase_if(analysis->retries, [&](const ServedRetries& retries) { return retries.device != options.device; });
  }
  if (pass->ooms().dropped() > 0) {
    analysis->notes.push_back(
        absl::StrCat(pass->ooms().dropped(), " further out-of-memory events are counted only here."));
  }
}

// With what only CUPTI saw: the file is read once more for that, where CUPTI recorded at all.
CuptiInfo CuptiOf(const FirstPass& pass, const std::string& path) {
  CuptiInfo cupti = pass.cupti();
  if (cupti.began_ns == 0) return cupti;
  const absl::StatusOr<CrossEvidence> evidence = ReadCrossEvidence(path);
  if (!evidence.ok()) return cupti;
  cupti.only_cupti = BlocksOnlyCuptiSaw(*evidence);
  cupti.compared = true;
  return cupti;
}

}  // namespace

absl::StatusOr<Analysis> Analyze(absl::string_view path, const AnalyzeOptions& options, StackTable* stacks,
                                 const ProgressCallback& progress, const FurtherLook& look) {
  GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
  if (reader.Next() != ItemType::kHeader) return absl::InvalidArgumentError(absl::StrCat(path, ": ", reader.damage()));
  Analysis analysis;
  analysis.path = std::string(path);
  analysis.file_bytes = reader.file_bytes();
  analysis.process = ProcessInfoOf(reader.header());
  const trace::Part first_part = reader.header().part();

  FirstPass pass(options, &reader);
  pass.Run(progress);
  AddRecovery(reader.recovery(), &analysis);
  AddOoms(options, &pass, &analysis);
  analysis.sampling = ToInfo(pass.counters(), options);
  StackTable names = reader.TakeStacks();
  analysis.process.versions = names.versions();
  std::vector<std::string> other_sections;
  if (pass.found_next_section()) SkipOtherSections(first_part, &reader, &other_sections);
  analysis.series = ToInfo(reader, pass, first_part.events_before());
  AddSeriesNotes(analysis.series, &analysis.notes);
  analysis.complete = pass.complete();
  analysis.recovered_events = pass.recovered_events();
  analysis.losses = pass.losses();
  analysis.cupti = CuptiOf(pass, analysis.path);
  TakeDamage(reader, pass, &analysis);
  analysis.origin_ns = pass.origin_ns();
  analysis.end_ns = pass.end_ns();
  if (pass.program_end_event() != FirstPass::kNoEvent) analysis.program_end_ns = pass.program_end_ns();
  analysis.events = pass.CountEvents();

  AnalyzeDevices(options, &reader, &pass, names, &analysis);

  const Accounts& accounts = pass.state().accounts();
  analysis.host_pinned_peak = accounts.host_pinned_peak;
  analysis.host_pinned_end = accounts.host_pinned;
  analysis.managed_peak = accounts.managed_peak;
  analysis.managed_end = accounts.managed;
  analysis.imported_peak = accounts.imported_peak;
  analysis.imported_end = accounts.imported;
  analysis.existing = pass.existing();
  analysis.marks = std::move(pass.marks());
  analysis.snapshot = pass.snapshot();
  for (std::string& note : NotesOn(accounts, analysis)) analysis.notes.push_back(std::move(note));
  analysis.notes.insert(analysis.notes.end(), pass.disagreements().begin(), pass.disagreements().end());
  for (std::string& note : other_sections) analysis.notes.push_back(std::move(note));
  if (look) look({&reader, &pass.checkpoints(), &names, &analysis});
  if (progress) progress(reader.file_bytes(), reader.file_bytes());
  if (stacks != nullptr) *stacks = std::move(names);
  return analysis;
}

}  // namespace gpumem
