// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportDeviceMemoryProfile: what jax.profiler.save_device_memory_profile writes (a pprof profile, packed with gzip) as
// a trace of one moment. Its samples are stacks of Python with the count and the bytes of the buffers that were made
// there and are alive, labelled with their device ("cuda:0"); format: pprof's profile.proto, labels: XLA's
// python/heap_profile and pprof_profile_builder. Buffers of the CPU, and compiled programs, which are on no named
// device, are left out and counted.
//
// DataLoss where it is no such profile or has no buffer of an accelerator; else errors are the sink's.
//
//   if (IsDeviceMemoryProfile(source.Peek())) ImportDeviceMemoryProfile(&source, "memory.prof", sink);

#ifndef GPUMEM_ANALYZER_IMPORT_DEVICE_MEMORY_PROFILE_H_
#define GPUMEM_ANALYZER_IMPORT_DEVICE_MEMORY_PROFILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/byte_source.h"
#include "import/import.h"

namespace gpumem {

// Begins as a pprof profile does: with the type of its first value.
bool IsDeviceMemoryProfile(absl::string_view begin);

absl::StatusOr<ImportResult> ImportDeviceMemoryProfile(ByteSource* source, const std::string& path,
                                                       TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_DEVICE_MEMORY_PROFILE_H_
