// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A built page (cmake/GpumemEmbedPage.cmake) with its data. Pure function.
//
//   FillPage(page, R"({"some":"data"})");   // in the place of @DATA@

#ifndef GPUMEM_ANALYZER_RENDER_FILL_PAGE_H_
#define GPUMEM_ANALYZER_RENDER_FILL_PAGE_H_

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// `data` must hold no `<`, which could end the script that it stands in.
inline std::string FillPage(absl::string_view page, absl::string_view data) {
  constexpr absl::string_view kPlace = "@DATA@";
  const size_t at = page.find(kPlace);
  if (at == absl::string_view::npos || data.find('<') != absl::string_view::npos) abort();  // a bug of ours
  return absl::StrCat(page.substr(0, at), data, page.substr(at + kPlace.size()));
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_FILL_PAGE_H_
