// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PickleWriter: Python's pickle, protocol 2, of plain values, appended to a string that the caller empties between two
// calls. Only opcodes that PyTorch's viewer reads. Texts that were written before are named again by their number, and
// so may be any value. Not thread-safe; never fails. Wrong nesting gives a file that no reader opens.
//
//   PickleWriter pickle(&out);
//   pickle.Begin();
//   pickle.BeginDict(); pickle.Text("segments"); pickle.BeginList(); pickle.EndList(); pickle.EndDict();
//   pickle.End();

#ifndef GPUMEM_ANALYZER_IMPORT_PICKLE_WRITER_H_
#define GPUMEM_ANALYZER_IMPORT_PICKLE_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "import/pickle_tree.h"

namespace gpumem {

class PickleWriter {
 public:
  explicit PickleWriter(std::string* out) : out_(out) {}
  PickleWriter(const PickleWriter&) = delete;
  PickleWriter& operator=(const PickleWriter&) = delete;

  void Begin() { out_->append("\x80\x02", 2); }
  void End() { out_->push_back('.'); }

  void BeginDict() { out_->append("}(", 2); }
  void EndDict() { out_->push_back('u'); }
  // Items of a list come in groups of at most a thousand, which some readers need: call Item before each.
  void BeginList() {
    out_->append("](", 2);
    items_.push_back(0);
  }
  void Item() {
    if (++items_.back() % 1000 == 0) out_->append("e(", 2);
  }
  void EndList() {
    out_->push_back('e');
    items_.pop_back();
  }

  void Text(absl::string_view text);  // UTF-8
  // The same, and the caller knows that it was not written before, and by which number to name it again.
  uint32_t NewText(absl::string_view text);
  void Number(uint64_t value);
  void Signed(int64_t value);
  void Bool(bool value) { out_->push_back(value ? '\x88' : '\x89'); }
  void Float(double value);
  void None() { out_->push_back('N'); }
  void Pair(uint64_t a, uint64_t b);  // a tuple
  // Its values in between.
  void BeginTuple() { out_->push_back('('); }
  void EndTuple() { out_->push_back('t'); }

  void Field(absl::string_view key, absl::string_view value) { Text(key), Text(value); }
  void Field(absl::string_view key, const char* value) { Text(key), Text(value); }
  void Field(absl::string_view key, uint64_t value) { Text(key), Number(value); }
  void Flag(absl::string_view key, bool value) { Text(key), Bool(value); }

  // The value that was written last gets a number, by which it is named again.
  uint32_t Remember();
  void Recall(uint32_t number);

 private:
  void Append32(uint32_t value);

  std::string* out_;
  absl::flat_hash_map<std::string, uint32_t> texts_;
  std::vector<uint64_t> items_;
  uint32_t next_ = 0;
};

// PickledTree: values of a PickleTree written as they were read. Each container and text is written once and named
// again by its number where it comes again; one that contains itself has None in that place. After each new one
// `goes_on` is asked, which may empty the writer's string; once it says no, all further ones are None. Not thread-safe;
// tree and writer must outlive it.
//
//   PickledTree again(&tree, &pickle, [&] { return Flush(), memory.Spend(64); });
//   again.Write(*tree.Find(tree.root(), "allocator_settings"));
class PickledTree {
 public:
  PickledTree(const PickleTree* tree, PickleWriter* pickle, std::function<bool()> goes_on)
      : tree_(tree), pickle_(pickle), goes_on_(std::move(goes_on)) {}

  void Write(PickleValue value) { Write(value, 0); }
  // For who writes values of its own in between.
  void Step() { stopped_ |= !goes_on_(); }

 private:
  void Write(PickleValue value, int depth);
  void WriteContainer(PickleValue value, int depth);

  const PickleTree* tree_;
  PickleWriter* pickle_;
  std::function<bool()> goes_on_;
  bool stopped_ = false;
  absl::flat_hash_map<uint64_t, uint32_t> texts_;                                            // by PickleValue::id
  absl::flat_hash_map<std::pair<const PickleValue*, PickleValue::Type>, uint32_t> written_;  // by where its items lie
  absl::flat_hash_set<const PickleValue*> open_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PICKLE_WRITER_H_
