// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/modules.h"

#include <unistd.h>

#include "shim/base/loaded_modules.h"
#include "shim/writer/fields.h"

namespace gpumemshim::writer {
namespace {

void Define(uint32_t number, ProtoWriter* out) {
  const modules::Module& module = modules::At(number);
  char executable[4096];
  const char* path = module.path;
  if (path[0] == '\0' && number == 1) {  // the program itself has no name in the loader's list, and stands first
    const ssize_t size = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
    executable[size > 0 ? size : 0] = '\0';
    path = executable;
  }
  const size_t mark = out->Open(fields::Definitions::kModules);
  out->Varint(fields::Module::kId, number);
  out->StringIf(fields::Module::kPath, path);
  if (module.build_id_bytes != 0) out->Bytes(fields::Module::kBuildId, module.build_id, module.build_id_bytes);
  out->VarintIf(fields::Module::kLoadBias, module.load_bias);
  out->Varint(fields::Module::kStart, module.start);
  out->Varint(fields::Module::kEnd, module.end);
  out->VarintIf(fields::Module::kTimeNs, module.time_ns);
  out->Close(mark);
}

}  // namespace

void Modules::Update(ProtoWriter* definitions) {
  if (modules::MayHaveChanged()) modules::Look();
  for (const uint32_t count = modules::Count(); defined_ < count;) Define(++defined_, definitions);
}

}  // namespace gpumemshim::writer
