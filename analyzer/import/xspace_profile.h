// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportXSpace: what jax.profiler.trace and TensorFlow's profiler write (NAME.xplane.pb, an XSpace), as a trace: the
// MemoryAllocation and MemoryDeallocation events of XLA's allocators on GPUs ("GPU_0_bfc") and of its pinned memory of
// the host ("xla_gpu_host_bfc"). Format: tsl/profiler/protobuf/xplane.proto; stats of the events: AddTraceMe of
// tsl/framework/bfc_allocator.cc.
//
// What was allocated before is what an allocator's first event says beyond its own bytes: blocks that are freed in the
// profile are known, the rest is one block. DataLoss where it is damaged or has no such event; else errors are the
// sink's.
//
//   if (IsXSpace(source.Peek())) ImportXSpace(&source, "host.xplane.pb", sink);

#ifndef GPUMEM_ANALYZER_IMPORT_XSPACE_PROFILE_H_
#define GPUMEM_ANALYZER_IMPORT_XSPACE_PROFILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/byte_source.h"
#include "import/import.h"

namespace gpumem {

// DeviceOfAllocator: "GPU_0_bfc" is of GPU 0; "xla_gpu_host_bfc", "gpu_host_bfc" pin memory of the host; others have no
// memory of GPUs. Pure.
inline constexpr int kHostAllocator = -1, kNoAllocator = -2;
int DeviceOfAllocator(absl::string_view name);

// Begins with a plane, whose name says of what it is.
bool IsXSpace(absl::string_view begin);

absl::StatusOr<ImportResult> ImportXSpace(ByteSource* source, const std::string& path, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_XSPACE_PROFILE_H_
