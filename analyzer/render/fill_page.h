// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A built page (cmake/GpumemEmbedPage.cmake) with its data. Pure function.
//
//   FillPage(page, R"({"some":"data"})", "en");   // in the place of @DATA@; the language that the page opens in

#ifndef GPUMEM_ANALYZER_RENDER_FILL_PAGE_H_
#define GPUMEM_ANALYZER_RENDER_FILL_PAGE_H_

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// `data` must hold no `<`, which could end the script that it stands in.
inline std::string FillPage(absl::string_view page, absl::string_view data, absl::string_view language) {
  constexpr absl::string_view kPlace = "@DATA@", kLanguage = "<html lang=\"en\">";
  const size_t head = page.find(kLanguage), at = page.find(kPlace);
  const bool is_whole = head < at && at != absl::string_view::npos;
  if (!is_whole || data.find('<') != absl::string_view::npos) abort();  // a bug of ours
  const size_t body = head + kLanguage.size();
  return absl::StrCat(page.substr(0, head), "<html lang=\"", language, "\">", page.substr(body, at - body), data,
                      page.substr(at + kPlace.size()));
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_FILL_PAGE_H_
