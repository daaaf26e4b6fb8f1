// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The C library's own functions, whoever stands in front of them. Sanitizers, and preloads of all kinds, define
// functions by the C library's names and look up its own by dlsym, which is ours: before that has answered theirs must
// not be called. So nothing is called here; the loader's list of objects is walked from where the program's dynamic
// section says that it begins (DT_DEBUG), as debuggers do.
//
// Thread-safety: any thread, without a lock: objects that the program was started with come first and stay, and the
// walk ends at the C library. Failure: nullptr, for a library that is found by other names.
//
//   auto iterate = reinterpret_cast<decltype(&dl_iterate_phdr)>(c_library::Find("dl_iterate_phdr"));

#ifndef GPUMEM_SHIM_BASE_C_LIBRARY_H_
#define GPUMEM_SHIM_BASE_C_LIBRARY_H_

namespace gpumemshim::c_library {

void* Find(const char* name);

}  // namespace gpumemshim::c_library

#endif  // GPUMEM_SHIM_BASE_C_LIBRARY_H_
