// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// JsonSource: the bytes of a ByteSource as the iterators that nlohmann's parser takes. The parser keeps a token whole,
// twice: where `token`, which its handler moves on, has stood still for too long, the bytes end. Not thread-safe;
// source and token must outlive it.
//
// JsonHandler: what every reader of a JSON file that streams by has: how far it is, and what is wrong. Readers derive
// from it and say where they have moved on.
//
//   GPUMEM_RETURN_IF_ERROR(handler.Parse("Export the profile anew"));

#ifndef GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_
#define GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

class JsonHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  // The source must outlive it.
  explicit JsonHandler(ByteSource* source) : source_(source) {}

  // All of the source. Its own error, else DataLoss: what is wrong, and `next_step` behind it.
  absl::Status Parse(absl::string_view next_step) {
    const bool parsed = nlohmann::json::sax_parse(JsonSource(source_, &token_), JsonSource(), this);
    if (!source_->status().ok()) return source_->status();
    if (parsed) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(wrong_.empty() ? "is no JSON" : wrong_, ". ", next_step));
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Wrong(absl::StrCat("is no JSON, or cut short, at byte ", position));
  }

 protected:
  // The first that is said stays.
  bool Wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
    return false;
  }
  // A token came. Returns how far the source is, unpacked.
  uint64_t Advance() { return token_ = source_->unpacked_bytes(); }

 private:
  ByteSource* source_;
  std::string wrong_;
  uint64_t token_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_JSON_SOURCE_H_
