// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Credentials that are known by their form: what services hand out begins, or is built, in a way of its own, so that
// scanners find it. Which services and which forms: their documentation, and the published rules of gitleaks
// (github.com/gitleaks/gitleaks, config/gitleaks.toml); table and code are our own, and wider on purpose, since a
// credential may be cut or of a newer length.
//
//   CredentialSize("hf_AbCd...")          // its length
//   CredentialSize("hf_internal_testing") // 0
//
// Thread-safety: pure, no heap. Time: linear in the credential.

#ifndef GPUMEM_SHARED_SECRET_SHAPES_H_
#define GPUMEM_SHARED_SECRET_SHAPES_H_

#include "shared/slice.h"

namespace gpumem::format {

// Bytes of the credential of a known kind that `text` begins with; 0 where it begins with none.
size_t CredentialSize(Slice text);

// The same of a password as /etc/shadow, htpasswd and LDAP keep it: $6$salt$..., $2b$12$..., {SSHA}...
size_t PasswordHashSize(Slice text);

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_SECRET_SHAPES_H_
