// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Puts the sampler (sampler/sampler.h) to work: which devices, which questions to CUDA, which words on stderr.
//
// Thread-safety: ConfigureSampling and FinishSampling by control, one at a time; DescribeAndSampleDevice on the writer
// thread. Failure: no samples.

#ifndef GPUMEM_SHIM_CONTROL_SAMPLING_H_
#define GPUMEM_SHIM_CONTROL_SAMPLING_H_

#include <cstdint>

#include "shim/settings/settings.h"
#include "shim/witness/sampler/sampler.h"
#include "shim/writer/writer.h"

namespace gpumemshim::control {

void ConfigureSampling(const Settings& settings);

// DescribeDevice, and the device is sampled from now on.
bool DescribeAndSampleDevice(int16_t device, writer::DeviceInfo* info);

// Registered with atexit, too: NVML's own destructors run before ours and must not find a question in progress.
void FinishSampling();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SAMPLING_H_
