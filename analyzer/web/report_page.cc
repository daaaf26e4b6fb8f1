// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/report_page.h"

#include "absl/strings/str_replace.h"
#include "render/fill_page.h"

// report_page.S
extern "C" const char gpumem_report_page_begin[], gpumem_report_page_end[];

namespace gpumem {

namespace {

absl::string_view EmbeddedReportPage() {
  return {gpumem_report_page_begin, static_cast<size_t>(gpumem_report_page_end - gpumem_report_page_begin)};
}

}  // namespace

std::string ReportPage(absl::string_view data) { return FillPage(EmbeddedReportPage(), data); }

std::string ServedReportPage() {
  // Both stand once in page.html; a script has no `<`.
  return absl::StrReplaceAll(
      FillPage(EmbeddedReportPage(), ""),
      {{"default-src 'none';", "default-src 'none'; connect-src 'self';"}, {"<body>", "<body data-served=\"yes\">"}});
}

}  // namespace gpumem
