// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// JsonBytes: the bytes of a source as nlohmann's parser takes them, for files that are too large to be kept as a tree.
// Where a token grows too long the bytes end, which the parser reports as an error. Not thread-safe; the source and the
// handler's count must outlive it.
//
//   Json::sax_parse(JsonBytes(source, &handler.token), JsonBytes(), &handler);

#ifndef GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_
#define GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "import/byte_source.h"

namespace gpumem {

inline constexpr size_t kDeepestJson = 10000;  // the parser keeps a bit for each level

class JsonBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  JsonBytes() = default;
  // `token`: how far the source was, unpacked, when the parser handed on something last.
  JsonBytes(ByteSource* source, const uint64_t* token) : source_(source), token_(token) { Refill(); }

  const char& operator*() const { return *at_; }
  JsonBytes& operator++() {
    if (++at_ == end_) Refill();
    return *this;
  }
  bool operator==(const JsonBytes& other) const { return source_ == other.source_; }
  bool operator!=(const JsonBytes& other) const { return source_ != other.source_; }

 private:
  static constexpr uint64_t kLongestToken = uint64_t{64} << 20;  // the parser keeps it whole, twice

  // At the end it becomes the end.
  void Refill() {
    const absl::string_view piece = source_->Next();
    at_ = piece.data();
    end_ = at_ + piece.size();
    if (piece.empty() || source_->unpacked_bytes() - *token_ > kLongestToken) source_ = nullptr;
  }

  ByteSource* source_ = nullptr;
  const uint64_t* token_ = nullptr;
  const char *at_ = nullptr, *end_ = nullptr;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_
