// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/secret_text.h"

#include <initializer_list>

#include "shared/secret_pairs.h"
#include "shared/secret_shapes.h"
#include "shared/secret_values.h"

namespace gpumem::format {
namespace {

constexpr size_t kMaxLabel = 64;      // of a PEM block
constexpr size_t kMaxPassword = 256;  // in front of @host, where nothing else says that it is one

bool IsRunChar(char c) { return IsAlnum(c) || c == '_' || c == '-' || c == '+' || c == '/'; }

// With the padding of base64, where it is some.
size_t RunSize(Slice text) {
  const size_t size = Span(text, IsRunChar);
  const size_t padding = Span(text.Part(size, 3), [](char c) { return c == '='; });
  return padding <= 2 && !IsRunChar(text[size + padding]) && !IsQuote(text[size + padding]) ? size + padding : size;
}

// One pass over one text.
class Masking {
 public:
  Masking(Slice text, TextRules rules, MaskedText* out) : text_(text), rules_(rules), out_(out) {}

  void Run() {
    while (at_ < text_.size) {
      if (TakePrivateKey() || TakeHash() || TakeUrl() || TakeWord()) continue;
      Copy(at_ + 1);
    }
  }

 private:
  Slice rest() const { return text_.From(at_); }
  char before() const { return at_ == 0 ? '\0' : text_[at_ - 1]; }

  void Copy(size_t end) {
    if (end > text_.size) end = text_.size;
    out_->Add(text_.Part(at_, end - at_));
    at_ = end;
  }
  void Mask(size_t end) {
    out_->AddMask();
    at_ = end;
  }

  // A private key as PEM: from its first line to its last.
  bool TakePrivateKey() {
    constexpr char kBegin[] = "-----BEGIN ", kEnd[] = "-----END ",
                   kSshBegin[] = "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY";
    if (text_[at_] != '-') return false;
    if (rest().StartsWith(kSshBegin)) {
      const size_t last = text_.Find("---- END", at_);
      Mask(last < text_.size ? last + UrlSize(text_.From(last)) : text_.size);
      return true;
    }
    if (!rest().StartsWith(kBegin)) return false;
    const Slice label = rest().Part(sizeof kBegin - 1, kMaxLabel);
    if (label.Until(label.Find("-----")).Find("PRIVATE KEY") == label.Until(label.Find("-----")).size) return false;
    const size_t end = text_.Find(kEnd, at_);
    const size_t close = text_.Find("-----", end + sizeof kEnd - 1);
    Mask(close < text_.size ? close + 5 : text_.size);
    return true;
  }

  // $6$salt$...
  bool TakeHash() {
    const size_t size = text_[at_] == '$' || text_[at_] == '{' ? PasswordHashSize(rest()) : 0;
    if (size > 0) Mask(at_ + size);
    return size > 0;
  }

  // Behind "scheme": its user and password, and the path where that is one. Parameters are names with values.
  bool TakeUrl() {
    if (text_[at_] != ':' || !rest().StartsWith("://")) return false;
    Copy(at_ + 3);
    if (const size_t size = UserInfoSize(rest()); size > 0) {
      Mask(at_ + size);
      Copy(at_ + 1);
    }
    TakeWebhook();
    return true;
  }

  bool TakeWebhook() {
    const size_t secret = WebhookSecretAt(rest());
    if (secret == 0 || secret >= UrlSize(rest())) return false;
    const size_t end = at_ + UrlSize(rest());
    Copy(at_ + secret);
    Mask(end);
    return true;
  }

  // A whole word at a time, so that each is looked at once.
  bool TakeWord() {
    const char c = text_[at_];
    if (!IsNameLetter(c) && c != '-' && c != '_') return false;
    if (rules_.names) {
      if (TakeJoinedPassword() || TakePiped()) return true;
      const Pair pair = FindPair(text_, at_);
      if (pair.kind == NameKind::kUser) return TakeUser(pair);
      if (IsSecretKind(pair.kind)) return TakeSecret(pair);
      if (pair.kind == NameKind::kIdentifier)
        plain_until_ = pair.value + Span(text_.From(pair.value), [](char v) { return !IsBlank(v); });
      if (TakeScheme() || TakePassword()) return true;
    }
    if (!IsRunChar(c)) return false;
    if (IsAlnum(c) && WebhookSecretAt(rest()) > 0 && TakeWebhook()) return true;
    TakeRun();
    return true;
  }

