// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Modules: which native objects are loaded, with their build ids, so that program counters can be named elsewhere and
// later.
//
// Thread-safety: the writer thread only. It takes the loader's list lock for the length of a walk, which nobody holds
// across a call of ours. Failure: an object that cannot be read has no build id; without memory objects are left out.
//
//   modules.Update(&definitions, now_ns);   // appends Definitions.modules for what is new

#ifndef GPUMEM_SHIM_WRITER_MODULES_H_
#define GPUMEM_SHIM_WRITER_MODULES_H_

#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/base/proto_writer.h"

struct dl_phdr_info;

namespace gpumemshim::writer {

class Modules {
 public:
  // Cheap where nothing was loaded or unloaded since the last call. What is new is dated from that last call: it was
  // loaded after it, and the stacks that go out with this definition may already use it.
  void Update(ProtoWriter* definitions, uint64_t now_ns);

 private:
  struct Module {
    uint64_t start;
    uint64_t path_hash;
    bool seen;
  };
  struct Walk {
    Modules* self;
    ProtoWriter* out;
    bool first;
    bool unchanged;
  };

  static int Visit(dl_phdr_info* info, size_t size, void* data);
  void Add(const dl_phdr_info& info, ProtoWriter* out);

  Array<Module> known_;
  uint64_t loads_ = 0;
  uint64_t unloads_ = 0;
  uint64_t checked_ns_ = 0;
  uint32_t last_id_ = 0;
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_MODULES_H_
