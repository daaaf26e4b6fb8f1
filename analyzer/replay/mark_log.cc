// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/mark_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "trace/mark_ranges.h"

namespace gpumem {
namespace {

constexpr int kDeepest = 64;  // stages inside stages that are named

// The last element at or before a time, or nullptr.
template <typename T, typename TimeOf>
const T* LastAt(const std::vector<T>& changes, uint64_t time_ns, TimeOf time_of) {
  const auto after = std::upper_bound(changes.begin(), changes.end(), time_ns,
                                      [&](uint64_t time, const T& change) { return time < time_of(change); });
  return after == changes.begin() ? nullptr : &*(after - 1);
}

}  // namespace

bool IsSnapshot(const MarkEntry& entry) { return entry.kind == trace::MARK && entry.number == 1; }

uint32_t MarkLog::TextId(const std::string& text) {
  const auto [it, is_new] = text_ids_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(text);
  return it->second;
}

uint32_t MarkLog::PathId(uint32_t parent, uint32_t text) {
  const auto [it, is_new] = path_ids_.try_emplace({parent, text}, static_cast<uint32_t>(paths_.size()));
  if (is_new) paths_.push_back({parent, text});
  return it->second;
}

void MarkLog::SetPath(uint64_t time_ns, uint32_t tid, uint32_t path) {
  Thread& thread = threads_[tid];
  thread.path = path;
  thread.changed = ++changes_;
  if (thread_changes_ < kMaxChanges) {
    thread.changes.push_back({time_ns, path});
    ++thread_changes_;
  }
  Show(time_ns);
}

// The stage and tag that hold for the process now.
void MarkLog::Show(uint64_t time_ns) {
  const Thread* shown = nullptr;
  for (const auto& [tid, thread] : threads_) {
    if ((thread.path != 0 || thread.tag != 0) && (shown == nullptr || thread.changed > shown->changed)) shown = &thread;
  }
  const uint32_t path = shown == nullptr ? 0 : shown->path, tag = shown == nullptr ? 0 : shown->tag;
  if (stages_.size() < kMaxChanges && (stages_.empty() ? 0 : stages_.back().value) != path)
    stages_.push_back({time_ns, path});
  if (tags_.size() < kMaxChanges && (tags_.empty() ? 0 : tags_.back().value) != tag) tags_.push_back({time_ns, tag});
}

// A range of the process stands outside of all stages; the one that began last counts.
void MarkLog::SetRange(uint64_t time_ns, uint64_t number, uint32_t text) {
  if (text != 0) {
    open_ranges_[number] = text;
  } else {
    open_ranges_.erase(number);
  }
  const uint32_t shown = open_ranges_.empty() ? 0 : open_ranges_.rbegin()->second;
  if (ranges_.size() < kMaxChanges) ranges_.push_back({time_ns, shown});
}

void MarkLog::AddSpan(uint64_t time_ns, uint32_t kind) {
  if (kind == trace::RECORDING_START) {
    if (!any_span_ && spans_.empty()) began_late_ = true;
    switched_ = switched_ || !spans_.empty();
    open_span_ns_ = time_ns;
    span_is_open_ = any_span_ = true;
  } else if (span_is_open_) {
    switched_ = any_span_ = true;
    spans_.push_back({open_span_ns_, time_ns});
    span_is_open_ = false;
  }
}

void MarkLog::Add(const EventBatch& batch, size_t i, const StackTable& names) {
  const uint64_t time_ns = batch.time_ns(i);
  const uint32_t kind = batch.kind(i);
  const uint32_t tid = ThreadOfMark(batch, i, names);
  const std::string& text = names.string(batch.text(i));
  if (library_ranges_.Take(batch, i, tid, names)) return;
  switch (kind) {
    case trace::MARK:
      if (marks_.size() < kMaxChanges) marks_.push_back({time_ns, TextId(text)});
      break;
    case trace::RANGE_PUSH:
      SetPath(time_ns, tid, PathId(threads_[tid].path, TextId(text)));
      break;
    case trace::RANGE_POP:
      SetPath(time_ns, tid, paths_[threads_[tid].path].parent);
      break;
    case trace::STEP:
      if (steps_.size() < kMaxChanges) steps_.emplace_back(time_ns, batch.handle(i));
      break;
    case trace::TAG:
      threads_[tid].tag = batch.text(i) == 0 ? 0 : TextId(text);
      threads_[tid].changed = ++changes_;
      Show(time_ns);
      break;
    case trace::RANGE_START:
    case trace::RANGE_END:
      SetRange(time_ns, batch.handle(i), kind == trace::RANGE_START ? TextId(text) : 0);
      break;
    default:
      AddSpan(time_ns, kind);
      break;
  }
  if (entries_.size() < kMaxEntries) {
    entries_.push_back({time_ns, kind, tid, batch.handle(i), text});
  } else {
    ++entries_dropped_;
  }
}

void MarkLog::Finish(uint64_t origin_ns, uint64_t end_ns) {
  if (!spans_.empty() && spans_.front().from_ns == 0) spans_.front().from_ns = origin_ns;
  if (span_is_open_) spans_.push_back({std::max(open_span_ns_, origin_ns), std::max(end_ns, open_span_ns_)});
  span_is_open_ = false;
}

std::string MarkLog::PathText(uint32_t path) const {
  std::string text;
  for (int depth = 0; path != 0 && depth < kDeepest; path = paths_[path].parent, ++depth) {
    text = text.empty() ? texts_[paths_[path].text] : absl::StrCat(texts_[paths_[path].text], " > ", text);
  }
  return text;
}

MarkPlace MarkLog::At(uint64_t time_ns) const {
  MarkPlace place;
  if (const auto* step = LastAt(steps_, time_ns, [](const auto& change) { return change.first; }))
    place.step = step->second;
  if (const Change* stage = LastAt(stages_, time_ns, TimeOf)) place.stage = PathText(stage->value);
  if (const Change* tag = LastAt(tags_, time_ns, TimeOf)) place.tag = texts_[tag->value];
  if (const Change* mark = LastAt(marks_, time_ns, TimeOf)) place.mark = texts_[mark->value];
  if (const Change* range = LastAt(ranges_, time_ns, TimeOf); range != nullptr && range->value != 0) {
    place.stage = place.stage.empty() ? texts_[range->value] : absl::StrCat(texts_[range->value], " > ", place.stage);
  }
  return place;
}

uint64_t MarkLog::StageAt(uint64_t time_ns, uint32_t tid) const {
  uint32_t path = 0;
  if (const auto thread = threads_.find(tid); thread != threads_.end()) {
    if (const Change* own = LastAt(thread->second.changes, time_ns, TimeOf)) path = own->value;
  }
  if (path == 0) {
    if (const Change* stage = LastAt(stages_, time_ns, TimeOf)) path = stage->value;
  }
  const Change* const range = LastAt(ranges_, time_ns, TimeOf);
  return uint64_t{range == nullptr ? 0 : range->value} << 32 | path;
}

std::string MarkLog::StageText(uint64_t stage) const {
  const std::string& range = texts_[stage >> 32];
  const std::string path = PathText(static_cast<uint32_t>(stage));
  return range.empty() || path.empty() ? range + path : absl::StrCat(range, " > ", path);
}

}  // namespace gpumem
