// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/pickle_tree.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gpumem {
namespace {

constexpr size_t kBlockValues = 64 * 1024;
constexpr size_t kMostShared = 512, kMostDifferent = size_t{1} << 18;  // values of a container, and containers
constexpr int64_t kInlineLimit = int64_t{1} << 58;
constexpr size_t kMostSharedKeys = 64, kMostShapes = size_t{1} << 16;
constexpr uint64_t kTextBytes = 160;  // that a text takes besides its letters, and its place in an index that grows

}  // namespace

absl::Span<const PickleValue> PickleTree::Items(PickleValue container) const {
  if (!container.is_sequence()) return {};
  const Container& found = containers_[container.payload()];
  return {found.items, found.count};
}

absl::Span<const PickleValue> PickleTree::Keys(PickleValue dict) const {
  if (dict.type() != Type::kDict) return {};
  return shapes_[containers_[dict.payload()].count].keys;
}

absl::Span<const PickleValue> PickleTree::Values(PickleValue dict) const {
  if (dict.type() != Type::kDict) return {};
  return {containers_[dict.payload()].items, Keys(dict).size()};
}

std::optional<PickleValue> PickleTree::Key(absl::string_view key) const {
  const auto known = text_index_.find(key);
  return known == text_index_.end() ? std::nullopt : std::make_optional(PickleValue(Type::kText, known->second));
}

const PickleValue* PickleTree::Find(PickleValue dict, const std::optional<PickleValue>& key) const {
  if (dict.type() != Type::kDict || !key) return nullptr;
  const absl::Span<const PickleValue> keys = Keys(dict);
  for (size_t i = keys.size(); i-- > 0;) {
    if (keys[i].id() == key->id()) return &containers_[dict.payload()].items[i];
  }
  return nullptr;
}

const PickleValue* PickleTree::Find(PickleValue dict, absl::string_view key) const { return Find(dict, Key(key)); }

absl::string_view PickleTree::Text(PickleValue value) const {
  return value.type() == Type::kText ? absl::string_view(texts_[value.payload()]) : absl::string_view();
}