  // echo X | sudo -S, echo X | docker login --password-stdin
  bool TakePiped() {
    constexpr size_t kMostEchoed = 256;
    const size_t word = rest().StartsWith("echo ") ? 5 : rest().StartsWith("printf ") ? 7 : 0;
    if (word == 0 || IsNameLetter(before())) return false;
    const Slice echoed = rest().Part(word, kMostEchoed);
    const size_t pipe = echoed.Find('|');
    const Slice reader = rest().Part(word + pipe, kMostEchoed);
    bool reads_secret = false;
    for (const char* sign : {"-stdin", "sudo -S", "chpasswd", "passin stdin", "passphrase-fd", "with-token"})
      reads_secret = reads_secret || reader.Find(sign) < reader.size;
    if (pipe == echoed.size || !reads_secret) return false;
    size_t from = 0, end = pipe;
    while (echoed[from] == '-' || echoed[from] == ' ') {  // -n, -e
      from += echoed[from] == ' ' ? 1 : Span(echoed.From(from), [](char c) { return c != ' ' && c != '|'; });
    }
    while (end > from && IsBlank(echoed[end - 1])) --end;
    if (from >= end || HoldsNoSecret(echoed.Part(from, end - from))) return false;
    Copy(at_ + word + from);
    Mask(at_ + end - from);
    return true;
  }

  bool TakeUser(const Pair& pair) {
    Copy(pair.value);
    MaskUser(text_.Part(at_, pair.end - at_), out_);
    at_ = pair.end;
    return true;
  }

  bool TakeSecret(const Pair& pair) {
    Copy(pair.value);
    const Slice value = text_.Part(pair.value, pair.end - pair.value);
    if (!IsSecretValue(pair.kind, value)) {
      if (pair.kind != NameKind::kKeyLike) return Copy(pair.end), true;
      MaskText(value, rules_, out_);
      at_ = pair.end;
      return true;
    }
    Mask(pair.end);
    return true;
  }

  // Bearer X, Basic dXNlcjpwYXNz
  bool TakeScheme() {
    const Slice word = rest().Until(Span(rest(), IsLetter));
    const bool bearer = word.IsIgnoringCase("bearer");
    if (!bearer && !word.IsIgnoringCase("basic")) return false;
    const size_t blanks = Span(rest().From(word.size), [](char c) { return c == ' '; });
    const Slice value = rest().From(word.size + blanks);
    const Slice token = value.Until(Span(value, [](char c) { return IsRunChar(c) || c == '.' || c == '~'; }));
    if (blanks == 0 || token.empty()) return false;
    const bool mixed = Count(token, IsDigit) > 0 || (Count(token, IsUpper) > 0 && Count(token, IsLower) > 0);
    const bool secret = bearer ? mixed || word[0] == 'B' || token.size >= 16 : mixed && token.size >= 6;
    if (!secret) return false;
    Copy(at_ + word.size + blanks);
    Mask(at_ + token.size);
    return true;
  }

  bool TakeJoinedPassword() {
    if (text_[at_] != '-' || text_[at_ + 1] != 'p' || !IsBlank(before())) return false;
    const size_t size = Span(rest().Until(kMaxPassword), [](char c) { return !IsBlank(c) && !IsQuote(c); });
    if (!IsJoinedPassword(rest().Until(size))) return false;
    Copy(at_ + 2);
    Mask(at_ + size - 2);
    return true;
  }

  // user:password@host without a scheme; not git@host:path, image:tag@sha256:...
  bool TakePassword() {
    const size_t user =
        Span(rest().Until(kMaxPassword), [](char c) { return IsAlnum(c) || c == '_' || c == '-' || c == '.'; });
    const Slice behind = rest().Part(user + 1, kMaxPassword);
    if (user == 0 || rest()[user] != ':' || rest().Until(user).IsIgnoringCase("mailto")) return false;
    const size_t password = Span(behind, [](char c) { return !IsBlank(c) && !IsQuote(c) && c != '@' && c != '/'; });
    const Slice host = behind.From(password + 1);
    if (password == 0 || behind[password] != '@' || !IsAlnum(host[0])) return false;
    if (host.StartsWith("sha256:") || host.StartsWith("sha512:") || HoldsNoSecret(behind.Until(password))) return false;
    Copy(at_ + user + 1);
    Mask(at_ + password);
    return true;
  }

