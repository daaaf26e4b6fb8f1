// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/pickle_reader.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "import/pickle_opcodes.h"

namespace gpumem {
namespace {

using Type = PickleValue::Type;

constexpr uint64_t kMostLine = 1u << 20, kProgressBytes = 4u << 20, kMostIntegerBytes = 9;

// The stack machine. Each step takes one opcode; what is wrong ends it.
class PickleMachine {
 public:
  PickleMachine(ByteSource* source, const PickleLimits& limits)
      : source_(source), limits_(limits), bytes_(source), tree_(std::min(limits.always_bytes, limits.most_bytes)) {}

  absl::StatusOr<PickleTree> Run(const std::function<void(uint64_t, uint64_t)>& progress);

 private:
  bool Step();
  bool StepPlain();
  bool StepText();
  bool StepContainer();
  bool StepMemo();
  bool Refuse();

  bool Wrong(absl::string_view what) {
    if (wrong_.empty()) wrong_ = std::string(what);
    return false;
  }
  bool Spend(uint64_t bytes) { return own_bytes_ += bytes, tree_.Spend(bytes); }
  bool Push(PickleValue value) {
    if (stack_.size() == stack_.capacity() && !Spend(sizeof(PickleValue) * (stack_.size() + 64)))
      return Wrong("too many values at once");
    stack_.push_back(value);
    return true;
  }
  bool PushText(absl::string_view text);
  bool PushLong(absl::string_view bytes);
  bool PushDecimal(absl::string_view line);
  bool PushCounted(uint64_t size);
  bool PushTuple(size_t count);
  // What lies above the last mark; the mark is gone then.
  std::optional<size_t> PopMark();
  bool CloseContainer(Type type);
  bool AddTop(size_t count);
  bool Memoize(uint64_t number);
  bool Fetch(uint64_t number);

  ByteSource* source_;
  PickleLimits limits_;
  PickleBytes bytes_;
  PickleTree tree_;
  std::vector<PickleValue> stack_;
  std::deque<PickleValue> memo_;  // while it grows, nothing of it is there twice
  std::vector<size_t> marks_;
  absl::flat_hash_map<uint64_t, PickleValue> odd_memo_;  // by numbers that leave some out
  uint64_t started_ = 0;                                 // where the opcode is
  uint64_t own_bytes_ = 0;                               // of what is gone with this machine
  int opcode_ = 0;
  bool stopped_ = false;
  std::string wrong_;
};

bool PickleMachine::PushText(absl::string_view text) {
  if (text.size() > limits_.text_bytes) return Wrong(absl::StrCat("a text of ", text.size(), " bytes"));
  const std::optional<PickleValue> value = tree_.MakeText(text);
  return value ? Push(*value) : Wrong("more text than such a file can need");
}

bool PickleMachine::PushCounted(uint64_t size) {
  if (size > limits_.text_bytes) return Wrong(absl::StrCat("a text of ", size, " bytes"));
  const absl::string_view text = bytes_.Take(size);
  return bytes_.ok() && PushText(text);
}

bool PickleMachine::PushLong(absl::string_view bytes) {
  const std::optional<int64_t> value = PickledInteger(bytes);
  if (!value) return Wrong(absl::StrCat("an integer of ", bytes.size(), " bytes"));
  const bool is_huge = *value < 0 && bytes.size() > sizeof(int64_t) && bytes.back() == '\0';
  return Push(is_huge ? tree_.MakeUnsigned(static_cast<uint64_t>(*value)) : tree_.MakeInt(*value));
}

bool PickleMachine::PushDecimal(absl::string_view line) {
  if (opcode_ == kInt && (line == "00" || line == "01")) return Push({Type::kBool, line == "01"});
  if (absl::EndsWith(line, "L")) line.remove_suffix(1);
  int64_t value = 0;
  uint64_t large = 0;
  if (absl::SimpleAtoi(line, &value)) return Push(tree_.MakeInt(value));
  if (absl::SimpleAtoi(line, &large)) return Push(tree_.MakeUnsigned(large));
  return Wrong("no integer of 64 bits");
}

bool PickleMachine::PushTuple(size_t count) {
  const size_t base = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < base + count) return Wrong("fewer values than it takes");
  const PickleValue tuple = tree_.MakeContainer(Type::kTuple);
  if (!tree_.Add(tuple, {stack_.data() + stack_.size() - count, count})) return Wrong("more than such a file can need");
  stack_.resize(stack_.size() - count);
  return Push(tuple);
}

std::optional<size_t> PickleMachine::PopMark() {
  if (marks_.empty()) {
    Wrong("no mark before it");
    return std::nullopt;
  }
  const size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

bool PickleMachine::CloseContainer(Type type) {
  const std::optional<size_t> mark = PopMark();
  if (!mark) return false;
  if (type == Type::kDict && (stack_.size() - *mark) % 2 != 0) return Wrong("a key without a value");
  const PickleValue made = tree_.MakeContainer(type);
  if (!tree_.Add(made, {stack_.data() + *mark, stack_.size() - *mark})) return Wrong("more than such a file can need");
  stack_.resize(*mark);
  return Push(made);
}

bool PickleMachine::AddTop(size_t count) {
  const size_t base = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < base + count + 1) return Wrong("fewer values than it takes");
  const PickleValue container = stack_[stack_.size() - count - 1];
  const bool is_dict = opcode_ == kSetItem || opcode_ == kSetItems;
  if (container.type() != (is_dict ? Type::kDict : Type::kList))
    return Wrong(is_dict ? "adds to what is not a dict" : "adds to what is not a list");
  if (is_dict && count % 2 != 0) return Wrong("a key without a value");
  if (!tree_.Add(container, {stack_.data() + stack_.size() - count, count}))
    return Wrong("more than such a file can need");
  stack_.resize(stack_.size() - count);
  return true;
}

// Python numbers from 0 without leaving any out.
bool PickleMachine::Memoize(uint64_t number) {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) return Wrong("nothing there to be kept");
  const PickleValue value = stack_.back();
  if (number < memo_.size()) {
    memo_[number] = value;
    return true;
  }
  if (number != memo_.size()) {
    if (!Spend(64)) return Wrong("more than such a file can need");
    odd_memo_[number] = value;
    return true;
  }
  if (!Spend(sizeof(PickleValue))) return Wrong("more than such a file can need");
  memo_.push_back(value);
  return true;
}

