// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where a webhook may go: an http or https address whose host is on a list that the user wrote. This machine itself is
// always on it. Redirects are not followed. The request is made by curl, so that TLS and proxies are as everywhere else
// on the machine. Pure functions.
//
//   GPUMEM_RETURN_IF_ERROR(CheckWebhook("https://hooks.example.org/T1", {"hooks.example.org"}));

#ifndef GPUMEM_ANALYZER_LIVE_WATCH_WEBHOOK_H_
#define GPUMEM_ANALYZER_LIVE_WATCH_WEBHOOK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Lower case, without user, port and path; "" where it is not an http or https address.
std::string WebhookHost(absl::string_view url);

// InvalidArgument, with the flag to give, where it may not go there.
absl::Status CheckWebhook(absl::string_view url, const std::vector<std::string>& hosts);

// The command that posts, and what it reads on standard input: the address is a secret, and arguments are seen by
// everybody on the machine.
std::vector<std::string> WebhookCommand();
std::string WebhookInput(absl::string_view url, absl::string_view json, double timeout_s);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_WATCH_WEBHOOK_H_
