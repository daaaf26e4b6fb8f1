// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/dict_rest.h"

#include <algorithm>
#include <optional>

namespace gpumem {
namespace {

constexpr uint64_t kPartBytes = 96;  // of one in a vector that grows, and what it takes when it is written

bool IsSame(const PickleTree& tree, PickleValue a, PickleValue b) {
  if (a.id() == b.id()) return true;
  if (a.type() != b.type()) return false;
  if (a.type() == PickleValue::Type::kDict)
    return tree.Place(a) == tree.Place(b) && tree.Keys(a).data() == tree.Keys(b).data();
  if (a.is_sequence()) {
    const absl::Span<const PickleValue> ours = tree.Items(a), theirs = tree.Items(b);
    return ours.size() == theirs.size() && std::equal(ours.begin(), ours.end(), theirs.begin(),
                                                      [](PickleValue x, PickleValue y) { return x.id() == y.id(); });
  }
  const bool is_large = a.type() == PickleValue::Type::kBigInt || a.type() == PickleValue::Type::kHugeInt;
  return is_large && tree.Int(a) == tree.Int(b);
}

}  // namespace

DictRest::DictRest(const PickleTree* tree, absl::Span<const absl::string_view> known, ImportMemory* memory)
    : tree_(tree), memory_(memory) {
  for (const absl::string_view key : known) {
    // What no dict has is a value that no key is.
    known_.push_back(tree->Key(key).value_or(PickleValue()));
  }
}

bool DictRest::IsAsBefore(uint64_t missing) const {
  if (changes_.empty() || changes_.back().missing != missing) return false;
  const std::vector<PickleValue>& before = changes_.back().items;
  return std::equal(before.begin(), before.end(), others_.begin(), others_.end(),
                    [this](PickleValue a, PickleValue b) { return IsSame(*tree_, a, b); });
}

void DictRest::Take(uint64_t index, PickleValue dict, absl::FunctionRef<bool(size_t key, PickleValue value)> agrees) {
  if (dict.type() != PickleValue::Type::kDict) return TakeWhole(index, dict);
  others_.clear();
  differing_.clear();
  uint64_t missing = (uint64_t{1} << known_.size()) - 1;
  const absl::Span<const PickleValue> keys = tree_->Keys(dict), values = tree_->Values(dict);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](PickleValue key) {
      return key.type() == PickleValue::Type::kText && key.id() == keys[i].id();
    });
    const auto key = static_cast<size_t>(found - known_.begin());
    if (found == known_.end()) {
      others_.insert(others_.end(), {keys[i], values[i]});
      continue;
    }
    missing &= ~(uint64_t{1} << key);
    if (!agrees(key, values[i])) differing_.insert(differing_.end(), {keys[i], values[i]});
  }
  if (!IsAsBefore(missing)) {
    if (!memory_->Spend(kPartBytes + 2 * sizeof(PickleValue) * others_.size())) return;
    changes_.push_back({index, missing, others_});
  }
  if (!differing_.empty() && memory_->Spend(kPartBytes + 2 * sizeof(PickleValue) * differing_.size()))
    patches_.push_back({index, 0, differing_});
}

void DictRest::TakeWhole(uint64_t index, PickleValue value) {
  if (memory_->Spend(2 * kPartBytes)) whole_.push_back({index, 0, {value}});
}

void DictRest::WriteParts(absl::string_view name, const std::vector<Part>& parts, bool with_missing,
                          PickleWriter* pickle, PickledTree* values) const {
  pickle->Text(name);
  pickle->BeginList();
  for (const Part& part : parts) {
    pickle->Item();
    pickle->BeginTuple();
    pickle->Number(part.index);
    if (with_missing) pickle->Number(part.missing);
    if (part.items.size() == 1) {
      values->Write(part.items[0]);
    } else {
      pickle->BeginDict();
      for (const PickleValue item : part.items) values->Write(item);
      pickle->EndDict();
    }
    pickle->EndTuple();
    values->Step();
  }
  pickle->EndList();
}

void DictRest::WriteTo(PickleWriter* pickle, PickledTree* values) const {
  pickle->BeginDict();
  WriteParts("changes", changes_, /*with_missing=*/true, pickle, values);
  WriteParts("patches", patches_, /*with_missing=*/false, pickle, values);
  WriteParts("whole", whole_, /*with_missing=*/false, pickle, values);
}

}  // namespace gpumem
