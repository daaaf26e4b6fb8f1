// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The recorder as helper.py sees it: the object `record` and its functions.
//
// Thread-safety: with the GIL held. Failure: nullptr with Python's error set.

#ifndef GPUMEM_SHIM_PYTHON_NATIVES_H_
#define GPUMEM_SHIM_PYTHON_NATIVES_H_

#include "shim/python/api.h"

namespace gpumemshim::python {

Object* MakeRecord(const Api* api);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_NATIVES_H_