bool PickleMachine::Fetch(uint64_t number) {
  if (number < memo_.size()) return Push(memo_[number]);
  const auto found = odd_memo_.find(number);
  return found == odd_memo_.end() ? Wrong(absl::StrCat("value ", number, " was never kept")) : Push(found->second);
}

bool PickleMachine::StepMemo() {
  uint64_t number = 0;
  switch (opcode_) {
    case kMemoize:
      return Memoize(memo_.size());
    case kBinPut:
      number = bytes_.Number(1);
      return bytes_.ok() && Memoize(number);
    case kLongBinPut:
      number = bytes_.Number(4);
      return bytes_.ok() && Memoize(number);
    case kBinGet:
      number = bytes_.Number(1);
      return bytes_.ok() && Fetch(number);
    case kLongBinGet:
      number = bytes_.Number(4);
      return bytes_.ok() && Fetch(number);
    case kPut:
    case kGet:
      if (!absl::SimpleAtoi(bytes_.Line(20), &number)) return Wrong("no number");
      return opcode_ == kPut ? Memoize(number) : Fetch(number);
    default:
      return Refuse();
  }
}

bool PickleMachine::StepContainer() {
  switch (opcode_) {
    case kEmptyList:
    case kEmptySet:
      return Push(tree_.MakeContainer(Type::kList));
    case kEmptyDict:
      return Push(tree_.MakeContainer(Type::kDict));
    case kEmptyTuple:
      return Push(tree_.MakeContainer(Type::kTuple));
    case kTuple1:
      return PushTuple(1);
    case kTuple2:
      return PushTuple(2);
    case kTuple3:
      return PushTuple(3);
    case kTuple:
      return CloseContainer(Type::kTuple);
    case kList:
    case kFrozenSet:
      return CloseContainer(Type::kList);
    case kDict:
      return CloseContainer(Type::kDict);
    case kAppend:
      return AddTop(1);
    case kSetItem:
      return AddTop(2);
    case kAppends:
    case kSetItems:
    case kAddItems: {  // to the container below the mark
      const std::optional<size_t> mark = PopMark();
      return mark && AddTop(stack_.size() - *mark);
    }
    default:
      return StepMemo();
  }
}

bool PickleMachine::StepText() {
  switch (opcode_) {
    case kShortBinUnicode:
    case kShortBinBytes:
    case kShortBinString:
      return PushCounted(bytes_.Number(1));
    case kBinUnicode:
    case kBinBytes:
    case kBinString:
      return PushCounted(bytes_.Number(4));
    case kBinUnicode8:
    case kBinBytes8:
    case kByteArray8:
      return PushCounted(bytes_.Number(8));
    case kUnicode:
      return PushText(UnescapedPickleText(bytes_.Line(kMostLine), /*is_quoted=*/false));
    case kString:
      return PushText(UnescapedPickleText(bytes_.Line(kMostLine), /*is_quoted=*/true));
    default:
      return StepContainer();
  }
}

bool PickleMachine::StepPlain() {
  switch (opcode_) {
    case kNone:
      return Push({});
    case kNewTrue:
      return Push({Type::kBool, 1});
    case kNewFalse:
      return Push({Type::kBool, 0});
    case kBinInt1:
      return Push(tree_.MakeInt(static_cast<int64_t>(bytes_.Number(1))));
    case kBinInt2:
      return Push(tree_.MakeInt(static_cast<int64_t>(bytes_.Number(2))));
    case kBinInt:
      return Push(tree_.MakeInt(static_cast<int32_t>(static_cast<uint32_t>(bytes_.Number(4)))));
    case kLong1:
      return PushLong(bytes_.Take(bytes_.Number(1)));
    case kLong4: {
      const uint64_t size = bytes_.Number(4);
      return size > kMostIntegerBytes ? Wrong(absl::StrCat("an integer of ", size, " bytes"))
                                      : PushLong(bytes_.Take(size));
    }
    case kInt:
    case kLong:
      return PushDecimal(bytes_.Line(64));
    case kBinFloat: {
      const uint64_t bits = __builtin_bswap64(bytes_.Number(8));
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return Push(tree_.MakeFloat(value));
    }
    case kFloat: {
      double value = 0;
      return absl::SimpleAtod(bytes_.Line(64), &value) ? Push(tree_.MakeFloat(value)) : Wrong("no number");
    }
    default:
      return StepText();
  }
}

