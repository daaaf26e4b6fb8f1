// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ComponentOf: to which component of a program live memory belongs: one of the model (attention, mlp, ...; rules.h),
// the loss, or, where no module holds or made it, what it serves (workspace, input, optimizer, ...). Every view and
// every format takes it from here, so that their sums agree. "other" is what is left. Pure function.
//
//   bytes[ComponentOf(attribution.modules[use.module].component, use.is_loss, use.category, use.stage)] += use.bytes;

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_COMPONENT_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_COMPONENT_H_

#include "absl/strings/string_view.h"
#include "ledger/attribution/category.h"
#include "ledger/attribution/stage.h"

namespace gpumem {

inline constexpr absl::string_view kOtherComponent = "other";
inline constexpr absl::string_view kRootComponent = "root";    // the model itself, outside of its named components
inline constexpr absl::string_view kBlockComponent = "block";  // a layer itself: what it adds to the residual stream
inline constexpr absl::string_view kLossComponent = "loss";

// `of_module`: the component of the module that holds or made it, "other" where there is none. `is_loss`: a function
// that computes a loss allocated it, or autograd's node of one, outside of any module of that loss. The result lives as
// long as `of_module`.
absl::string_view ComponentOf(absl::string_view of_module, bool is_loss, Category category, Stage stage);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_COMPONENT_H_
