// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a value looks like, whatever its name: values that look random, and values that hold no secret although their
// name says so. Credentials of well-known services: secret_shapes.h.
//
//   LooksRandom("x7Gh2kQ9mZp4Rt8vW1nB5cY3")         // true
//   LooksRandom("Meta-Llama-3-8B-Instruct")         // false
//   HoldsNoSecret("${HF_TOKEN}")                    // true: where it is, not what it is
//
// Thread-safety: pure, no heap. Time: linear in the text.

#ifndef GPUMEM_SHARED_SECRET_VALUES_H_
#define GPUMEM_SHARED_SECRET_VALUES_H_

#include "shared/slice.h"

namespace gpumem::format {

// Whether these letters, digits and -_ are drawn rather than written: 32 and more hexadecimal digits, or 24 and more
// characters that make no words.
bool LooksRandom(Slice text);

// 40 letters, digits, + and / that make neither words nor a path, as AWS hands out; also longer base64 with its
// padding.
bool LooksLikeBase64Key(Slice text);

// -pS3cret!, as mysql takes it: three kinds of characters are no number and no word.
bool IsJoinedPassword(Slice option);

// For names that only may be those of a secret: letters with digits that are no words, a UUID, AAAA-1111-BBBB.
bool LooksLikeKey(Slice value);

// A few digits: 123456.
bool IsShortCode(Slice value);

// Switches, null, variables, placeholders, masks, @file and paths: nothing to hide, whatever the name is.
bool HoldsNoSecret(Slice value);

// The same where the name only may be a secret's: also short numbers, files, and several words.
bool HoldsNoLikelySecret(Slice value);

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_SECRET_VALUES_H_
