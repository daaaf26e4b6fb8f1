// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/flame_page.h"

#include "render/fill_page.h"

// flame_page.S
extern "C" const char gpumem_flame_page_begin[], gpumem_flame_page_end[];

namespace gpumem {

std::string FlamePage(absl::string_view data) {
  const auto size = static_cast<size_t>(gpumem_flame_page_end - gpumem_flame_page_begin);
  return FillPage(absl::string_view(gpumem_flame_page_begin, size), data);
}

}  // namespace gpumem
