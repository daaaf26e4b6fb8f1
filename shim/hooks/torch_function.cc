// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/torch_function.h"

#include "shim/base/calls/real.h"
#include "shim/base/calls/scope.h"
#include "shim/base/memory_checkers.h"
#include "shim/base/symbol_lookup.h"

namespace gpumemshim::hooks {

void* TorchFunction::Search(const void* known) {
  if (known == Nowhere()) return nullptr;
  const calls::ErrnoSaver saver;
  BypassMemoryCheckers();
  void* found = calls::NextInScope(name_);
  if (found == nullptr) found = FindInLoaded(library_, name_);
  found_.store(found != nullptr ? found : Nowhere(), std::memory_order_release);
  return found;
}

}  // namespace gpumemshim::hooks
