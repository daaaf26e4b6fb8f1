// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/torch_function.h"

#include "shim/base/memory_checkers.h"
#include "shim/base/symbol_lookup.h"
#include "shim/hooks/real.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {

void* TorchFunction::Search(const void* known) {
  if (known == Nowhere()) return nullptr;
  const ErrnoSaver saver;
  BypassMemoryCheckers();
  void* found = NextInScope(name_);
  if (found == nullptr) found = FindInLoaded(library_, name_);
  found_.store(found != nullptr ? found : Nowhere(), std::memory_order_release);
  return found;
}

}  // namespace gpumemshim::hooks
