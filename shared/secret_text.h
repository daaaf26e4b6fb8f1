// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Masks the secrets in a text that may be anything: a shell script behind -c, JSON, a header, a URL with parameters, a
// connection string. Names followed by = or : and a value, options followed by a blank and a value, URLs, private keys,
// and words that look like credentials.
//
//   MaskText("export HF_TOKEN=abc; python train.py", ...)   // export HF_TOKEN=***; python train.py
//   MaskText("{\"user\": \"me\", \"password\": \"x\"}", ...)   // {"user": "me", "password": "***"}
//
// Thread-safety: pure, no heap; writes into memory of the caller. Failure: what does not fit is cut. Time: linear.

#ifndef GPUMEM_SHARED_SECRET_TEXT_H_
#define GPUMEM_SHARED_SECRET_TEXT_H_

#include <cstddef>

#include "shared/secret_names.h"
#include "shared/slice.h"

namespace gpumem::format {

inline constexpr char kMask[] = "***";

// Text in memory of the caller, always terminated.
class MaskedText {
 public:
  MaskedText(char* out, size_t capacity) : out_(out), capacity_(capacity) {
    if (capacity_ > 0) out_[0] = '\0';
  }

  void Add(Slice text) {
    const size_t room = capacity_ > size_ + 1 ? capacity_ - size_ - 1 : 0;
    const size_t taken = text.size < room ? text.size : room;
    if (taken == 0) return;
    std::memcpy(out_ + size_, text.data, taken);
    size_ += taken;
    out_[size_] = '\0';
  }
  void AddMask() { Add(Slice::Of(kMask)); }
  size_t size() const { return size_; }

 private:
  char* out_;
  size_t capacity_;
  size_t size_ = 0;
};

struct TextRules {
  bool names = true;   // look for names and their values
  bool random = true;  // mask what looks random, too
};

// Whether a value of a name of a secret's kind is to be masked.
bool IsSecretValue(NameKind kind, Slice value);

void MaskText(Slice text, TextRules rules, MaskedText* out);

// user:password -> user:***; 1000:1000 and $(id -u):$(id -g) stay.
void MaskUser(Slice value, MaskedText* out);

// The parts of a URL that are credentials, but for its parameters: user and password, and the paths of webhooks.
//
//   // https://me:pw@host/            user info [0, 5) of "me:pw@host/"
//   // https://hooks.slack.com/T0/x   a secret from behind "hooks.slack.com/" to the end
//
// Thread-safety: pure, no heap.

// `text` stands behind "://". Bytes of user and password, up to the @; 0 where there are none.
size_t UserInfoSize(Slice text);

// `text` begins with a host. Where the secret of a webhook's address begins, 0 where it is none.
size_t WebhookSecretAt(Slice text);

// Bytes up to the end of the URL.
size_t UrlSize(Slice text);

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_SECRET_TEXT_H_
