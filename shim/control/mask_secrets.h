// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Takes secrets out of a command line before it goes into a trace, which people pass on.
//
//   --token abc  --api-key=abc  HF_TOKEN=abc  hf_abc...  https://me:pw@host/   ->   the value becomes ***
//   --max-tokens 128  --tokenizer gpt2                                         ->   left alone
//
// Thread-safety: pure. Failure: masks too much rather than too little.

#ifndef GPUMEM_SHIM_CONTROL_MASK_SECRETS_H_
#define GPUMEM_SHIM_CONTROL_MASK_SECRETS_H_

#include <cstddef>

namespace gpumemshim::control {

// True where a value of that name is a secret: one of its words is "token", "password" and the like, or the last "key".
bool IsSecretName(const char* name, size_t size);

// Writes the argument with its secrets masked. `follows_secret_option`: the argument before was an option of a secret's
// name. Returns true where this argument is such an option itself, so that the next one is its value.
bool MaskArgument(const char* argument, bool follows_secret_option, char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_MASK_SECRETS_H_