  // Letters, digits and what base64 has besides: credentials of known kinds in it, then the whole.
  void TakeRun() {
    const size_t size = RunSize(rest());
    const size_t end = at_ + size;
    const Slice run = rest().Until(size);
    const size_t whole = !IsAlnum(before()) && before() != '_' ? CredentialSize(rest()) : 0;
    if (whole > size) return Mask(at_ + whole);
    if (IsRandomRun(run)) return Mask(end);
    while (at_ < end) {
      const bool begins = !IsAlnum(before()) && before() != '_';
      const size_t credential = begins ? CredentialSize(rest()) : 0;
      if (credential > 0) {
        Mask(at_ + credential);
        if (at_ >= end) return;
        continue;
      }
      const size_t word = Span(rest().Until(end - at_), [](char c) { return IsAlnum(c) || c == '_'; });
      const Slice part = rest().Until(word);
      if (begins && word > 0 && IsRandomPart(part)) {
        Mask(at_ + word);
        continue;
      }
      Copy(at_ + (word > 0 ? word : 1));
    }
  }

  bool IsExempt(Slice run) const {
    if (!rules_.random || at_ < plain_until_ || IsIdentifierBefore()) return true;
    const char c = before();
    if (c == '/' || c == '.' || c == '@' || c == '#' || c == '~' || c == '%' || c == ':')
      return c != ':' || IsHashBefore();
    return run.StartsWith("sha256-") || run.StartsWith("sha384-") || run.StartsWith("sha512-");
  }

  // A file's name, or a folder's.
  bool IsFollowedByPath(size_t end) const {
    return text_[end] == '/' || (text_[end] == '.' && IsLetter(text_[end + 1]));
  }

  bool IsRandomRun(Slice run) const {
    if (IsExempt(run) || IsFollowedByPath(at_ + run.size)) return false;
    if (LooksLikeBase64Key(run)) return true;
    return !run.Contains('/') && !run.Contains('=') && !run.Contains('+') && LooksRandom(run);
  }

  // In a run with separators: one of its words.
  bool IsRandomPart(Slice part) const {
    return !IsExempt(part) && !IsFollowedByPath(at_ + part.size) && LooksRandom(part);
  }

  // sha256:..., md5:...
  bool IsHashBefore() const {
    size_t start = at_ - 1;
    while (start > 0 && IsAlnum(text_[start - 1])) --start;
    return ClassifyName(text_.Part(start, at_ - 1 - start), NamePlace::kOption) == NameKind::kIdentifier;
  }

  // git checkout ..., --revision ...
  bool IsIdentifierBefore() const {
    size_t end = at_;
    while (end > 0 && text_[end - 1] == ' ') --end;
    if (end == at_) return false;
    size_t start = end;
    while (start > 0 && end - start < kMaxLabel &&
           (IsAlnum(text_[start - 1]) || text_[start - 1] == '-' || text_[start - 1] == '_'))
      --start;
    return ClassifyName(text_.Part(start, end - start), NamePlace::kOption) == NameKind::kIdentifier;
  }

