// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CompiledFrames: the lines of the program that a line of generated code computes, as far as the stacks bear them out.
// Two models whose graphs are equal share one generated file, and what PyTorch says of its lines is the last one's. So
// the compiled function that the lines belong to must be on the stack outside of every generated frame; of a file where
// it is not, once, nothing is said. Not thread-safe; the StackTable must outlive it.
//
//   CompiledFrames compiled(&stacks);
//   if (const CompiledPiece* piece = compiled.At(file, line)) ...

#ifndef GPUMEM_ANALYZER_SYMBOLS_COMPILED_FRAMES_H_
#define GPUMEM_ANALYZER_SYMBOLS_COMPILED_FRAMES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "trace/stack_table.h"

namespace gpumem {

class CompiledFrames {
 public:
  explicit CompiledFrames(const StackTable* stacks) : stacks_(stacks) {}

  // nullptr where nothing is known.
  const CompiledPiece* At(const std::string& file, uint32_t line);

 private:
  void Check();
  bool IsContradicted(const std::vector<uint32_t>& frames, const SourceLine& root) const;
  bool IsCallOf(const FrameInfo& frame, const SourceLine& root) const;

  const StackTable* stacks_;
  bool is_checked_ = false;
  std::set<std::string> contradicted_;  // files
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_COMPILED_FRAMES_H_
