// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// budget: one screen, whose parts give each other room.
//
// DrawLive: a LiveFrame as rows of text for a screen of any size. What is least needed goes first where there is little
// room: the curve gets lower, then the lines of code get fewer.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "answers/report/leak_words.h"
#include "base/format.h"
#include "base/phrases.h"
#include "base/utf8.h"
#include "ledger/stacks/names.h"
#include "live/live_view.h"
#include "render/cells.h"
#include "render/sparkline.h"

namespace gpumem {
namespace {

constexpr size_t kLinesWithoutScreen = 15;

class Drawing {
 public:
  explicit Drawing(const LiveSize& size) : size_(size) {}

  // What does not fit is cut; nothing of `spans` steers a terminal afterwards.
  void Add(const std::vector<Span>& spans) {
    LiveRow row;
    int left = size_.columns;
    for (const Span& span : spans) {
      const std::string safe = EscapeControls(InWords(size_.phrases, span.text), !size_.utf8);
      const std::string text = TruncateEnd(safe, left, size_.utf8 ? "\u2026" : ".");
      left -= DisplayWidth(text);
      if (!text.empty()) row.push_back({span.tone, text});
      if (left <= 0) break;
    }
    rows_.push_back(std::move(row));
  }
  void Add(const std::string& text, Tone tone = Tone::kPlain) { Add(std::vector<Span>{{tone, text}}); }

  int columns() const { return size_.columns; }
  bool utf8() const { return size_.utf8; }
  bool has_screen() const { return size_.rows != 0; }
  // Below what is there, with so many rows kept free.
  size_t Left(size_t kept) const {
    const size_t used = rows_.size() + kept;
    return !has_screen() ? kLinesWithoutScreen : size_.rows > used ? size_.rows - used : 0;
  }
  std::vector<LiveRow> Take() { return std::move(rows_); }

