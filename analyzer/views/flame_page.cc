// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "views/flame_page.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

// flame_page.S
extern "C" const char gpumem_flame_page_begin[], gpumem_flame_page_end[];

namespace gpumem {

std::string FlamePage(absl::string_view data) {
  constexpr absl::string_view kPlace = "@DATA@";
  const absl::string_view page(gpumem_flame_page_begin,
                               static_cast<size_t>(gpumem_flame_page_end - gpumem_flame_page_begin));
  const size_t at = page.find(kPlace);
  if (at == absl::string_view::npos || data.find('<') != absl::string_view::npos) abort();  // a bug of ours
  return absl::StrCat(page.substr(0, at), data, page.substr(at + kPlace.size()));
}

}  // namespace gpumem
