// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/process_list.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

// Names a process for good. Without a boot id (an old trace) the machine's name stands for it.
using Key = std::tuple<std::string, uint64_t, uint32_t, uint64_t>;

Key KeyOf(const ProcessInfo& near, uint32_t pid, uint64_t start_ticks) {
  return {near.boot_id.empty() ? near.hostname : near.boot_id, near.pid_namespace, pid, start_ticks};
}

bool StartsBefore(const ListedProcess& a, const ListedProcess& b) {
  return std::tie(a.start_realtime_ns, a.path) < std::tie(b.start_realtime_ns, b.path);
}

// `others` have one process and are in the order of their start. The one before `process` became it by an exec; of an
// ancestor's the last that was there when `process` began is its parent.
int LastBefore(const std::vector<int>& others, const std::vector<ListedProcess>& all, const ListedProcess& process) {
  int found = -1;
  for (const int other : others) {
    if (&all[static_cast<size_t>(other)] != &process && StartsBefore(all[static_cast<size_t>(other)], process))
      found = other;
  }
  return found;
}

int FindParent(const std::map<Key, std::vector<int>>& by_key, const std::vector<ListedProcess>& all,
               const ListedProcess& process) {
  const ProcessInfo& info = process.process;
  const auto same = by_key.find(KeyOf(info, info.pid, info.start_ticks));
  if (same != by_key.end()) {
    if (const int before = LastBefore(same->second, all, process); before >= 0) return before;
  }
  for (const ProcessInfo::Ancestor& above : info.ancestors) {
    const auto found = by_key.find(KeyOf(info, above.pid, above.start_ticks));
    if (found == by_key.end()) continue;
    // It may have used CUDA only after it had started this one.
    const int before = LastBefore(found->second, all, process);
    return before >= 0 ? before : found->second.front();
  }
  return -1;
}

using Children = std::map<int, std::vector<int>>;

void Place(int parent, int new_parent, int depth, const Children& children, const std::vector<ListedProcess>& from,
           std::vector<ListedProcess>* to) {
  const auto found = children.find(parent);
  if (found == children.end()) return;
  for (const int index : found->second) {
    to->push_back(from[static_cast<size_t>(index)]);
    to->back().parent = new_parent;
    to->back().depth = depth;
    Place(index, static_cast<int>(to->size()) - 1, depth + 1, children, from, to);
  }
}

std::string StateText(const ListedProcess& process) {
  std::string text = process.complete                               ? "whole"
                     : process.replaced                             ? "replaced by exec"
                     : process.state == Analysis::Process::kRunning ? "running"
                     : process.state == Analysis::Process::kEnded   ? "killed"
                                                                    : "end missing";
  if (process.end_unknown && process.state == Analysis::Process::kEnded && !process.replaced)
    absl::StrAppend(&text, ", end unknown");
  if (!process.damage.empty()) absl::StrAppend(&text, ", damaged");
  if (process.lost > 0) absl::StrAppend(&text, ", ", FormatCount(process.lost), " lost");
  return text;
}

// "torchrun 4242" where the processes at the top have a common parent that left no trace.
std::string CommonParent(const std::vector<ListedProcess>& processes) {
  const ProcessInfo::Ancestor* common = nullptr;
  const ProcessInfo* first = nullptr;
  size_t tops = 0;
  for (const ListedProcess& process : processes) {
    if (process.depth != 0) continue;
    const ProcessInfo& info = process.process;
    if (info.ancestors.empty()) return "";
    const ProcessInfo::Ancestor& above = info.ancestors.front();
    if (common != nullptr &&
        KeyOf(*first, common->pid, common->start_ticks) != KeyOf(info, above.pid, above.start_ticks))
      return "";
    common = &above;
    first = &info;
    ++tops;
  }
  return tops > 1 ? absl::StrCat(common->name, " ", common->pid) : "";
}

