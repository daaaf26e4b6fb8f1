// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/flame_page.h"

#include "render/fill_page.h"

// flame_page.S
extern "C" const char gpumem_flame_page_begin[], gpumem_flame_page_end[];

namespace gpumem {

absl::string_view FlamePageSource() {
  return {gpumem_flame_page_begin, static_cast<size_t>(gpumem_flame_page_end - gpumem_flame_page_begin)};
}

std::string FlamePage(absl::string_view data, absl::string_view language) {
  return FillPage(FlamePageSource(), data, language);
}

}  // namespace gpumem
