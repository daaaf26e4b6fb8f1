// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The page of `gpumemshim html`: one HTML file without any other. Its sources are report_page/*.{html,css,js}; the
// build makes one text of them, and it is part of this program. A content security policy in it allows its own script
// and style by their hashes and nothing else. Pure function.
//
//   const std::string page = ReportPage(PackedData(PageData(traces, "", "gpumemshim 0.1.0")), "en");

#ifndef GPUMEM_ANALYZER_WEB_REPORT_PAGE_H_
#define GPUMEM_ANALYZER_WEB_REPORT_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

// The page as it was built, for the words in it.
absl::string_view ReportPageSource();

// `data` is PackedData's: it must hold no `<`. `language`: the one that it opens in, "en" or "zh"; both are in it.
std::string ReportPage(absl::string_view data, absl::string_view language);

// The page without data, for `gpumemshim serve`: it asks the place that it came from for them, and may talk to no
// other.
std::string ServedReportPage(absl::string_view language);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_REPORT_PAGE_H_
