// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How the helper looks at the program's objects: by functions of Python's C API that run no code of the program (no
// method, property, metaclass, audit hook, trace function, signal handler or garbage collection), where Python's own
// functions of these names would.
//
//   record.is_a(object, class)     by its type and that type's bases alone
//   record.address(object)         id(), whatever the program made of `id`
//   record.modules()               the interpreter's own sys.modules
//   record.code(function)          of a plain Python function, else None
//   record.calls(code)             for each thread the frames that run this code, outermost first
//   record.callers()               the code of this thread's frames, innermost first
//   record.read(getters, object)   what each of the getters returns, None where one fails; the first of them makes a
//   guard
//                                  (torch._C.DisableTorchFunction) or is None
//   record.attribute(object, name) as object.__getattribute__, None without one: of its own, where no class defines it
//   record.instances(class)        objects of a class that the garbage collector knows; None where they are too many
//   record.reference(object, number, ended)   a weak reference; at the object's end the recorder forgets its address,
//   and
//                                  the number is appended to the list `ended`. None where it cannot have one
//   record.quietly(function, arguments)       a call that trace and profile functions do not see (CPython 3.11 and
//   later) record.clock()                 monotonic time in ns
//   record.work()                         the same for limits of this thread's work (WorkNs)
//
// Thread-safety: with the GIL held. Failure: as above; only a wrong call, and what `function` raises, is an exception.

#ifndef GPUMEM_SHIM_PYTHON_OBJECTS_H_
#define GPUMEM_SHIM_PYTHON_OBJECTS_H_

#include "shim/python/api.h"

namespace gpumemshim::python {

// Adds the functions to `record`. False: Python's error is set.
bool AddObjectFunctions(const Api* api, Object* record);

// record.instances(class); of None: all objects that the collector knows.
Object* Instances(Object*, Object* arguments);

// Objects that die and are made meanwhile start no collection, whose finalizers would run under a guard of ours.
class CollectorOff {
 public:
  CollectorOff();
  CollectorOff(const CollectorOff&) = delete;
  CollectorOff& operator=(const CollectorOff&) = delete;
  ~CollectorOff();

 private:
  bool was_on_;
};

// Calls where neither trace nor profile functions see it.
Object* CallQuietly(const Api* api, Object* function, Object* arguments);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_OBJECTS_H_
