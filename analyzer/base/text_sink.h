// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TextSink: where long answers go piece by piece, so that they never have to exist as a whole. ChunkedText collects
// small pieces into larger ones. Not thread-safe; what is left is passed on at the end of its life.
//
//   ChunkedText out([&](absl::string_view text) { console->Print(text); });
//   for (...) { absl::StrAppend(out.text(), line); out.MaybeFlush(); }

#ifndef GPUMEM_ANALYZER_BASE_TEXT_SINK_H_
#define GPUMEM_ANALYZER_BASE_TEXT_SINK_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace gpumem {

using TextSink = std::function<void(absl::string_view)>;

class ChunkedText {
 public:
  explicit ChunkedText(TextSink sink) : sink_(std::move(sink)) {}
  ~ChunkedText() { Flush(); }
  ChunkedText(const ChunkedText&) = delete;
  ChunkedText& operator=(const ChunkedText&) = delete;

  std::string* text() { return &text_; }
  void MaybeFlush() {
    if (text_.size() >= kChunk) Flush();
  }
  void Flush() {
    if (!text_.empty()) sink_(text_);
    text_.clear();
  }

 private:
  static constexpr size_t kChunk = size_t{1} << 20;

  TextSink sink_;
  std::string text_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_TEXT_SINK_H_
