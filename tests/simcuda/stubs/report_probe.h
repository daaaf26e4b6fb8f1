// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// libreport_probe.so: another preloaded library that defines PyTorch's report function, as libgpumemshim.so does. It
// counts calls and passes them on, to the next definition if there is one. Not thread-safe: for tests alone.
#ifndef TESTS_SIMCUDA_STUBS_REPORT_PROBE_H_
#define TESTS_SIMCUDA_STUBS_REPORT_PROBE_H_

#include <cstdint>

extern "C" {
long report_probe_calls();
int64_t report_probe_last_size();
uint64_t report_probe_last_allocated();
}

#endif  // TESTS_SIMCUDA_STUBS_REPORT_PROBE_H_
