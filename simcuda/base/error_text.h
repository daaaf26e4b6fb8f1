// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The words for error codes, shared by the driver and the runtime, whose codes have the same numbers and meanings.
// Thread-safety: pure functions; the result lives as long as the process.
#ifndef SIMCUDA_BASE_ERROR_TEXT_H_
#define SIMCUDA_BASE_ERROR_TEXT_H_

namespace simcuda {

// A short description, or null for a code without one.
const char* ErrorText(int code);

}  // namespace simcuda

#endif  // SIMCUDA_BASE_ERROR_TEXT_H_
