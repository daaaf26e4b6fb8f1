// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PickleTree: the plain values of a pickle: None, booleans, numbers, texts, lists, tuples, dicts. A value takes 8
// bytes; texts are kept once however often they come, and so are the keys of dicts that have the same; a container that
// the pickle refers to several times is one container, so two values with the same id() are the same object. What was
// read may be a graph, even one with cycles: whoever walks it goes as deep as the format says and no further.
//
// Questions to a value of another type are answered with nothing, not with an error. Not thread-safe while it is built.
//
//   if (const PickleValue* segments = tree.Find(tree.root(), "segments"))
//     for (const PickleValue& segment : tree.Items(*segments)) Use(tree.Int(segment, "address"));

#ifndef GPUMEM_ANALYZER_IMPORT_PICKLE_TREE_H_
#define GPUMEM_ANALYZER_IMPORT_PICKLE_TREE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpumem {

// A type in 4 bits, and a number, or the index of what does not fit into 60 bits.
class PickleValue {
 public:
  // kHugeInt: from 2^63 on, up to 64 bits.
  enum class Type : uint8_t { kNone, kBool, kInt, kBigInt, kFloat, kText, kList, kTuple, kDict, kMark, kHugeInt };

  PickleValue() = default;
  PickleValue(Type type, uint64_t payload) : bits_(static_cast<uint64_t>(type) << kShift | (payload & kMask)) {}

  Type type() const { return static_cast<Type>(bits_ >> kShift); }
  uint64_t payload() const { return bits_ & kMask; }
  bool is_container() const { return type() >= Type::kList && type() <= Type::kDict; }
  bool is_sequence() const { return type() == Type::kList || type() == Type::kTuple; }
  uint64_t id() const { return bits_; }

 private:
  static constexpr int kShift = 60;
  static constexpr uint64_t kMask = (uint64_t{1} << kShift) - 1;
  uint64_t bits_ = 0;
};

class PickleTree {
 public:
  using Type = PickleValue::Type;

  const PickleValue& root() const { return root_; }

  // Of a list or tuple. Empty for everything else.
  absl::Span<const PickleValue> Items(PickleValue container) const;
  // Of a dict, in its order. Empty for everything else.
  absl::Span<const PickleValue> Keys(PickleValue dict) const;
  absl::Span<const PickleValue> Values(PickleValue dict) const;
  // Where what a container holds lies: equal ones mostly share it. Null for an empty one, and for what is none.
  const PickleValue* Place(PickleValue container) const {
    return container.is_container() ? containers_[container.payload()].items : nullptr;
  }
  // The value of a dict's key; nullptr where it is not a dict or has no such key. The last one of several.
  const PickleValue* Find(PickleValue dict, absl::string_view key) const;
  absl::string_view Text(PickleValue value) const;
  // Also of a float without fraction; nothing where it is not a number or takes more than 64 bits. Addresses above 2^63
  // come as the negative number of the same bits.
  std::optional<int64_t> Int(PickleValue value) const;
  std::optional<double> Number(PickleValue value) const;
  bool IsTrue(PickleValue value) const;

  // The same of a dict's key; `otherwise` where there is none.
  int64_t Int(PickleValue dict, absl::string_view key, int64_t otherwise = 0) const;
  absl::string_view Text(PickleValue dict, absl::string_view key) const;

  // Faster where the same key is asked for often: the value that the key is in all dicts, then by that.
  std::optional<PickleValue> Key(absl::string_view key) const;
  const PickleValue* Find(PickleValue dict, const std::optional<PickleValue>& key) const;

  // For who builds it. Add returns false where memory would go beyond `budget`.
  explicit PickleTree(uint64_t budget = UINT64_MAX) : budget_(budget) {}
  void SetBudget(uint64_t budget) { budget_ = budget; }
  void SetRoot(PickleValue root) { root_ = root; }
  PickleValue MakeInt(int64_t value);
  PickleValue MakeUnsigned(uint64_t value);
  PickleValue MakeFloat(double value);
  std::optional<PickleValue> MakeText(absl::string_view text);
  PickleValue MakeContainer(Type type);
  // To a dict: keys and values in turn.
  bool Add(PickleValue container, absl::Span<const PickleValue> items);
  // Counts memory that whoever builds the tree keeps for itself. False: that is beyond the budget.
  bool Spend(uint64_t bytes) { return (spent_ += bytes) <= budget_; }
  void Return(uint64_t bytes) { spent_ -= bytes; }
  uint64_t spent() const { return spent_; }

 private:
  struct Container {
    PickleValue* items = nullptr;
    uint32_t count = 0, room = 0;  // count: of a dict the number of its shape
  };
  // The keys of dicts that have the same ones in the same order. One that `is_own` belongs to one dict, and may grow.
  struct Shape {
    std::vector<PickleValue> keys;
    bool is_own = false;
  };
  PickleValue* Room(size_t count);
  void Free(PickleValue* items, size_t room);
  size_t Count(PickleValue container) const {
    const uint32_t count = containers_[container.payload()].count;
    return container.type() == Type::kDict ? shapes_[count].keys.size() : count;
  }
  bool AddItems(Container* to, size_t count, absl::Span<const PickleValue> items);
  // The shape `of` with the keys of keys and values in turn behind its own. Nothing: that is beyond the budget.
  std::optional<uint32_t> ShapeWith(uint32_t of, absl::Span<const PickleValue> items);
  // Fills an empty container with the memory of an equal one: every event has a list of its own for the same stack.
  // False: it is not of the kind that is shared.
  bool Share(Type type, Container* to, absl::Span<const PickleValue> items, uint32_t count);

  uint64_t budget_, spent_ = 0;
  PickleValue root_;
  std::deque<Container> containers_;                 // deques: while one grows, nothing of it is there twice
  std::deque<Shape> shapes_ = std::deque<Shape>(1);  // the first one is that of an empty dict
  absl::flat_hash_map<uint64_t, uint32_t> by_keys_;  // shapes that are shared, by the hash of their keys
  std::vector<PickleValue> values_;                  // of the dict at hand
  std::vector<std::unique_ptr<PickleValue[]>> blocks_;
  size_t left_ = 0;  // of the last small block
  PickleValue* next_ = nullptr;
  std::deque<int64_t> large_ints_;
  std::deque<double> floats_;
  std::deque<std::string> texts_;
  absl::flat_hash_map<absl::string_view, uint64_t> text_index_;
  absl::flat_hash_map<uint64_t, Container> shared_;  // by the hash of what is in it
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PICKLE_TREE_H_
