// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// MarkSearch: which mark a MomentQuery means. It receives all marks, in order; the last one that it took is the one.

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_MARK_SEARCH_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_MARK_SEARCH_H_

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "ledger/attribution/attribution.h"

namespace gpumem {

class MarkSearch {
 public:
  // The first one with the whole text, else the first to which the program added something in parentheses; of a given
  // time, where `moment` has one. `text` is the mark's.
  bool Takes(const MomentQuery& moment, uint64_t time_ns, absl::string_view text) {
    if (moment.number != 0 && time_ns != moment.number) return false;
    if (text == moment.text) {
      has_any_ = true;
      return !std::exchange(has_whole_, true);
    }
    const bool is_longer = text.size() > moment.text.size() && absl::StartsWith(text, moment.text) &&
                           absl::StartsWith(text.substr(moment.text.size()), " (");
    return is_longer && !std::exchange(has_any_, true);
  }

 private:
  bool has_any_ = false, has_whole_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_MARK_SEARCH_H_
