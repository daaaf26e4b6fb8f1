// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadPageTrace: a loaded trace with all that its part of a page, or a picture of it, is made of, in two replays. Not
// thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const PageTrace trace, ReadPageTrace(std::move(loaded), PageLimits(), "", progress));
//   PageData({trace.Input()}, "", "gpumemshim 0.1.0");

#ifndef GPUMEM_ANALYZER_WEB_PAGE_TRACE_H_
#define GPUMEM_ANALYZER_WEB_PAGE_TRACE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ledger/attribution/attribution.h"
#include "ledger/leaks/leaks.h"
#include "ledger/load/load_trace.h"
#include "web/page_data.h"
#include "web/page_pass.h"

namespace gpumem {

struct PageTrace {
  std::unique_ptr<LoadedTrace> loaded;
  std::unique_ptr<PagePass> pass;
  std::unique_ptr<LeakFindings> leaks;
  std::unique_ptr<Attribution> attribution;

  // With the answers of other commands. Valid as long as this.
  PageInput Input() const;
};

// `rules_file` as LoadedAttributor's; `progress` may be null. Errors: theirs, and what the replays say.
absl::StatusOr<PageTrace> ReadPageTrace(std::unique_ptr<LoadedTrace> loaded, const PageLimits& limits,
                                        const std::string& rules_file, const LoadProgress& progress);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_PAGE_TRACE_H_
