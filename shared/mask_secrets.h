// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Takes secrets out of a command line before it is written down or shown: traces and pages are passed on. The recorder
// and the analyzer both mask by these rules; docs/secrets.md says what is masked, and what cannot be.
//
//   train.py --token abc  ->  train.py --token ***
//   --max-tokens 128 --tokenizer gpt2  ->  left alone
//
//   SecretMasker masker;
//   for (each argument) masker.Mask(argument, size, out, sizeof out);
//
// secret_names.h knows names, secret_values.h values, secret_shapes.h the forms of well-known credentials,
// secret_text.h URLs, secret_programs.h options of well-known programs; secret_pairs.h finds names with values in a
// text, secret_text.h puts it together for one text, and this file for the arguments of a command line.
//
// Thread-safety: one thread a masker. Ownership: none, no heap; the memory is the caller's. Failure: masks too much
// rather than too little; what does not fit is cut. Masking what is masked changes nothing. Time: linear.

#ifndef GPUMEM_SHARED_MASK_SECRETS_H_
#define GPUMEM_SHARED_MASK_SECRETS_H_

#include <cstddef>

#include "shared/secret_names.h"
#include "shared/secret_text.h"
#include "shared/slice.h"

namespace gpumem::format {

// Arguments in their order: an option says what the next one is.
class SecretMasker {
 public:
  // Writes one argument, terminated. Returns its size.
  size_t Mask(const char* argument, size_t size, char* out, size_t capacity);

 private:
  void MaskValue(NameKind kind, Slice value, MaskedText* out);
  void MaskArgument(Slice argument, MaskedText* out);
  void MaskAssignment(Slice argument, Slice name, size_t value, MaskedText* out);
  NameKind KindOfNext(Slice argument) const;

  NameKind pending_ = NameKind::kPlain;  // what the argument before says of this one
  bool is_code_ = false;                 // it is the text behind -c
  int settings_ = 0;                     // arguments from here that may be a name whose value follows: set NAME VALUE
  bool is_first_ = true;
  char program_[32] = "";  // the end of the first argument's name: secret_programs.h
};

// One value that stands alone, as of a variable, of `name`.
size_t MaskVariable(const char* name, const char* value, char* out, size_t capacity);

// Room that the masked text of `size` bytes never exceeds, its terminator included.
constexpr size_t MaskedCapacity(size_t size) { return size * 3 + 8; }

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_MASK_SECRETS_H_
