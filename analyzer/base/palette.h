// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The one palette of pages, plots and sweeps: 24 fills, four hatches of six colours. Fills of one hatch differ in
// lightness, so that any eye tells them apart, and so does grey paper; colours of the first two rows are near those of
// Okabe and Ito, "Color Universal Design", 2008. tests/e2e/page_views_test.py measures it. Constant.
//
//   kPalette[3].rgb   // 0xe69f00

#ifndef GPUMEM_ANALYZER_BASE_PALETTE_H_
#define GPUMEM_ANALYZER_BASE_PALETTE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gpumem {

struct Fill {
  uint32_t rgb = 0;  // 0xRRGGBB
  absl::string_view hatch;
};

// Neighbours are far apart, since pictures take them in this order.
inline constexpr Fill kPalette[] = {
    {0x0072b2, "plain"},   {0xe69f00, "plain"},   {0x009e73, "plain"},   {0xd98cb8, "rising"},  {0x93cdf3, "rising"},
    {0xd55e00, "rising"},  {0xf0e442, "plain"},   {0x7a5195, "rising"},  {0x2f4b7c, "plain"},   {0x8a6d2b, "falling"},
    {0x8ccfc9, "falling"}, {0x8c8c8c, "crossed"}, {0xcdc3b7, "crossed"}, {0x4f9a48, "falling"}, {0xf2b5d4, "plain"},
    {0x701f1f, "rising"},  {0x5f6b7a, "crossed"}, {0xf6dcc8, "rising"},  {0x5b3f30, "falling"}, {0xd09a9a, "falling"},
    {0xb09ad8, "crossed"}, {0xe4e6b8, "falling"}, {0x3a3a5e, "crossed"}, {0xdcefe0, "crossed"},
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_PALETTE_H_
