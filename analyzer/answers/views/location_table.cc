// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/location_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr std::pair<LocationKind, absl::string_view> kKindNames[] = {
    {LocationKind::kLine, "line"},         {LocationKind::kFrame, "frame"},
    {LocationKind::kFunction, "function"}, {LocationKind::kFile, "file"},
    {LocationKind::kLibrary, "library"},   {LocationKind::kThread, "thread"},
    {LocationKind::kModule, "module"},     {LocationKind::kComponent, "component"},
    {LocationKind::kStage, "stage"},       {LocationKind::kCategory, "category"},
    {LocationKind::kOperator, "operator"},
};

absl::string_view BaseName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

// What stands for a frame. Operators and placeholders are neither in a file nor in a module: they stand for themselves.
std::string NameOf(const ViewFrame& frame, LocationKind kind) {
  switch (kind) {
    case LocationKind::kFunction:
      return absl::StrCat(frame.function, frame.file.empty() ? "" : absl::StrCat(" (", frame.file, ")"));
    case LocationKind::kFile:
      if (!frame.file.empty()) return frame.file;
      return frame.module.empty() ? frame.label : std::string(BaseName(frame.module));
    case LocationKind::kLibrary:
      return frame.module.empty() ? frame.label : frame.module;
    default:
      return frame.label;
  }
}

class Grouping {
 public:
  Grouping(FrameTable* frames, LocationKind kind) : frames_(frames), kind_(kind) {}

  void Add(const AggregatedStack& stack) {
    ++stack_number_;
    if (kind_ == LocationKind::kThread) {
      AddWhole(RowNamed(frames_->ThreadLabel(stack.thread)), stack.weight);
      return;
    }
    const std::vector<uint32_t>& path = frames_->Resolve(stack);
    for (const uint32_t frame : path) AddThrough(RowOfFrame(frame), stack.weight);
    rows_[RowOfFrame(path.back())].self.Add(stack.weight);
  }

  void AddLabelled(const AggregatedStack& stack, const std::vector<std::string>& labels) {
    ++stack_number_;
    for (const std::string& label : labels) AddThrough(RowNamed(label), stack.weight);
    rows_[RowNamed(labels.back())].self.Add(stack.weight);
  }

  void AddMerged(const Weight& merged) { AddWhole(RowNamed("(smaller stacks)"), merged); }

  std::vector<Location> Take() { return std::move(rows_); }

 private:
  void AddThrough(size_t row, const Weight& weight) {
    if (std::exchange(last_stack_[row], stack_number_) == stack_number_) return;  // recursion
    rows_[row].total.Add(weight);
    ++rows_[row].stacks;
  }

  void AddWhole(size_t row, const Weight& weight) {
    rows_[row].self.Add(weight);
    rows_[row].total.Add(weight);
    ++rows_[row].stacks;
  }

  size_t NewRow(std::string name) {
    rows_.emplace_back().name = std::move(name);
    last_stack_.push_back(0);
    return rows_.size() - 1;
  }

  size_t RowNamed(const std::string& name) {
    const auto [it, is_new] = by_name_.try_emplace(name, rows_.size());
    return is_new ? NewRow(name) : it->second;
  }

  size_t RowOfFrame(uint32_t frame) {
    if (frame >= by_frame_.size()) by_frame_.resize(frames_->size(), kNoRow);
    size_t& row = by_frame_[frame];
    if (row == kNoRow) row = RowNamed(NameOf(frames_->frame(frame), kind_));
    return row;
  }

  static constexpr size_t kNoRow = SIZE_MAX;

  FrameTable* frames_;
  LocationKind kind_;
  std::vector<Location> rows_;
  std::vector<uint64_t> last_stack_;  // by row: the stack that was counted in it last
  uint64_t stack_number_ = 0;
  std::vector<size_t> by_frame_;
  absl::flat_hash_map<std::string, size_t> by_name_;
};

}  // namespace

absl::string_view LocationKindName(LocationKind kind) {
  for (const auto& [known, name] : kKindNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

std::optional<LocationKind> ParseLocationKind(absl::string_view name) {
  for (const auto& [kind, known] : kKindNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::vector<Location> Locations(const AggregatedStacks& aggregated, FrameTable* frames, LocationKind kind,
                                LocationOrder order) {
  Grouping grouping(frames, kind);
  for (const AggregatedStack& stack : aggregated.stacks) {
    if (kind == LocationKind::kLine) {
      grouping.AddLabelled(stack, frames->Lines(stack));
    } else {
      grouping.Add(stack);
    }
  }
  if (aggregated.merged_is_shown()) grouping.AddMerged(aggregated.merged);
  std::vector<Location> rows = grouping.Take();
  SortLocations(order, &rows);
  return rows;
}

std::vector<Location> Locations(const AggregatedStacks& aggregated, const Labels& labels, LocationOrder order) {
  Grouping grouping(nullptr, LocationKind::kModule);
  for (const AggregatedStack& stack : aggregated.stacks) grouping.AddLabelled(stack, labels(stack));
  if (aggregated.merged_is_shown()) grouping.AddMerged(aggregated.merged);
  std::vector<Location> rows = grouping.Take();
  SortLocations(order, &rows);
  return rows;
}

void SortLocations(LocationOrder order, std::vector<Location>* rows) {
  const auto key = [order](const Location& row) {
    const uint64_t first = order == LocationOrder::kSelf    ? row.self.bytes
                           : order == LocationOrder::kTotal ? row.total.bytes
                                                            : row.self.count;
    return std::make_tuple(first, row.self.bytes, row.total.bytes, row.self.count);
  };
  std::sort(rows->begin(), rows->end(), [&](const Location& a, const Location& b) {
    const auto left = key(a), right = key(b);
    return left != right ? left > right : a.name < b.name;
  });
}

}  // namespace gpumem
