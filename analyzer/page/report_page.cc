// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "page/report_page.h"

#include "views/fill_page.h"

// report_page.S
extern "C" const char gpumem_report_page_begin[], gpumem_report_page_end[];

namespace gpumem {

std::string ReportPage(absl::string_view data) {
  const auto size = static_cast<size_t>(gpumem_report_page_end - gpumem_report_page_begin);
  return FillPage(absl::string_view(gpumem_report_page_begin, size), data);
}

}  // namespace gpumem
