// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Who refers to some of the program's objects, who refers to those, and so on: what Python's collector knows, without
// running code of the program (no audit hook, finalizer or other thread meanwhile: one call, with the GIL held).
//
//   record.climb(objects, ends, deadline)   (edges, outside, rest): `edges` a list of holder, object, holder,
//                                  object, ..., level by level; `outside` those that somebody refers to whom the
//                                  collector does not know (a variable of a running function, C code). Modules,
//                                  functions, classes and the objects of the list `ends` are where a way ends. `rest`
//                                  those of which it is not known who refers to them, since the time was over.
//                                  None: this Python cannot be asked, or there is no memory for it
//   record.frames()                the frames that run, of all threads; of each the innermost 1,000
//   record.still(function, arguments)       a call in which no collection begins
//
// One pass over all objects, and one over the references that it found for each level. Thread-safety: with the GIL
// held. Failure: as above; only a wrong call is an exception.

#ifndef GPUMEM_SHIM_PYTHON_CLIMB_H_
#define GPUMEM_SHIM_PYTHON_CLIMB_H_

#include "shim/python/api.h"

namespace gpumemshim::python {

// Adds the functions to `record`. False: Python's error is set.
bool AddClimbFunctions(const Api* api, Object* record);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_CLIMB_H_
