// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One GPU's memory timeline as PyTorch's profiler exports it to *.raw.json.gz (export_memory_timeline) and Holistic
// Trace Analysis reads it (hta.memory_analysis.MemoryAnalysis): [time in ns, action, bytes, category] for each block,
// bytes negative where it is freed, gzipped. At each instant the entries before add up to what was allocated.
//
//   ExportRequest request;
//   GPUMEM_ASSIGN_OR_RETURN(const ExportResult result, ExportHta(request, loaded, sink, more));
//
// Not thread-safe. Memory: what is alive, and one byte an event. Fails where the trace cannot be read again.

#ifndef GPUMEM_ANALYZER_EXPORT_HTA_H_
#define GPUMEM_ANALYZER_EXPORT_HTA_H_

#include <functional>
#include <memory>

#include "absl/strings/string_view.h"
#include "base/text_sink.h"
#include "export/exporter.h"

namespace gpumem {

// Of `request.device`, or, where that is -1, of the one with the largest peak.
absl::StatusOr<ExportResult> ExportHta(const ExportRequest& request, LoadedTrace* loaded, TextSink sink,
                                       const std::function<bool()>& more);

// GzipText: text that goes to a sink as one gzip member, piece by piece. Not thread-safe; Finish once at the end, else
// readers find the file cut.
//
//   GzipText gzip(sink);
//   gzip.Write("[1, 2]");
//   gzip.Finish();
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

#endif  // GPUMEM_ANALYZER_EXPORT_HTA_H_