bool PickleMachine::Step() {
  const size_t base = marks_.empty() ? 0 : marks_.back();
  switch (opcode_) {
    case kProto:
      return bytes_.Number(1) <= kHighestProtocol || Wrong("a protocol above 5");
    case kFrame:
      bytes_.Number(8);  // how far the next opcodes reach; nothing rests on it
      return true;
    case kMark:
      if (marks_.size() == marks_.capacity() && !Spend(sizeof(size_t) * (marks_.size() + 64)))
        return Wrong("too many values at once");
      marks_.push_back(stack_.size());
      return true;
    case kPop:
      if (stack_.size() > base) {
        stack_.pop_back();
        return true;
      }
      return PopMark().has_value();
    case kPopMark: {
      const std::optional<size_t> mark = PopMark();
      if (mark) stack_.resize(*mark);
      return mark.has_value();
    }
    case kDup:
      return stack_.size() > base ? Push(stack_.back()) : Wrong("nothing there to be copied");
    case kStop:
      if (stack_.size() <= base) return Wrong("no value");
      tree_.SetRoot(stack_.back());
      return stopped_ = true;
    default:
      return StepPlain();
  }
}

bool PickleMachine::Refuse() {
  const absl::string_view name = PickleOpcodeName(opcode_);
  if (name.empty()) return Wrong("no opcode of a pickle");
  if (opcode_ == kGlobal || opcode_ == kInst) {
    const std::string module(bytes_.Line(kMostLine));
    return Wrong(absl::StrCat("would import ", EscapeControls(absl::StrCat(module, ".", bytes_.Line(kMostLine)))));
  }
  if (opcode_ == kStackGlobal && stack_.size() >= 2) {
    return Wrong(absl::StrCat("would import ", EscapeControls(absl::StrCat(tree_.Text(stack_[stack_.size() - 2]), ".",
                                                                           tree_.Text(stack_.back())))));
  }
  return Wrong("would make or call something");
}

absl::StatusOr<PickleTree> PickleMachine::Run(const std::function<void(uint64_t, uint64_t)>& progress) {
  uint64_t next_progress = kProgressBytes;
  while (!stopped_) {
    started_ = bytes_.position();
    opcode_ = bytes_.Byte();
    if (opcode_ < 0 || !Step() || !bytes_.ok()) break;
    if (started_ >= next_progress) {
      tree_.SetBudget(std::min(limits_.most_bytes, limits_.always_bytes + limits_.bytes_per_byte * started_));
      if (progress) progress(source_->position(), source_->file_bytes());
      next_progress = started_ + kProgressBytes;
    }
  }
  if (stopped_ && bytes_.ok()) {
    tree_.Return(own_bytes_);
    return std::move(tree_);
  }
  if (!source_->status().ok()) return source_->status();
  if (tree_.spent() > limits_.most_bytes) return limits_.too_much;
  if (!wrong_.empty() && bytes_.ok()) {
    const absl::string_view name = PickleOpcodeName(opcode_);
    return absl::DataLossError(
        absl::StrCat("byte ", started_, ": ",
                     name.empty() ? absl::StrCat("0x", absl::Hex(opcode_, absl::kZeroPad2)) : std::string(name), ": ",
                     wrong_, ". Nothing of the file was run; a snapshot holds plain values only. Write it anew with ",
                     "torch.cuda.memory._dump_snapshot()"));
  }
  return absl::DataLossError(
      absl::StrCat("the pickle ends at byte ", bytes_.position(),
                   started_ == bytes_.position() ? "" : absl::StrCat(", inside ", PickleOpcodeName(opcode_)),
                   ", before its end: it was cut short. Copy it anew, or write it anew"));
}

}  // namespace

bool BeginsLikePickle(absl::string_view bytes) {
  if (bytes.size() < 2) return false;
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first == kProto) return static_cast<unsigned char>(bytes[1]) <= kHighestProtocol;
  return absl::StartsWith(bytes, "(dp") || absl::StartsWith(bytes, "(lp") || absl::StartsWith(bytes, "}q") ||
         absl::StartsWith(bytes, "]q");
}

absl::StatusOr<PickleTree> ReadPickle(ByteSource* source, const PickleLimits& limits,
                                      const std::function<void(uint64_t, uint64_t)>& progress) {
  return PickleMachine(source, limits).Run(progress);
}

}  // namespace gpumem
