// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A sample as one packet of proto/gpumem/trace.proto. Stateless.

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_ENCODE_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_ENCODE_H_

#include "shim/base/proto_writer.h"
#include "shim/witness/sampler/sample.h"

namespace gpumemshim::sampler {

void EncodePacket(const Sample& sample, ProtoWriter* w);

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_ENCODE_H_
