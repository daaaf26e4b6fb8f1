/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * What every stub library shares: fresh handles, settings from the environment, the call log, and the way to the
 * simulated driver. C and C++; compiled into each library, hidden, needing libc alone.
 *
 * Thread-safety: all functions may be called from any thread. Ownership: a handle from stub_handle() belongs to the
 * caller until stub_release(). Failure: out of host memory gives a null handle, an unknown setting its default.
 *
 *   STUB_API int cufooCreate(void** handle) { *handle = stub_handle(); return 0; }
 */
#ifndef SIMCUDA_STUBS_STUB_H_
#define SIMCUDA_STUBS_STUB_H_

#include <stddef.h>
#include <stdint.h>

#include "simcuda/base/workspace_ask.h"

/* The version of CUDA that the library belongs to; what serves both belongs to the newer. */
#ifdef STUB_CUDA12
#define STUB_CUDA_MAJOR 12
#else
#define STUB_CUDA_MAJOR 13
#endif

#ifdef __cplusplus
#define STUB_API extern "C" __attribute__((visibility("default")))
extern "C" {
#else
#define STUB_API __attribute__((visibility("default")))
#endif

/* Zeroed memory of 256 bytes, so that a caller who peeks reads zeros. */
void* stub_handle(void);
void stub_release(void* handle);

/* The bytes that `variable` asks for: digits with an optional K, M or G (powers of 1024). */
size_t stub_setting(const char* variable, size_t otherwise);

/* The bytes that an operation of `library` needs: what `variable` says, else what the driver's table of measured sizes
 * or the bound says (simcuda/base/workspace_ask.h); 0 where neither does. `version`: null for one of CUDA's own
 * libraries. */
size_t stub_workspace(const char* variable, const char* library, const char* version, const char* operation,
                      const char* parameters, uint64_t bound);

/* The same for generated code, whose parameters are the numbers in `values`. The second counts elements of `unit`
 * bytes, as `variable` and `bound` do; the third is the size of a cudaDataType. */
size_t stub_sized(const char* variable, const char* library, const char* operation, const long* values, int count,
                  uint64_t bound);
int stub_elements(const char* variable, const char* library, const char* operation, const long* values, int count,
                  uint64_t bound, size_t unit);
size_t stub_type_bytes(long type);

/* Says once on stderr that a library function was called, if SIMCUDA_VERBOSE is set. */
void stub_note(const char* function);

/* Addresses in the simulated driver or runtime, loading it if it is not loaded yet; null if it lacks the name. */
void* stub_driver(const char* name);
void* stub_driver_if_loaded(const char* name);

/* Copies device memory in stream order. Returns the driver's result. */
int stub_copy(void* to, const void* from, size_t bytes, void* stream);

#ifdef __cplusplus
}
#endif
#endif
