// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Modules: definitions of the native objects that were loaded, with their build ids, so that program counters can be
// named elsewhere and later. Ids are the numbers of base/loaded_modules.h, so what is gone by now is defined too.
//
// Thread-safety: the writer thread only. It takes the loader's list lock for the length of a walk, which nobody holds
// across a call of ours. Failure: an object that cannot be read has no build id; those past the table are left out.
//
//   modules.Update(&definitions);   // appends Definitions.modules for what is new

#ifndef GPUMEM_SHIM_WRITER_MODULES_H_
#define GPUMEM_SHIM_WRITER_MODULES_H_

#include <cstdint>

#include "shim/base/proto_writer.h"

namespace gpumemshim::writer {

class Modules {
 public:
  // Cheap where nothing was loaded since the last call.
  void Update(ProtoWriter* definitions);

 private:
  uint32_t defined_ = 0;
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_MODULES_H_
