// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/pickle_writer.h"

#include <cstring>

namespace gpumem {
namespace {

constexpr int kDeepestPickle = 64;

}  // namespace

void PickleWriter::Append32(uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out_->push_back(static_cast<char>(value >> shift));
}

void PickleWriter::Text(absl::string_view text) {
  if (const auto known = texts_.find(text); known != texts_.end()) return Recall(known->second);
  texts_.emplace(std::string(text), NewText(text));
}

uint32_t PickleWriter::NewText(absl::string_view text) {
  out_->push_back('X');
  Append32(static_cast<uint32_t>(text.size()));
  out_->append(text.data(), text.size());
  return Remember();
}

void PickleWriter::Number(uint64_t value) {
  if (value < 256) {
    out_->push_back('K');
    out_->push_back(static_cast<char>(value));
  } else if (value <= INT32_MAX) {
    out_->push_back('J');
    Append32(static_cast<uint32_t>(value));
  } else {
    // Little-endian with its sign: a highest bit that is set needs a zero behind it.
    std::string bytes;
    for (uint64_t rest = value; rest != 0; rest >>= 8) bytes.push_back(static_cast<char>(rest));
    if ((bytes.back() & 0x80) != 0) bytes.push_back('\0');
    out_->push_back('\x8a');
    out_->push_back(static_cast<char>(bytes.size()));
    out_->append(bytes);
  }
}

void PickleWriter::Signed(int64_t value) {
  if (value >= 0) return Number(static_cast<uint64_t>(value));
  out_->append("\x8a\x08", 2);
  for (int shift = 0; shift < 64; shift += 8) out_->push_back(static_cast<char>(static_cast<uint64_t>(value) >> shift));
}

void PickleWriter::Pair(uint64_t a, uint64_t b) {
  Number(a);
  Number(b);
  out_->push_back('\x86');
}

uint32_t PickleWriter::Remember() {
  const uint32_t number = next_++;
  if (number < 256) {
    out_->push_back('q');
    out_->push_back(static_cast<char>(number));
  } else {
    out_->push_back('r');
    Append32(number);
  }
  return number;
}

void PickleWriter::Recall(uint32_t number) {
  if (number < 256) {
    out_->push_back('h');
    out_->push_back(static_cast<char>(number));
  } else {
    out_->push_back('j');
    Append32(number);
  }
}

void PickleWriter::Float(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  out_->push_back('G');
  for (int shift = 56; shift >= 0; shift -= 8) out_->push_back(static_cast<char>(bits >> shift));
}

void PickledTree::Write(PickleValue value, int depth) {
  switch (value.type()) {
    case PickleValue::Type::kBool:
      return pickle_->Bool(value.payload() != 0);
    case PickleValue::Type::kInt:
    case PickleValue::Type::kBigInt:
      return pickle_->Signed(tree_->Int(value).value_or(0));
    case PickleValue::Type::kHugeInt:
      return pickle_->Number(static_cast<uint64_t>(tree_->Int(value).value_or(0)));
    case PickleValue::Type::kFloat:
      return pickle_->Float(tree_->Number(value).value_or(0));
    case PickleValue::Type::kText: {
      const auto [known, is_new] = texts_.try_emplace(value.id());
      if (!is_new) return pickle_->Recall(known->second);
      known->second = pickle_->NewText(tree_->Text(value));
      return Step();
    }
    default:
      break;
  }
  if (!value.is_container() || depth > kDeepestPickle || stopped_) return pickle_->None();
  // Equal ones mostly share their memory.
  const std::pair<const PickleValue*, PickleValue::Type> key(tree_->Place(value), value.type());
  if (key.first == nullptr) return WriteContainer(value, depth);
  if (const auto known = written_.find(key); known != written_.end()) return pickle_->Recall(known->second);
  if (!open_.insert(key.first).second) return pickle_->None();
  WriteContainer(value, depth + 1);
  written_[key] = pickle_->Remember();
  open_.erase(key.first);
  Step();
}

void PickledTree::WriteContainer(PickleValue value, int depth) {
  const absl::Span<const PickleValue> items = tree_->Items(value);
  switch (value.type()) {
    case PickleValue::Type::kDict:
      pickle_->BeginDict();
      for (size_t i = 0; i < tree_->Keys(value).size(); ++i) {
        Write(tree_->Keys(value)[i], depth);
        Write(tree_->Values(value)[i], depth);
      }
      return pickle_->EndDict();
    case PickleValue::Type::kTuple:
      pickle_->BeginTuple();
      for (const PickleValue item : items) Write(item, depth);
      return pickle_->EndTuple();
    default:
      pickle_->BeginList();
      for (const PickleValue item : items) {
        pickle_->Item();
        Write(item, depth);
      }
      return pickle_->EndList();
  }
}

}  // namespace gpumem
