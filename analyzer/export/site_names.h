// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SiteNames: the line of the program that a stack stands for, looked up once a stack. Memory: one text a stack. Not
// thread-safe; the trace must outlive it.
//
//   SiteNames sites(loaded);
//   sites.Of(row.stack)   // "train.py:42 Block.forward"

#ifndef GPUMEM_ANALYZER_EXPORT_SITE_NAMES_H_
#define GPUMEM_ANALYZER_EXPORT_SITE_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "ledger/load/load_trace.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {

class SiteNames {
 public:
  explicit SiteNames(LoadedTrace* loaded) : loaded_(loaded) {}

  // "" where no stack was recorded.
  const std::string& Of(uint64_t stack_id) {
    const auto [it, is_new] = names_.try_emplace(stack_id);
    if (is_new && stack_id != 0)
      it->second = ViewStack(loaded_->source->Frames(stack_id), "", loaded_->analysis.process.working_directory).site;
    return it->second;
  }

 private:
  LoadedTrace* loaded_;
  absl::flat_hash_map<uint64_t, std::string> names_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_SITE_NAMES_H_