  const Slice text_;
  const TextRules rules_;
  MaskedText* const out_;
  size_t at_ = 0;
  size_t plain_until_ = 0;  // what looks random up to here is an identifier
};

}  // namespace

bool IsSecretValue(NameKind kind, Slice value) {
  switch (kind) {
    case NameKind::kKeyLike:
      return !HoldsNoLikelySecret(value) && LooksLikeKey(value);
    case NameKind::kCode:
      return IsShortCode(value);
    case NameKind::kMaybeSecret:
      return !HoldsNoLikelySecret(value);
    default:
      return !HoldsNoSecret(value);
  }
}

void MaskText(Slice text, TextRules rules, MaskedText* out) { Masking(text, rules, out).Run(); }

void MaskUser(Slice value, MaskedText* out) {
  const size_t percent = value.Find('%');  // user%password, as Samba's programs take it
  const auto is_hex = [](char c) { return IsDigit(c) || (ToLower(c) >= 'a' && ToLower(c) <= 'f'); };
  const bool is_escape = is_hex(value[percent + 1]) && is_hex(value[percent + 2]);
  const bool is_samba =
      percent < value.size && percent > 0 && !is_escape && !value.Contains(':') && !value.Contains('{');
  const size_t colon = is_samba ? percent : value.Find(':');
  if (colon == value.size) return MaskText(value, {}, out);
  const Slice password = value.From(colon + 1);
  const bool is_plain = password.empty() || value[0] == '$' || password[0] == '/' || password[0] == '$' ||
                        (Span(value, [](char c) { return IsDigit(c) || c == ':'; }) == value.size);
  if (is_plain) return out->Add(value);
  out->Add(value.Until(colon + 1));
  out->AddMask();
}

namespace {

constexpr size_t kMaxUserInfo = 512;
constexpr size_t kMaxHost = 253;  // RFC 1035

// Addresses that are their own password. A host is matched at its end; an empty one is any.
struct Webhook {
  const char* host;
  const char* path;
};

constexpr Webhook kWebhooks[] = {
    {"hooks.slack.com", "/"},
    {"discord.com", "/api/webhooks/"},
    {"discordapp.com", "/api/webhooks/"},
    {"webhook.office.com", "/"},
    {"outlook.office.com", "/webhook/"},
    {"outlook.office365.com", "/webhook/"},
    {"logic.azure.com", "/"},
    {"powerplatform.com", "/"},
    {"api.telegram.org", "/bot"},
    {"hooks.zapier.com", "/"},
    {"maker.ifttt.com", "/"},
    {"open.feishu.cn", "/open-apis/bot/"},
    {"open.larksuite.com", "/open-apis/bot/"},
    {"hc-ping.com", "/"},
    {"ntfy.sh", "/"},
    {"api.day.app", "/"},
    {"webhook.site", "/"},
    {"anaconda.org", "/t/"},
    {"make.com", "/"},
    {"integromat.com", "/"},
    {"m.pipedream.net", "/"},
    {"events.pagerduty.com", "/integration/"},
    {"alert.victorops.com", "/integrations/"},
    {"uptime.betterstack.com", "/api/v1/heartbeat/"},
    {"cronitor.link", "/"},
    {"webhooks.workato.com", "/"},
    {"push.techulus.com", "/api/v1/notify/"},
    {"api.pushcut.io", "/"},
    {"hooks.airtable.com", "/"},
    {"sctapi.ftqq.com", "/"},
    {"", "/hooks/"},
    {"", "/webhook/"},
    {"", "/webhooks/"},
    {"", "/api/webhooks/"},
};

bool EndsUrl(char c) { return IsBlank(c) || IsQuote(c) || c == '\\' || c == '<' || c == '>' || c == '|'; }

bool IsHostChar(char c) { return IsAlnum(c) || c == '.' || c == '-' || c == ':'; }

}  // namespace

size_t UrlSize(Slice text) {
  return Span(text, [](char c) { return !EndsUrl(c); });
}

size_t UserInfoSize(Slice text) {
  const Slice url = text.Until(kMaxUserInfo).Until(UrlSize(text.Until(kMaxUserInfo)));
  const size_t authority = Span(url, [](char c) { return c != '/' && c != '?' && c != '#'; });
  for (size_t i = authority; i > 0; --i) {
    if (url[i - 1] == '@') return i - 1;
  }
  // A password may hold a slash; what stands behind a colon otherwise is a port.
  const size_t colon = url.Until(authority).Find(':');
  const Slice behind = url.Until(authority).From(colon + 1);
  if (colon == authority || behind.empty() || Span(behind, IsDigit) == behind.size) return 0;
  const size_t at = url.Find('@', authority);
  return at == url.size ? 0 : at;
}

size_t WebhookSecretAt(Slice text) {
  const Slice authority = text.Until(Span(text.Until(kMaxHost + 1), IsHostChar));
  const Slice host = authority.Until(authority.Find(':'));
  const Slice path = text.From(authority.size);
  if (host.empty() || path[0] != '/') return 0;
  for (const Webhook& each : kWebhooks) {
    const size_t size = std::strlen(each.host);
    const bool is_host =
        host.EndsWithIgnoringCase(each.host) && (size == 0 || size == host.size || host[host.size - size - 1] == '.');
    if (is_host && path.StartsWithIgnoringCase(each.path)) return authority.size + std::strlen(each.path);
  }
  return 0;
}

}  // namespace gpumem::format
