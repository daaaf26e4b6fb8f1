// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/calls/scope.h"

namespace gpumemshim::calls {

constinit thread_local unsigned char t_depth = 0;

}  // namespace gpumemshim::calls
