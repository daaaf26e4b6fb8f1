// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// GzipText: text that goes to a sink as one gzip member, piece by piece. Not thread-safe; Finish once at the end, else
// readers find the file cut.
//
//   GzipText gzip(sink);
//   gzip.Write("[1, 2]");
//   gzip.Finish();

#ifndef GPUMEM_ANALYZER_EXPORT_GZIP_TEXT_H_
#define GPUMEM_ANALYZER_EXPORT_GZIP_TEXT_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "base/text_sink.h"

namespace gpumem {

class GzipText {
 public:
  explicit GzipText(TextSink sink);
  ~GzipText();
  GzipText(const GzipText&) = delete;
  GzipText& operator=(const GzipText&) = delete;

  void Write(absl::string_view text) { Deflate(text, false); }
  void Finish() { Deflate("", true); }

 private:
  struct Stream;
  void Deflate(absl::string_view text, bool is_last);

  TextSink sink_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_GZIP_TEXT_H_
