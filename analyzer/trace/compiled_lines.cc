// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/compiled_lines.h"

#include <iterator>
#include <utility>

#include "gpumem/trace.pb.h"
#include "trace/limits.h"

namespace gpumem {
namespace {

// Of a piece; further callers are left out.
constexpr uint32_t kMostSources = 16;

bool IsText(const trace::CompiledFile& file, uint32_t number) {
  return number != 0 && number <= static_cast<uint32_t>(file.text_size());
}

}  // namespace

absl::Status CompiledLines::Add(const trace::CompiledFile& file) {
  const absl::Status broken = absl::DataLossError("a generated file whose columns do not fit each other");
  if (file.depth_size() != file.line_size() || file.nn_module_size() != file.line_size() ||
      file.source_line_size() != file.source_file_size() || file.source_function_size() != file.source_file_size())
    return broken;
  std::map<uint32_t, CompiledPiece>& pieces = files_[ClippedName(file.file())];
  const auto before = static_cast<uint32_t>(texts_.size());
  for (const std::string& text : file.text()) texts_.push_back(ClippedName(text));
  int source = 0;
  for (int i = 0; i < file.line_size(); ++i) {
    CompiledPiece piece;
    piece.nn_module = file.nn_module(i);
    if (file.depth(i) > static_cast<uint32_t>(file.source_file_size() - source)) return broken;
    for (uint32_t depth = 0; depth < file.depth(i); ++depth, ++source) {
      if (!IsText(file, file.source_file(source)) || !IsText(file, file.source_function(source))) return broken;
      if (depth >= kMostSources) continue;
      piece.sources.push_back(
          {before + file.source_file(source) - 1, before + file.source_function(source) - 1, file.source_line(source)});
    }
    pieces.insert_or_assign(file.line(i), std::move(piece));
  }
  return absl::OkStatus();
}

const CompiledPiece* CompiledLines::At(const std::string& file, uint32_t line) const {
  const auto found = files_.find(file);
  if (found == files_.end()) return nullptr;
  const auto after = found->second.upper_bound(line);
  if (after == found->second.begin()) return nullptr;
  const CompiledPiece& piece = std::prev(after)->second;
  return piece.sources.empty() ? nullptr : &piece;
}

}  // namespace gpumem
