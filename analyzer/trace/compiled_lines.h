// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CompiledLines: which lines of the program the lines of files stand for that torch.compile generated. A file is cut
// into pieces, each from its first line to before the next piece's. Copyable value; not thread-safe while filled.
// nullptr where nothing is known: of files that nobody described, before their first piece, and of pieces without
// source lines.
//
//   const CompiledPiece* piece = compiled_lines.At(frame.file, frame.line);
//   if (piece != nullptr) Print(compiled_lines.text(piece->sources.front().file));

#ifndef GPUMEM_ANALYZER_TRACE_COMPILED_LINES_H_
#define GPUMEM_ANALYZER_TRACE_COMPILED_LINES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gpumem {
namespace trace {
class CompiledFile;
}

struct SourceLine {
  uint32_t file = 0, function = 0;  // numbers of texts
  uint32_t line = 0;
};

struct CompiledPiece {
  std::vector<SourceLine> sources;  // innermost first
  uint32_t nn_module = 0;           // the module that they run in, or one that contains it; 0 = not known
};

class CompiledLines {
 public:
  // DataLoss where the columns differ in length or name a text that is not there.
  absl::Status Add(const trace::CompiledFile& file);

  const CompiledPiece* At(const std::string& file, uint32_t line) const;
  bool Has(const std::string& file) const { return files_.count(file) != 0; }
  const std::string& text(uint32_t number) const { return texts_[number]; }

  // To keep it in a file and take it from there (ledger/saved/archive.h).
  template <typename Archive, typename Self>
  static void VisitFieldsOf(Archive& archive, Self& self) {
    archive(self.files_, self.texts_);
  }

 private:
  std::map<std::string, std::map<uint32_t, CompiledPiece>> files_;  // by path and first line
  std::vector<std::string> texts_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_COMPILED_LINES_H_
