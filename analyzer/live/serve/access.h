// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Who may ask `gpumemshim serve`: whoever knows its token, by a name of this machine. Other users of the machine can
// reach a port on loopback, and so can web pages in a browser, which may also have their own name lead to 127.0.0.1:
// the token stops both, the check of the name stops the latter before it. Pure, but for NewToken.
//
//   const std::string token = NewToken();                       // "5f0c...": 32 hexadecimal digits
//   IsLocalHost("127.0.0.1:8000"), IsToken(token, asked)

#ifndef GPUMEM_ANALYZER_LIVE_SERVE_ACCESS_H_
#define GPUMEM_ANALYZER_LIVE_SERVE_ACCESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// 128 bits from the kernel.
std::string NewToken();

// The token in a file: its first line, of 16 to 256 letters, digits, `-`, `_`, `.`. A file that is not there is written
// with a new one, for its owner alone.
absl::StatusOr<std::string> TokenOfFile(const std::string& path);

// Takes as long for each wrong one of a length.
bool IsToken(absl::string_view token, absl::string_view asked);

// Whether a request's Host names this machine's loopback, with or without a port.
bool IsLocalHost(absl::string_view host);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_ACCESS_H_