 private:
  LiveSize size_;
  std::vector<LiveRow> rows_;
};

Tone ToneOf(LiveProcess::State state) {
  if (state == LiveProcess::State::kRunning) return Tone::kGood;
  return state == LiveProcess::State::kKilled ? Tone::kAlarm : Tone::kPlain;
}

std::string Who(const LiveProcess& process) {
  std::string who = process.process.program.empty() ? process.file : process.process.program;
  if (process.process.pid != 0) absl::StrAppend(&who, "  pid ", process.process.pid);
  if (process.process.rank < 0) return who;
  absl::StrAppend(&who, "  rank ", process.process.rank);
  if (process.process.world_size > 0) absl::StrAppend(&who, " of ", process.process.world_size);
  return who;
}

// In a list of processes: the rank, which tells them apart, comes first.
std::string RowName(const LiveProcess& process) {
  const ProcessInfo& info = process.process;
  if (info.rank < 0) return Who(process);
  return absl::StrCat("rank ", info.rank, "  ", info.program.empty() ? process.file : info.program,
                      info.pid == 0 ? "" : absl::StrCat("  pid ", info.pid));
}

std::string ShortName(const LiveProcess& process) {
  return process.process.rank >= 0 ? absl::StrCat("rank ", process.process.rank)
                                   : absl::StrCat("pid ", process.process.pid);
}

uint64_t InUse(const LiveProcess& process) {
  uint64_t bytes = 0;
  for (const LiveDevice& device : process.devices) bytes += device.now.allocated;
  return bytes;
}

// What the rows that have no room would show: "64 processes, 62 running; 4.3 MiB to 21.1 MiB in use (most rank 3); step
// 85 (rank 7) to 95".
std::string SpreadText(const std::vector<LiveProcess>& processes) {
  const auto by_use = std::minmax_element(processes.begin(), processes.end(),
                                          [](const auto& a, const auto& b) { return InUse(a) < InUse(b); });
  const auto by_step = std::minmax_element(processes.begin(), processes.end(),
                                           [](const auto& a, const auto& b) { return a.steps.last < b.steps.last; });
  const auto running = std::count_if(processes.begin(), processes.end(), [](const LiveProcess& process) {
    return process.state == LiveProcess::State::kRunning;
  });
  const auto killed = std::count_if(processes.begin(), processes.end(), [](const LiveProcess& process) {
    return process.state == LiveProcess::State::kKilled;
  });
  std::string text = absl::StrCat(processes.size(), " processes");
  if (running != 0) absl::StrAppend(&text, ", ", running, " running");
  if (killed != 0) absl::StrAppend(&text, ", ", killed, " killed");
  absl::StrAppend(&text, "; ", FormatBytes(InUse(*by_use.first)), " to ", FormatBytes(InUse(*by_use.second)),
                  " in use (most ", ShortName(*by_use.second), ")");
  if (by_step.second->steps.last == 0) return text;
  return absl::StrCat(text, "; step ", FormatCount(by_step.first->steps.last), " (", ShortName(*by_step.first), ") to ",
                      FormatCount(by_step.second->steps.last));
}

constexpr uint64_t kSilentNs = 5'000'000'000;  // samples come about once a second

// "  no sign of life for 42 s"
std::string SilenceText(const LiveProcess& process) {
  const uint64_t age_ns = process.heartbeat_age_ns.value_or(0);
  return age_ns < kSilentNs ? "" : absl::StrCat("  no sign of life for ", FormatCount(age_ns / 1'000'000'000), " s");
}

// "rank 3 is at step 85, others at up to 95, no sign of life for 42 s"
std::string LaggingText(const std::vector<LiveProcess>& processes) {
  const std::vector<const LiveProcess*> lagging = LaggingRanks(processes);
  if (lagging.empty()) return "";
  constexpr size_t kMostNamed = 4;
  uint64_t furthest = 0;
  for (const LiveProcess& process : processes) {
    if (process.process.rank >= 0 && MayGrow(process)) furthest = std::max(furthest, process.steps.last);
  }
  std::string ranks;
  for (size_t i = 0; i < std::min(lagging.size(), kMostNamed); ++i)
    absl::StrAppend(&ranks, i == 0 ? "" : ", ", lagging[i]->process.rank);
  if (lagging.size() > kMostNamed) absl::StrAppend(&ranks, " and ", lagging.size() - kMostNamed, " more");
  const bool is_one = lagging.size() == 1;
  std::string text = absl::StrCat("  ", is_one ? "rank " : "ranks ", ranks, is_one ? " is" : " are", " at step ",
                                  FormatCount(lagging[0]->steps.last), ", others at up to ", FormatCount(furthest));
  const std::string silence = is_one ? SilenceText(*lagging[0]) : "";
  return silence.empty() ? text : absl::StrCat(text, ",", silence.substr(1));
}

void AddHead(const LiveProcess& process, const LiveView& view, Drawing* out) {
  std::vector<Span> spans{{Tone::kHeading, Who(process)}, {Tone::kPlain, "  "}};
  spans.push_back({ToneOf(process.state), std::string(LiveStateName(process.state))});
  spans.push_back(
      {Tone::kPlain, absl::StrCat("  ", FormatTime(process.now_ns), "  ", FormatCount(process.events), " events")});
  if (process.read < 1) spans.push_back({Tone::kWarning, absl::StrCat("  reading ", FormatPercent(process.read))});
  if (view.is_paused()) spans.push_back({Tone::kWarning, "  paused"});
  out->Add(spans);
  if (!process.problem.empty()) out->Add(process.problem, Tone::kWarning);
}

// A row a process: the one that is shown is marked.
void AddProcesses(const LiveFrame& frame, const LiveProcess* shown, Drawing* out) {
  if (frame.processes.size() < 2) return;
  const size_t most = out->has_screen() ? std::max<size_t>(out->Left(0) / 4, 2) : frame.processes.size();
  const auto at = static_cast<size_t>(shown - frame.processes.data());
  const size_t first = at >= most ? at - most + 1 : 0;
  const size_t last = std::min(first + most, frame.processes.size());
  for (size_t i = first; i < last; ++i) {
    const LiveProcess& process = frame.processes[i];
    uint64_t reserved = 0;
    for (const LiveDevice& device : process.devices) reserved += device.now.reserved + device.now.other;
    const bool is_shown = i == at;
    const std::string name = TruncateEnd(EscapeControls(RowName(process)), 34, ".");
    std::string text = absl::StrCat(PadRight(name, 35), PadLeft(FormatBytesAligned(InUse(process)), 9), " in use ",
                                    PadLeft(FormatBytesAligned(reserved), 9), " taken");
    if (process.steps.count != 0) absl::StrAppend(&text, "  step ", FormatCount(process.steps.last));
    absl::StrAppend(&text, SilenceText(process));
    out->Add({{is_shown ? Tone::kHeading : Tone::kPlain, is_shown ? "> " : "  "},
              {ToneOf(process.state), PadRight(LiveStateName(process.state), 8)},
              {is_shown ? Tone::kHeading : Tone::kPlain, text}});
  }
  if (last - first < frame.processes.size()) out->Add("  " + SpreadText(frame.processes), Tone::kAside);
  if (const std::string lagging = LaggingText(frame.processes); !lagging.empty()) out->Add(lagging, Tone::kWarning);
}

int Cells(uint64_t bytes, uint64_t whole, int width) {
  if (whole == 0) return 0;
  const double share = static_cast<double>(bytes) / static_cast<double>(whole);
  return std::clamp(static_cast<int>(std::ceil(share * width)), bytes == 0 ? 0 : 1, width);
}

std::string Repeat(absl::string_view mark, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) absl::StrAppend(&text, mark);
  return text;
}

// allocated, then reserved beyond it, then what else the device has in use.
void AddBar(const LiveDevice& device, Drawing* out) {
  const uint64_t taken = std::max(device.now.total, device.now.reserved + device.now.other);
  const uint64_t used = std::max(device.used.value_or(0), taken);
  const uint64_t whole = device.capacity != 0 ? std::max(device.capacity, used) : std::max(device.peak.total, used);
  const int width = std::max(out->columns() - 4, 10);
  const int allocated = Cells(device.now.allocated, whole, width);
  const int reserved = std::max(Cells(taken, whole, width) - allocated, 0);
  const int others = std::max(Cells(used, whole, width) - allocated - reserved, 0);
  const bool is_full = device.capacity != 0 && HasPercent(used, device.capacity, 90);
  out->Add({{Tone::kPlain, "  ["},
            {is_full ? Tone::kAlarm : Tone::kGood, Repeat(out->utf8() ? "\u2588" : "#", allocated)},
            {is_full ? Tone::kAlarm : Tone::kWarning, Repeat(out->utf8() ? "\u2593" : "=", reserved)},
            {Tone::kAside, Repeat(out->utf8() ? "\u2592" : "-", others)},
            {Tone::kAside, Repeat(out->utf8() ? "\u00b7" : ".", width - allocated - reserved - others)},
            {Tone::kPlain, "]"}});
}

// "  beside it  vllm (pid 4711) 3.25 GiB, python (pid 4712) and 2 more"
std::string OthersText(const LiveDevice& device) {
  constexpr size_t kMostNamed = 3;
  std::string text;
  for (size_t i = 0; i < std::min(device.others.size(), kMostNamed); ++i) {
    const OtherProcess& other = device.others[i];
    absl::StrAppend(&text, i == 0 ? "  beside it  " : ", ", other.name.empty() ? "a process" : other.name, " (pid ",
                    other.pid, ")", other.bytes == kNotStated ? "" : absl::StrCat(" ", FormatBytes(other.bytes)));
  }
  if (device.others.size() > kMostNamed) absl::StrAppend(&text, " and ", device.others.size() - kMostNamed, " more");
  return text;
}

void AddDevice(const LiveDevice& device, bool with_bar, Drawing* out) {
  std::string text =
      absl::StrCat(" allocated ", FormatBytes(device.now.allocated), "  reserved ", FormatBytes(device.now.reserved));
  if (device.now.other != 0) absl::StrAppend(&text, "  other ", FormatBytes(device.now.other));
  if (device.used) absl::StrAppend(&text, "  GPU in use ", FormatBytes(*device.used));
  if (device.capacity != 0) absl::StrAppend(&text, "  capacity ", FormatBytes(device.capacity));
  if (device.is_unsure) absl::StrAppend(&text, "  (events are missing: not sure)");
  std::vector<Span> spans{{Tone::kHeading, DeviceLabel(device.device)}, {Tone::kPlain, text}};
  if (out->columns() > 110 && !device.name.empty()) spans.push_back({Tone::kAside, absl::StrCat("  ", device.name)});
  out->Add(spans);
  if (with_bar) AddBar(device, out);
  if (const std::string others = OthersText(device); !others.empty()) out->Add(others, Tone::kAside);
}

const LiveDevice* ShownDevice(const LiveProcess& process) {
  for (const LiveDevice& device : process.devices) {
    if (device.device == process.device) return &device;
  }
  return process.devices.empty() ? nullptr : &process.devices.front();
}

void AddCurve(const LiveProcess& process, size_t rows, Drawing* out) {
  const LiveDevice* const device = ShownDevice(process);
  if (device == nullptr || device->curve.empty() || rows < 2) return;
  const int width = std::max(out->columns() - 13, 10);
  const std::vector<uint64_t> values = Resample(device->curve, process.measure, process.origin_ns,
                                                process.origin_ns + process.now_ns, static_cast<size_t>(width));
  const uint64_t top = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  if (top == 0) return;
  const std::vector<std::string> chart = Chart(values, top, rows, out->utf8());
  for (size_t i = 0; i < chart.size(); ++i) {
    const std::string scale = i == 0 ? FormatBytesAligned(top) : i + 1 == chart.size() ? "0" : "";
    out->Add(
        {{Tone::kAside, absl::StrCat(PadLeft(scale, 10), out->utf8() ? " \u2502" : " |")}, {Tone::kPlain, chart[i]}});
  }
  const std::string end = FormatTime(process.now_ns);
  const std::string what = absl::StrCat(MeasureName(process.measure), ", ", DeviceLabel(device->device));
  out->Add(
      absl::StrCat(
          std::string(12, ' '), "0 s  ", what,
          std::string(static_cast<size_t>(std::max(width - DisplayWidth(what) - DisplayWidth(end) - 5, 1)), ' '), end),
      Tone::kAside);
}

// "53.8", "1,630".
std::string Rate(double a_second) {
  return a_second < 1000 ? absl::StrFormat("%.3g", a_second) : FormatCount(static_cast<uint64_t>(a_second + 0.5));
}

void AddSteps(const LiveProcess& process, Drawing* out) {
  const LiveSteps& steps = process.steps;
  if (steps.count == 0) return;
  std::string text = absl::StrCat(FormatCountOf(steps.count, "step", "steps"));
  if (steps.step_ns > 0) {
    absl::StrAppend(&text, "  ", Rate(1e9 / steps.step_ns), " a second (",
                    FormatTime(static_cast<uint64_t>(steps.step_ns)), " each)");
  }
  absl::StrAppend(&text, "  peak of the last ", FormatBytes(steps.level));
  if (steps.per_step > 0) absl::StrAppend(&text, "  growth ", RateText(steps.per_step), " a step");
  out->Add({{Tone::kHeading, "Steps     "}, {Tone::kPlain, text}});
}

void AddForecast(const LiveProcess& process, Drawing* out) {
  const bool is_known = process.outlook.forecast.kind != ForecastKind::kTooShort;
  if (process.device < 0 || (!is_known && process.steps.count == 0)) return;
  const Tone tone = process.outlook.forecast.kind == ForecastKind::kReaches ? Tone::kAlarm
                    : process.outlook.forecast.kind == ForecastKind::kFar   ? Tone::kWarning
                                                                            : Tone::kPlain;
  out->Add({{Tone::kHeading, "Forecast  "}, {tone, process.outlook.sentence}});
}

void AddTroubles(const LiveProcess& process, Drawing* out) {
  if (process.failed_requests != 0) {
    out->Add(absl::StrCat("Out of memory: ", FormatCountOf(process.failed_requests, "request", "requests"),
                          " refused. gpumemshim oom says why."),
             Tone::kAlarm);
  }
  const LossCounts& losses = process.losses;
  if (losses.Total() != 0) {
    out->Add(absl::StrCat("Dropped events: ", FormatCount(losses.Total()), " (", FormatCount(losses.dropped_allocs),
                          " allocations, ", FormatCount(losses.dropped_frees), " frees, ",
                          FormatCount(losses.unwritten_events + losses.missing_events), " lost in the file)"),
             Tone::kWarning);
  }
  if (!losses.write_error.empty())
    out->Add(absl::StrCat("The trace cannot be written: ", losses.write_error), Tone::kAlarm);
}

void AddCategories(const LiveProcess& process, Drawing* out) {
  std::vector<std::pair<uint64_t, Category>> parts;
  for (size_t i = 0; i < kCategories; ++i) {
    // What is allocated has none of what PyTorch holds beyond it, nor of the driver's.
    const auto category = static_cast<Category>(i);
    const bool is_beside = category == Category::kAllocatorOverhead || category == Category::kContext;
    if (is_beside && process.measure == Measure::kAllocated) continue;
    if (process.categories[i] != 0) parts.emplace_back(process.categories[i], category);
  }
  if (process.device < 0 || parts.empty()) return;
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  int width = 10;
  bool is_first = true;
  const auto flush = [&] {
    out->Add({{Tone::kHeading, std::exchange(is_first, false) ? "Category  " : "          "}, {Tone::kPlain, text}});
  };
  for (const auto& [bytes, category] : parts) {
    const std::string part = absl::StrCat(CategoryTitle(category), " ", FormatBytes(bytes));
    if (!text.empty() && width + 3 + DisplayWidth(part) > out->columns()) {
      flush();
      text.clear();
      width = 10;
    }
    absl::StrAppend(&text, text.empty() ? "" : "   ", part);
    width += DisplayWidth(part) + 3;
  }
  flush();
}

std::string ChangeText(const LiveLine& line) {
  if (!line.change) return "";
  if (*line.change == 0) return "0";
  const auto size = static_cast<uint64_t>(std::abs(*line.change));
  return absl::StrCat(*line.change < 0 ? "-" : "+", FormatBytesAligned(size));
}

void AddLines(const LiveProcess& process, const LiveView& view, size_t rows, Drawing* out) {
  const std::vector<LiveLine> lines = view.Lines(process);
  if (process.device < 0 || rows < 2) return;
  const std::string& filter = view.typing() == LiveView::Typing::kFilter ? view.typed() : view.filter();
  std::string who = "allocated by";
  if (filter.empty() && lines.empty()) return;
  // In the place of the title: on a narrow screen both have no room.
  if (!filter.empty())
    who = absl::StrCat("(holding \"", filter, "\": ", lines.size(), " of ", process.lines.size(), ")");
  const bool changes = process.changes_since_ns != 0;
  const bool is_wide = out->columns() >= 100;
  const std::string of = ShareTitle(process.lines_bytes);
  const int share_width = DisplayWidth(of);
  const auto row = [&](const std::string& bytes, const std::string& share, const std::string& change,
                       const std::string& blocks, const std::string& category) {
    return absl::StrCat(PadLeft(bytes, 10), "  ", PadLeft(share, share_width), changes ? PadLeft(change, 11) : "",
                        PadLeft(blocks, 10), "  ", is_wide ? PadRight(category, 20) : "");
  };
  if (changes) absl::StrAppend(&who, "  (change: in ", FormatTime(process.now_ns - process.changes_since_ns), ")");
  out->Add({{Tone::kAside, absl::StrCat(row("bytes", of, "change", "blocks", "category"), who)}});
  for (size_t i = 0; i < std::min(lines.size(), rows - 1); ++i) {
    const LiveLine& line = lines[i];
    out->Add(
        {{Tone::kPlain, row(FormatBytesAligned(line.bytes), ShareCell(line.bytes, process.lines_bytes),
                            ChangeText(line), FormatCount(line.blocks), std::string(CategoryTitle(line.category)))},
         {Tone::kHeading, line.site},
         {Tone::kAside, line.through.empty() ? "" : absl::StrCat("  ", line.through)}});
  }
}

void AddHelp(Drawing* out) {
  out->Add("Keys of gpumemshim live", Tone::kHeading);
  for (const char* const line :
       {"", "  up, down   another process of the job", "  s          sort lines by bytes, change, blocks, name",
        "  /          show only lines that hold a text; Esc shows all", "  p, space   pause the view, not the program",
        "  m          add a mark to the recording (of a program on this machine)",
        "  d          dump: copy the trace so far into a file here", "  ?          this text", "  q          quit", "",
        "Bar: PyTorch's blocks, what else this process took, what other", "processes have, free.", "",
        "Any key closes this."})
    out->Add(line);
}

// A third of the screen, if at least ten lines of code have room beside it; all that a short list leaves.
size_t CurveRows(const LiveProcess& process, size_t foot, const Drawing& out) {
  constexpr size_t kOthers = 7, kMostLines = 10, kLeast = 3;
  if (!out.has_screen()) return 6;
  const size_t left = out.Left(foot);
  if (left < kLeast + kOthers) return 0;
  const auto beside = [&](size_t lines) { return left - std::min(left, kOthers + lines); };
  const size_t third = std::min(beside(std::min(process.lines.size(), kMostLines)), left / 3 + 1);
  return std::max({third, beside(process.lines.size()), kLeast});
}

std::string FootOf(const LiveView& view) {
  if (view.typing() == LiveView::Typing::kFilter) return absl::StrCat("Filter: ", view.typed(), "_");
  if (view.typing() == LiveView::Typing::kMark) return absl::StrCat("Mark: ", view.typed(), "_");
  if (!view.message().empty()) return view.message();
  return absl::StrCat("q quit  ? help  p ", view.is_paused() ? "go on" : "pause", "  s sort (",
                      LiveSortName(view.sort()), ")  / filter  m mark  d dump");
}

}  // namespace

std::vector<LiveRow> DrawLive(const LiveFrame& frame, const LiveView& view, const LiveSize& size) {
  Drawing out(size);
  const LiveProcess* const shown = view.Selected(frame);
  const size_t foot = size.rows == 0 ? 0 : 1;
  if (view.shows_help()) {
    AddHelp(&out);
  } else if (shown == nullptr) {
    out.Add(frame.problem.empty() ? "No trace to show yet." : frame.problem, Tone::kWarning);
  } else {
    AddHead(*shown, view, &out);
    AddProcesses(frame, shown, &out);
    for (const LiveDevice& device : shown->devices) {
      if (!out.has_screen() || out.Left(foot) > 8 || &device == ShownDevice(*shown))
        AddDevice(device, !out.has_screen() || out.Left(foot) > 10, &out);
    }
    AddCurve(*shown, CurveRows(*shown, foot, out), &out);
    AddSteps(*shown, &out);
    AddForecast(*shown, &out);
    AddTroubles(*shown, &out);
    AddCategories(*shown, &out);
    AddLines(*shown, view, out.Left(foot), &out);
  }
  std::vector<LiveRow> rows = out.Take();
  if (size.rows == 0) return rows;
  rows.resize(size.rows - std::min<size_t>(size.rows, foot));
  Drawing last(size);
  last.Add(FootOf(view),
           view.message().empty() && view.typing() == LiveView::Typing::kNothing ? Tone::kAside : Tone::kHeading);
  for (LiveRow& row : last.Take()) rows.push_back(std::move(row));
  rows.resize(size.rows);
  return rows;
}

}  // namespace gpumem