const ListedProcess& Biggest(const std::vector<ListedProcess>& processes) {
  return *std::max_element(processes.begin(), processes.end(),
                           [](const ListedProcess& a, const ListedProcess& b) { return a.peak_bytes < b.peak_bytes; });
}

std::string TraceName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string NameText(const ListedProcess& process, const std::vector<ListedProcess>& all) {
  const ProcessInfo& info = process.process;
  std::string name = info.program.empty() ? "(not known)" : info.program;
  if (process.parent >= 0) {
    const ProcessInfo& above = all[static_cast<size_t>(process.parent)].process;
    if (above.pid == info.pid && above.start_ticks == info.start_ticks) absl::StrAppend(&name, " (by exec)");
  }
  return absl::StrCat(std::string(static_cast<size_t>(process.depth) * 2, ' '), name);
}

using ProcessColumn = AnswerColumn<ListedProcess>;

Datum AncestorsDatum(const ListedProcess& process) {
  std::vector<Datum> ancestors;
  for (const ProcessInfo::Ancestor& above : process.process.ancestors)
    ancestors.push_back(Datum::Object({{"pid", above.pid}, {"name", above.name}}, JsonLayout::kOneLine));
  return Datum::List(std::move(ancestors), JsonLayout::kOneLine);
}

std::vector<ProcessColumn> ProcessColumns(const std::vector<ListedProcess>& processes) {
  using Listed = ListedProcess;
  constexpr char kLive[] = "CUDA's live bytes on `device`, the one with the highest peak";
  constexpr char kEvents[] = "recorded, and known to be missing";
  constexpr char kBelow[] = "as below";
  const auto used = [](const Listed& each) { return each.device >= 0; };
  return {
      {"", "process", Unit::kText, "", [&processes](const Listed& each) { return NameText(each, processes); }},
      {"parent_file",
       "the trace of the nearest ancestor that has one, or of the program that became this one by an exec; null = none",
       [&processes](const Listed& each) {
         return each.parent < 0 ? Datum() : Datum(processes[static_cast<size_t>(each.parent)].path);
       }},
      {"program", kBelow, [](const Listed& each) { return each.process.program; }},
      {"pid", "pid", Unit::kNumber, kBelow, [](const Listed& each) { return each.process.pid; }},
      {"rank", "rank", Unit::kNumber, kBelow,
       [](const Listed& each) { return Datum::If(each.process.rank >= 0, each.process.rank); }},
      {"hostname", kBelow, [](const Listed& each) { return each.process.hostname; }},
      {"ancestors", "who started the process, who started that one, ...: `pid` and `name` of each; they need no trace",
       AncestorsDatum},
      {"device", "GPU", Unit::kNumber, "", [=](const Listed& each) { return Datum::If(used(each), each.device); }},
      {"peak_bytes", "peak", Unit::kBytes, kLive, &Listed::peak_bytes,
       [=](const Listed& each) {
         return used(each) ? absl::StrCat(BoundSign(each.bound), FormatBytes(each.peak_bytes)) : "none";
       }},
      {"peak_bound", "of `peak_bytes`, as `bound` in [devices](#devices)",
       [](const Listed& each) { return PeakBoundName(each.bound); }},
      {"end_bytes", "at the end", Unit::kBytes, kLive, &Listed::end_bytes,
       [=](const Listed& each) { return used(each) ? FormatBytes(each.end_bytes) : ""; }},
      {"total_events", "events", Unit::kCount, kEvents, &Listed::events},
      {"lost_events", kEvents, &Listed::lost},
      {"complete", kBelow, &Listed::complete},
      {"end_unknown", "as in the report of one trace", &Listed::end_unknown},
      {"replaced", "exec put another program in its place, whose trace is in the list, too", &Listed::replaced},
      {"", "state", Unit::kText, "", StateText},
      {"file", "file", Unit::kText, kBelow, &Listed::path, [](const Listed& each) { return TraceName(each.path); }}};
}

}  // namespace

