// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whose order of addresses a simulated device follows: that of NVIDIA's driver on Linux, or of the one under WSL2.
#ifndef SIMCUDA_BASE_ADDRESS_ORDER_H_
#define SIMCUDA_BASE_ADDRESS_ORDER_H_

namespace simcuda {

enum class AddressOrder { kLinux, kWsl2 };

}  // namespace simcuda

#endif  // SIMCUDA_BASE_ADDRESS_ORDER_H_
