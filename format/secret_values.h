// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a value looks like, whatever its name: the credentials of well-known services, values that look random, and
// values that hold no secret although their name says so.
//
//   CredentialSize("hf_AbCd...")                    // its length
//   LooksRandom("x7Gh2kQ9mZp4Rt8vW1nB5cY3")         // true
//   LooksRandom("Meta-Llama-3-8B-Instruct")         // false
//   HoldsNoSecret("${HF_TOKEN}")                    // true: where it is, not what it is
//
// Thread-safety: pure, no heap. Time: linear in the text.

#ifndef GPUMEM_FORMAT_SECRET_VALUES_H_
#define GPUMEM_FORMAT_SECRET_VALUES_H_

#include "format/slice.h"

namespace gpumem::format {

// Bytes of the credential of a known kind that `text` begins with; 0 where it begins with none.
size_t CredentialSize(Slice text);

// Whether these letters, digits and -_ are drawn rather than written: 32 and more hexadecimal digits, or 24 and more
// characters that make no words.
bool LooksRandom(Slice text);

// 40 letters, digits, + and / that make neither words nor a path, as AWS hands out; also longer base64 with its
// padding.
bool LooksLikeBase64Key(Slice text);

// -pS3cret!, as mysql takes it: three kinds of characters are no number and no word.
bool IsJoinedPassword(Slice option);

// Switches, null, variables, placeholders, masks, @file and paths: nothing to hide, whatever the name is.
bool HoldsNoSecret(Slice value);

// The same where the name only may be a secret's: also short numbers, files, and several words.
bool HoldsNoLikelySecret(Slice value);

}  // namespace gpumem::format

#endif  // GPUMEM_FORMAT_SECRET_VALUES_H_
