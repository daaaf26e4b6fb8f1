// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Versions and devices, asked for on the writer thread when something is to be written: by then the driver is up, and
// the host is not kept waiting. Only functions that need no context and change nothing are called.
//
// Thread-safety: the writer thread only. Ownership: texts stay valid until the next call of the same function.
// Failure: what is not known is left out and asked for again.

#ifndef GPUMEM_SHIM_CONTROL_VERSIONS_H_
#define GPUMEM_SHIM_CONTROL_VERSIONS_H_

#include <cstddef>
#include <cstdint>

#include "shim/writer/writer.h"

namespace gpumemshim::control {

// "driver", "runtime", "python", "torch", "unwinder", "python_frames" where they are refused, "python_helper" where it
// failed: those not handed over since the last ForgetVersions.
uint32_t NewVersions(writer::KeyValue* out, uint32_t capacity);
void ForgetVersions();

bool DescribeDevice(int16_t device, writer::DeviceInfo* info);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_VERSIONS_H_
