// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The parts of a URL that are credentials, but for its parameters: user and password, and the paths of webhooks.
//
//   // https://me:pw@host/            user info [0, 5) of "me:pw@host/"
//   // https://hooks.slack.com/T0/x   a secret from behind "hooks.slack.com/" to the end
//
// Thread-safety: pure, no heap.

#ifndef GPUMEM_SHARED_SECRET_URLS_H_
#define GPUMEM_SHARED_SECRET_URLS_H_

#include "shared/slice.h"

namespace gpumem::format {

// `text` stands behind "://". Bytes of user and password, up to the @; 0 where there are none.
size_t UserInfoSize(Slice text);

// `text` begins with a host. Where the secret of a webhook's address begins, 0 where it is none.
size_t WebhookSecretAt(Slice text);

// Bytes up to the end of the URL.
size_t UrlSize(Slice text);

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_SECRET_URLS_H_