std::optional<int64_t> PickleTree::Int(PickleValue value) const {
  switch (value.type()) {
    case Type::kBool:
      return static_cast<int64_t>(value.payload());
    case Type::kInt:
      return static_cast<int64_t>(value.payload()) - kInlineLimit;
    case Type::kBigInt:
    case Type::kHugeInt:
      return large_ints_[value.payload()];
    case Type::kFloat: {
      const double number = floats_[value.payload()];
      if (number != std::floor(number) || std::abs(number) >= 9.2e18) return std::nullopt;
      return static_cast<int64_t>(number);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> PickleTree::Number(PickleValue value) const {
  if (value.type() == Type::kFloat) return floats_[value.payload()];
  const std::optional<int64_t> number = Int(value);
  return number ? std::optional<double>(static_cast<double>(*number)) : std::nullopt;
}

bool PickleTree::IsTrue(PickleValue value) const { return Int(value).value_or(0) != 0; }

int64_t PickleTree::Int(PickleValue dict, absl::string_view key, int64_t otherwise) const {
  const PickleValue* const value = Find(dict, key);
  return value == nullptr ? otherwise : Int(*value).value_or(otherwise);
}

absl::string_view PickleTree::Text(PickleValue dict, absl::string_view key) const {
  const PickleValue* const value = Find(dict, key);
  return value == nullptr ? absl::string_view() : Text(*value);
}

PickleValue PickleTree::MakeInt(int64_t value) {
  if (value >= -kInlineLimit && value < kInlineLimit) return {Type::kInt, static_cast<uint64_t>(value + kInlineLimit)};
  Spend(sizeof(int64_t));
  large_ints_.push_back(value);
  return {Type::kBigInt, large_ints_.size() - 1};
}

PickleValue PickleTree::MakeUnsigned(uint64_t value) {
  if (value <= INT64_MAX) return MakeInt(static_cast<int64_t>(value));
  Spend(sizeof(int64_t));
  large_ints_.push_back(static_cast<int64_t>(value));
  return {Type::kHugeInt, large_ints_.size() - 1};
}

PickleValue PickleTree::MakeFloat(double value) {
  Spend(sizeof(double));
  floats_.push_back(value);
  return {Type::kFloat, floats_.size() - 1};
}

std::optional<PickleValue> PickleTree::MakeText(absl::string_view text) {
  if (const auto known = text_index_.find(text); known != text_index_.end())
    return PickleValue(Type::kText, known->second);
  if (!Spend(text.size() + kTextBytes)) return std::nullopt;
  texts_.emplace_back(text.data(), text.size());
  text_index_.emplace(texts_.back(), texts_.size() - 1);
  return PickleValue(Type::kText, texts_.size() - 1);
}

PickleValue PickleTree::MakeContainer(Type type) {
  Spend(sizeof(Container));
  containers_.emplace_back();
  return {type, containers_.size() - 1};
}

PickleValue* PickleTree::Room(size_t count) {
  if (count > kBlockValues / 8) {
    blocks_.push_back(std::make_unique<PickleValue[]>(count));
    return blocks_.back().get();
  }
  if (left_ < count) {
    blocks_.push_back(std::make_unique<PickleValue[]>(kBlockValues));
    next_ = blocks_.back().get();
    left_ = kBlockValues;
  }
  left_ -= count;
  return std::exchange(next_, next_ + count);
}

// Large ones have memory of their own.
void PickleTree::Free(PickleValue* items, size_t room) {
  if (room <= kBlockValues / 8) return;
  const auto block =
      std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const auto& each) { return each.get() == items; });
  if (block == blocks_.rend()) return;
  block->reset();
  Return(room * sizeof(PickleValue));
}

std::optional<uint32_t> PickleTree::ShapeWith(uint32_t of, absl::Span<const PickleValue> items) {
  if (shapes_[of].is_own) {
    if (!Spend(items.size() * sizeof(PickleValue))) return std::nullopt;  // half of it, and as much to grow
    for (size_t i = 0; i < items.size(); i += 2) shapes_[of].keys.push_back(items[i]);
    return of;
  }
  Shape shape = shapes_[of];
  for (size_t i = 0; i < items.size(); i += 2) shape.keys.push_back(items[i]);
  uint64_t hash = shape.keys.size();
  for (const PickleValue key : shape.keys) {
    hash = (hash ^ key.id()) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  const auto known = by_keys_.find(hash);
  const auto is_same = [](PickleValue a, PickleValue b) { return a.id() == b.id(); };
  if (known != by_keys_.end()) {
    const std::vector<PickleValue>& keys = shapes_[known->second].keys;
    if (std::equal(keys.begin(), keys.end(), shape.keys.begin(), shape.keys.end(), is_same)) return known->second;
  }
  shape.is_own = known != by_keys_.end() || shape.keys.size() > kMostSharedKeys || by_keys_.size() >= kMostShapes;
  if (!Spend(2 * sizeof(Shape) + 2 * shape.keys.size() * sizeof(PickleValue))) return std::nullopt;
  const auto number = static_cast<uint32_t>(shapes_.size());
  if (!shape.is_own) by_keys_.emplace(hash, number);
  shapes_.push_back(std::move(shape));
  return number;
}

// Lists of containers and dicts of plain values, as stacks and their frames are. What is added to later gets memory of
// its own, since this has no room. `count` becomes the container's.
bool PickleTree::Share(Type type, Container* to, absl::Span<const PickleValue> items, uint32_t count) {
  if (items.empty() || items.size() > kMostShared || to->items != nullptr) return false;
  uint64_t hash = type == Type::kDict ? count : 0;
  for (const PickleValue value : items) {
    if (value.is_container() == (type == Type::kDict)) return false;
    hash = (hash ^ value.id()) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  hash ^= static_cast<uint64_t>(type);
  const auto known = shared_.find(hash);
  if (known == shared_.end()) {
    if (shared_.size() < kMostDifferent && Spend(2 * sizeof(Container))) {
      PickleValue* const own = Room(items.size());
      if (!Spend(items.size() * sizeof(PickleValue))) return false;
      std::copy(items.begin(), items.end(), own);
      *to = {own, count, 0};
      shared_.emplace(hash, *to);
      return true;
    }
    return false;
  }
  const Container& same = known->second;
  if (same.count != count) return false;
  const auto equal = [](PickleValue a, PickleValue b) { return a.id() == b.id(); };
  if (!std::equal(items.begin(), items.end(), same.items, equal)) return false;
  *to = same;
  return true;
}

// Behind the `count` that are there.
bool PickleTree::AddItems(Container* to, size_t count, absl::Span<const PickleValue> items) {
  const size_t all = count + items.size();
  if (all > UINT32_MAX) return false;
  if (all > to->room) {
    // What is filled once, as most are, is as large as it must be.
    const size_t room = count == 0 ? all : std::max<size_t>(all, 2 * size_t{to->room});
    if (room > UINT32_MAX || !Spend(room * sizeof(PickleValue))) return false;
    PickleValue* const larger = Room(room);
    std::copy(to->items, to->items + count, larger);
    Free(to->items, to->room);
    to->items = larger;
    to->room = static_cast<uint32_t>(room);
  }
  std::copy(items.begin(), items.end(), to->items + count);
  return true;
}

bool PickleTree::Add(PickleValue container, absl::Span<const PickleValue> items) {
  Container& to = containers_[container.payload()];
  const size_t count = Count(container);
  if (container.type() != Type::kDict) {
    if (Share(container.type(), &to, items, static_cast<uint32_t>(items.size()))) return true;
    if (!AddItems(&to, count, items)) return false;
    to.count = static_cast<uint32_t>(count + items.size());
    return true;
  }
  const std::optional<uint32_t> shape = ShapeWith(to.count, items);
  if (!shape) return false;
  values_.clear();
  for (size_t i = 1; i < items.size(); i += 2) values_.push_back(items[i]);
  if (!shapes_[*shape].is_own && Share(Type::kDict, &to, values_, *shape)) return true;
  if (!AddItems(&to, count, values_)) return false;
  to.count = *shape;
  return true;
}

}  // namespace gpumem
