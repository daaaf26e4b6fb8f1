// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// JsonSource: the bytes of a ByteSource as the iterators that nlohmann's parser takes. The parser keeps a token whole,
// twice: where `token`, which its handler moves on, has stood still for too long, the bytes end. Not thread-safe;
// source and token must outlive it.
//
//   Json::sax_parse(JsonSource(&source, &handler.token), JsonSource(), &handler);

#ifndef GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_
#define GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/strings/string_view.h"
#include "import/byte_source.h"

namespace gpumem {

inline constexpr uint64_t kLongestToken = uint64_t{64} << 20;
inline constexpr size_t kDeepestJson = 10000;  // the parser keeps a bit for each level

class JsonSource {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  JsonSource() = default;
  JsonSource(ByteSource* source, const uint64_t* token) : source_(source), token_(token) { Refill(); }

  const char& operator*() const { return *at_; }
  JsonSource& operator++() {
    if (++at_ == end_) Refill();
    return *this;
  }
  bool operator==(const JsonSource& other) const { return source_ == other.source_; }
  bool operator!=(const JsonSource& other) const { return source_ != other.source_; }

 private:
  // At the end it becomes the end.
  void Refill() {
    const absl::string_view piece = source_->Next();
    at_ = piece.data();
    end_ = at_ + piece.size();
    if (piece.empty() || source_->unpacked_bytes() - *token_ > kLongestToken) source_ = nullptr;
  }

  ByteSource* source_ = nullptr;
  const uint64_t* token_ = nullptr;  // where the last one that was handed on ended, about
  const char *at_ = nullptr, *end_ = nullptr;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_