ListedProcess Listed(const Analysis& analysis) {
  ListedProcess listed;
  listed.path = analysis.path;
  listed.process = analysis.process;
  listed.start_realtime_ns = analysis.process.anchor_realtime_ns;
  listed.events = analysis.events.torch + analysis.events.runtime + analysis.events.driver;
  listed.lost = analysis.losses.Total();
  listed.complete = analysis.complete;
  listed.end_unknown = analysis.end_unknown;
  listed.state = analysis.state;
  listed.damage = analysis.damage;
  for (const DeviceAnalysis& device : analysis.devices) {
    if (listed.device >= 0 && device.peak_total.bytes <= listed.peak_bytes) continue;
    listed.device = device.device;
    listed.peak_bytes = device.peak_total.bytes;
    listed.end_bytes = device.end.total;
    listed.bound = device.bound;
  }
  return listed;
}

void LinkProcesses(std::vector<ListedProcess>* processes) {
  std::vector<ListedProcess>& all = *processes;
  std::sort(all.begin(), all.end(), StartsBefore);
  std::map<Key, std::vector<int>> by_key;
  for (size_t i = 0; i < all.size(); ++i) {
    const ProcessInfo& info = all[i].process;
    if (info.start_ticks != 0) by_key[KeyOf(info, info.pid, info.start_ticks)].push_back(static_cast<int>(i));
  }
  // One process, two programs: exec keeps the process and its start.
  for (const auto& [key, indices] : by_key) {
    for (size_t i = 0; i + 1 < indices.size(); ++i) {
      ListedProcess& earlier = all[static_cast<size_t>(indices[i])];
      earlier.replaced =
          !earlier.complete && earlier.start_realtime_ns < all[static_cast<size_t>(indices[i + 1])].start_realtime_ns;
    }
  }
  Children children;
  for (size_t i = 0; i < all.size(); ++i) children[FindParent(by_key, all, all[i])].push_back(static_cast<int>(i));
  for (auto& [parent, indices] : children) {
    std::stable_sort(indices.begin(), indices.end(), [&all](int a, int b) {
      return all[static_cast<size_t>(a)].process.rank < all[static_cast<size_t>(b)].process.rank;
    });
  }
  std::vector<ListedProcess> placed;
  Place(-1, -1, 0, children, all, &placed);
  // A hostile trace may name its own child as its ancestor; who is in such a ring stands by himself.
  for (size_t i = 0; placed.size() < all.size() && i < all.size(); ++i) {
    const bool missing = std::none_of(placed.begin(), placed.end(),
                                      [&](const ListedProcess& process) { return process.path == all[i].path; });
    if (missing) placed.push_back(all[i]);
  }
  all = std::move(placed);
}

Document ProcessListAnswer(const std::vector<ListedProcess>& processes, absl::string_view folder) {
  Document answer;
  answer.Field("schema_version", kJsonSchemaVersion, "");
  answer.Field("command", "report", "");
  answer.Field("folder", folder, "as it was given");
  answer.Line({{Tone::kHeading, FormatCountOf(processes.size(), "trace", "traces")},
               {Tone::kPlain, absl::StrCat(" in ", folder)}});
  const std::string common = processes.empty() ? "" : CommonParent(processes);
  if (!common.empty()) answer.Line(absl::StrCat("  started by ", common, ", which used no CUDA"));
  answer.Gap();
  answer.Table("processes", "one object a trace, parents before their children, siblings by rank",
               ProcessColumns(processes), processes, {.layout = JsonLayout::kOneLine, .is_shown = !processes.empty()});
  if (processes.empty()) return answer;
  answer.Gap();
  const ListedProcess& biggest = Biggest(processes);
  answer.Paragraph(
      "  ", absl::StrCat("The most memory had process ", biggest.process.pid, " (",
                         BoundedBytes(biggest.bound, biggest.peak_bytes), "). Next: gpumemshim report ", biggest.path));
  return answer;
}

}  // namespace gpumem
