// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/stack_importer.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace gpumem {
namespace {

constexpr size_t kDeepest = 1024;  // as the reader shows
constexpr int64_t kLastLine = 1 << 30;
constexpr size_t kLongestFrameName = 1024;  // so that the frames of one stack fit into what readers take at once

}  // namespace

bool IsPythonFile(absl::string_view file) {
  if (file.empty() || file == "??") return false;
  if (file[0] == '<') return true;  // <string>, <frozen importlib._bootstrap>
  for (const absl::string_view ending : {".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".cuh", ".inl", ".S"}) {
    if (absl::EndsWith(file, ending)) return false;
  }
  const absl::string_view base = file.substr(file.rfind('/') + 1);
  if (absl::EndsWith(base, ".py")) return true;
  return !absl::StrContains(base, ".so") && absl::StrContains(file, '/') && absl::StrContains(base, '.');
}

StackImporter::StackImporter(const PickleTree* tree, DefinitionBuilder* definitions)
    : tree_(tree),
      definitions_(definitions),
      filename_(tree->Key("filename")),
      name_(tree->Key("name")),
      line_(tree->Key("line")) {}

uint32_t StackImporter::Frame(PickleValue frame) {
  if (frame.type() != PickleValue::Type::kDict || tree_->Items(frame).empty()) return 0;
  const auto [known, is_new] = frames_.try_emplace(tree_->Items(frame).data());
  if (!is_new) return known->second;
  const auto text = [&](const std::optional<PickleValue>& key) {
    const PickleValue* const value = tree_->Find(frame, key);
    return value == nullptr ? absl::string_view() : tree_->Text(*value).substr(0, kLongestFrameName);
  };
  const absl::string_view file = text(filename_), name = text(name_);
  if (file.empty() && name.empty()) return 0;
  const PickleValue* const number = tree_->Find(frame, line_);
  const int64_t line = number == nullptr ? 0 : tree_->Int(*number).value_or(0);
  const auto shown = static_cast<uint32_t>(std::clamp<int64_t>(line, 0, kLastLine));
  known->second = IsPythonFile(file) ? definitions_->PythonFrame(file, name, shown)
                                     : definitions_->NativeFrame(file == "??" ? "" : file, name, shown);
  return known->second;
}

uint64_t StackImporter::Stack(PickleValue frames) {
  absl::Span<const PickleValue> list = tree_->Items(frames);
  if (!frames.is_sequence() || list.empty()) return 0;
  const auto [known, is_new] = stacks_.try_emplace(list.data());
  if (!is_new) return known->second;
  list = list.subspan(0, std::min(list.size(), kDeepest));
  uint64_t stack = 0;
  for (size_t i = list.size(); i-- > 0;) {
    if (const uint32_t frame = Frame(list[i]); frame != 0) stack = definitions_->Stack(stack, frame);
  }
  return known->second = stack;
}

}  // namespace gpumem
