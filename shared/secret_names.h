// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the name of an option, variable, header or field says about its value. Names are split into words at anything
// that is not a letter or digit and at changes of case, so that --secretKey, SECRET_KEY, secret-key and aws.secret.key
// are one.
//
//   ClassifyName("--hf-token", kOption)            // kSecret
//   ClassifyName("--max-tokens", kOption)          // kPlain
//   ClassifyName("--pad-token-id", kOption)        // kPlain: a model's token
//   ClassifyName("--password-file", kOption)       // kPlain: where it is, not what it is
//   ClassifyName("--revision", kOption)            // kIdentifier: looks random, and is none of a credential
//
// The words are tables in secret_names.cc. Thread-safety: pure, no heap. Failure: masks too much rather than too
// little.

#ifndef GPUMEM_SHARED_SECRET_NAMES_H_
#define GPUMEM_SHARED_SECRET_NAMES_H_

#include <cstdint>

#include "shared/slice.h"

namespace gpumem::format {

enum class NameKind : uint8_t {
  kPlain,
  kIdentifier,   // of hashes, revisions and ids: a random-looking value is none of a secret
  kKeyLike,      // a secret where the value looks like a key: letters with digits, groups of them, a UUID
  kCode,         // a secret where the value is a few digits
  kMaybeSecret,  // a secret unless the value is a number, a path, a file, or several words: -p, --pwd, --use-auth-token
  kSecret,
  kSecretList,  // several values may follow
  kHeader,      // Authorization, Cookie: the rest of the line is its value
  kUser,        // user:password
};

enum class NamePlace : uint8_t {
  kOption,  // also variables, headers and fields
  kQuery,   // of a URL or a connection string, where sig and signature are credentials
};

NameKind ClassifyName(Slice name, NamePlace place);

constexpr bool IsSecretKind(NameKind kind) {
  return kind == NameKind::kKeyLike || kind == NameKind::kCode || kind == NameKind::kMaybeSecret ||
         kind == NameKind::kSecret || kind == NameKind::kSecretList || kind == NameKind::kHeader;
}

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_SECRET_NAMES_H_
