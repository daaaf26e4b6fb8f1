// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where the control sockets of a user's processes may lie (shim/control/server/control_socket.cc chooses), and why a
// process has none: in its own files, what its library would have said.
//
// Thread-safety: pure, but for the environment and files. Failure: WhyNoSocket says the least that is sure.
//
//   for (const std::string& directory : ControlPlaces(uid)) ...
//   return absl::NotFoundError(WhyNoSocket(pid, uid));

#ifndef GPUMEM_ANALYZER_LIVE_CONTROL_PLACES_H_
#define GPUMEM_ANALYZER_LIVE_CONTROL_PLACES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gpumem {

// Most likely first.
std::vector<std::string> ControlPlaces(uint32_t uid);

// True where only `uid` can make files in the directory, which is not a link.
bool IsPlaceOf(const std::string& directory, uint32_t uid);

// "it runs without libgpumemshim.so", for example.
std::string WhyNoSocket(int pid, uint32_t uid);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_CONTROL_PLACES_H_
