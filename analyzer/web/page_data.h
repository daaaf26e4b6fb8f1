// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The data of one trace in a page of `gpumemshim html`: what PagePass found, as columns, and beside it the answers of
// other commands as their --json has them, so that the page shows the same numbers. report_page/ reads it; docs/json.md
// describes each field.
//
//   PageInput input{loaded.get(), &pass, {{"report", ToJson(ReportAnswer(loaded->input, {}, false, 20))}}};
//   ReportPage(PackedData(PageData({input}, "", "gpumemshim 0.1.0")));

#ifndef GPUMEM_ANALYZER_WEB_PAGE_DATA_H_
#define GPUMEM_ANALYZER_WEB_PAGE_DATA_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "ledger/load/load_trace.h"
#include "web/page_pass.h"

namespace gpumem {

struct PageInput {
  LoadedTrace* loaded = nullptr;
  PagePass* pass = nullptr;
  std::vector<std::pair<std::string, std::string>> answers;  // command, what its --json says
};

// One JSON object: {"schema_version", "generator", "diff", "traces": [one of each input], "words"}. `diff`: what
// `gpumemshim diff
// --json` says of two traces, "" = nothing.
std::string PageData(const std::vector<PageInput>& traces, absl::string_view diff, absl::string_view generator);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_PAGE_DATA_H_
