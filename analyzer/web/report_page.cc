// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/report_page.h"

#include "absl/strings/str_replace.h"
#include "render/fill_page.h"

// report_page.S
extern "C" const char gpumem_report_page_begin[], gpumem_report_page_end[];

namespace gpumem {

absl::string_view ReportPageSource() {
  return {gpumem_report_page_begin, static_cast<size_t>(gpumem_report_page_end - gpumem_report_page_begin)};
}

std::string ReportPage(absl::string_view data, absl::string_view language) {
  return FillPage(ReportPageSource(), data, language);
}

std::string ServedReportPage(absl::string_view language) {
  // Both stand once in page.html; a script has no `<`.
  return absl::StrReplaceAll(
      FillPage(ReportPageSource(), "", language),
      {{"default-src 'none';", "default-src 'none'; connect-src 'self';"}, {"<body>", "<body data-served=\"yes\">"}});
}

}  // namespace gpumem
