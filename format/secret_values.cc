// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "format/secret_values.h"

#include <cstdint>

namespace gpumem::format {
namespace {

enum class Alphabet : uint8_t {
  kAlnum,     // letters and digits
  kUpper,     // capitals and digits
  kWord,      // and _
  kDashed,    // and - and _, where some part is too random for a name: sk-learn-pipeline is none
  kAnything,  // base64 of each kind, with dots
  kHex,
};

struct Shape {
  const char* prefix;
  Alphabet alphabet;
  uint8_t least;  // characters behind the prefix
};

// Beginnings of values that services hand out as credentials, from their own documentation.
constexpr Shape kShapes[] = {
    {"hf_", Alphabet::kAlnum, 16},  // Hugging Face
    {"api_org_", Alphabet::kAlnum, 16},
    {"sk-", Alphabet::kDashed, 16},  // OpenAI, Anthropic (sk-ant-), OpenRouter (sk-or-), Langfuse
    {"pk-lf-", Alphabet::kDashed, 16},
    {"sk_live_", Alphabet::kAlnum, 16},  // Stripe
    {"sk_test_", Alphabet::kAlnum, 16},
    {"rk_live_", Alphabet::kAlnum, 16},
    {"rk_test_", Alphabet::kAlnum, 16},
    {"whsec_", Alphabet::kAnything, 16},
    {"ghp_", Alphabet::kWord, 16},  // GitHub
    {"gho_", Alphabet::kWord, 16},
    {"ghu_", Alphabet::kWord, 16},
    {"ghs_", Alphabet::kWord, 16},
    {"ghr_", Alphabet::kWord, 16},
    {"github_pat_", Alphabet::kWord, 16},
    {"glpat-", Alphabet::kAnything, 16},  // GitLab
    {"gldt-", Alphabet::kAnything, 16},
    {"glrt-", Alphabet::kAnything, 16},
    {"glcbt-", Alphabet::kAnything, 16},
    {"glptt-", Alphabet::kAnything, 16},
    {"xoxa-", Alphabet::kAnything, 10},  // Slack
    {"xoxb-", Alphabet::kAnything, 10},
    {"xoxc-", Alphabet::kAnything, 10},
    {"xoxd-", Alphabet::kAnything, 10},
    {"xoxe", Alphabet::kAnything, 16},
    {"xoxo-", Alphabet::kAnything, 10},
    {"xoxp-", Alphabet::kAnything, 10},
    {"xoxr-", Alphabet::kAnything, 10},
    {"xoxs-", Alphabet::kAnything, 10},
    {"xapp-", Alphabet::kAnything, 16},
    {"AKIA", Alphabet::kUpper, 12},  // AWS
    {"ASIA", Alphabet::kUpper, 12},
    {"ABIA", Alphabet::kUpper, 16},
    {"AROA", Alphabet::kUpper, 16},
    {"AIDA", Alphabet::kUpper, 16},
    {"LTAI", Alphabet::kAlnum, 12},    // Alibaba Cloud
    {"AKID", Alphabet::kAlnum, 16},    // Tencent Cloud
    {"eyJ", Alphabet::kAnything, 16},  // JSON in base64: JWT, Neptune, Grafana
    {"AIza", Alphabet::kDashed, 20},   // Google
    {"ya29.", Alphabet::kAnything, 16},
    {"GOCSPX-", Alphabet::kAnything, 16},
    {"npm_", Alphabet::kAlnum, 20},
    {"pypi-", Alphabet::kDashed, 16},
    {"dop_v1_", Alphabet::kHex, 16},  // DigitalOcean
    {"doo_v1_", Alphabet::kHex, 16},
    {"dor_v1_", Alphabet::kHex, 16},
    {"SG.", Alphabet::kAnything, 32},  // SendGrid
    {"AC", Alphabet::kHex, 32},        // Twilio
    {"SK", Alphabet::kHex, 32},
    {"dapi", Alphabet::kHex, 32},       // Databricks
    {"hvs.", Alphabet::kAnything, 16},  // Vault
    {"hvb.", Alphabet::kAnything, 16},
    {"hvr.", Alphabet::kAnything, 16},
    {"r8_", Alphabet::kAlnum, 20},   // Replicate
    {"gsk_", Alphabet::kAlnum, 20},  // Groq
    {"xai-", Alphabet::kDashed, 20},
    {"pplx-", Alphabet::kDashed, 20},
    {"nvapi-", Alphabet::kDashed, 16},     // NVIDIA
    {"tgp_v1_", Alphabet::kAnything, 16},  // Together
    {"fw_", Alphabet::kAlnum, 20},         // Fireworks
    {"jina_", Alphabet::kAlnum, 20},
    {"pcsk_", Alphabet::kWord, 20},  // Pinecone
    {"tvly-", Alphabet::kDashed, 16},
    {"wandb_v1_", Alphabet::kWord, 16},
    {"lsv2_pt_", Alphabet::kWord, 16},  // LangSmith
    {"lsv2_sk_", Alphabet::kWord, 16},
    {"lin_api_", Alphabet::kAlnum, 16},
    {"ntn_", Alphabet::kAlnum, 20},
    {"shpat_", Alphabet::kHex, 16},
    {"shpss_", Alphabet::kHex, 16},
    {"sq0atp-", Alphabet::kAnything, 16},
    {"sq0csp-", Alphabet::kAnything, 16},
    {"NRAK-", Alphabet::kUpper, 16},
    {"PMAK-", Alphabet::kAnything, 24},
    {"figd_", Alphabet::kAnything, 16},
    {"dckr_pat_", Alphabet::kAnything, 16},
    {"ATATT3", Alphabet::kAnything, 16},  // Atlassian
    {"ATCTT3", Alphabet::kAnything, 16},
    {"phc_", Alphabet::kAlnum, 20},
    {"phx_", Alphabet::kAlnum, 20},
    {"sntrys_", Alphabet::kAnything, 16},
    {"sntryu_", Alphabet::kAnything, 16},
    {"glsa_", Alphabet::kWord, 16},  // Grafana
    {"glc_", Alphabet::kAnything, 20},
    {"sbp_", Alphabet::kHex, 16},
    {"ops_eyJ", Alphabet::kAnything, 16},  // 1Password
    {"tskey-", Alphabet::kDashed, 16},
    {"rpa_", Alphabet::kAlnum, 20},  // RunPod
    {"ak-", Alphabet::kAlnum, 20},   // Modal
    {"as-", Alphabet::kAlnum, 20},
    {"rubygems_", Alphabet::kHex, 16},
    {"AGE-SECRET-KEY-1", Alphabet::kUpper, 16},
    {"b3BlbnNzaC1rZXktdjE", Alphabet::kAnything, 0},  // an OpenSSH private key's body
};

constexpr size_t kTested = 256;  // of a credential, from its beginning: no more time than that for what is none
constexpr size_t kLeastHex = 32, kLeastRandom = 24, kLeastLetters = 32;
constexpr size_t kRandomPart = 8;  // of a kDashed credential, where a digit is among them
constexpr size_t kLongPart = 16;   // ... where none is

// Ends of file names.
constexpr const char* kEndings[] = {".pem", ".key",  ".json", ".txt", ".crt",  ".cer", ".yaml",        ".yml",
                                    ".env", ".pub",  ".p12",  ".pfx", ".toml", ".ini", ".cfg",         ".conf",
                                    ".py",  ".sh",   ".pt",   ".pth", ".bin",  ".csv", ".safetensors", ".jsonl",
                                    ".log", ".ckpt", ".npy",  ".npz", ".gguf", ".onnx"};

// First folders of paths on Linux. Another one may be base64 that begins with a slash.
constexpr const char* kRoots[] = {
    "/home/", "/etc/",    "/root",   "/run/",     "/var/",    "/tmp/",      "/mnt/",     "/data/",    "/opt/",
    "/usr/",  "/srv/",    "/media/", "/dev/",     "/proc/",   "/workspace", "/secrets/", "/scratch/", "/projects/",
    "/nfs/",  "/lustre/", "/fsx/",   "/gpfs/",    "/shared/", "/vault/",    "/app/",     "/config/",  "/certs/",
    "/ssl/",  "/keys/",   "/users/", "/storage/", "/cache/",  "/local/",    "/volumes/"};

constexpr const char* kSwitches[] = {"true",    "false",    "none",     "null",     "nil",    "yes", "no",
                                     "on",      "off",      "0",        "1",        "auto",   "***", "nan",
                                     "default", "required", "optional", "disabled", "enabled"};

bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsWordChar(char c) { return IsAlnum(c) || c == '_'; }
bool IsDashed(char c) { return IsAlnum(c) || c == '_' || c == '-'; }
bool IsBase64(char c) { return IsDashed(c) || c == '+' || c == '/' || c == '=' || c == '.' || c == '~'; }

size_t SpanOf(Alphabet alphabet, Slice text) {
  switch (alphabet) {
    case Alphabet::kAlnum:
      return Span(text, IsAlnum);
    case Alphabet::kUpper:
      return Span(text, [](char c) { return IsUpper(c) || IsDigit(c); });
    case Alphabet::kWord:
      return Span(text, IsWordChar);
    case Alphabet::kDashed:
      return Span(text, IsDashed);
    case Alphabet::kAnything:
      return Span(text, IsBase64);
    case Alphabet::kHex:
      return Span(text, IsHex);
  }
  return 0;
}

// Whether one of the parts between dashes is more than a word.
bool HasRandomPart(Slice text) {
  for (size_t at = 0; at < text.size;) {
    const Slice part = text.Part(at, Span(text.From(at), IsAlnum));
    const bool has_digit = Count(part, IsDigit) > 0 && Count(part, IsLetter) > 0;
    if (part.size >= kLongPart || (part.size >= kRandomPart && has_digit)) return true;
    at += part.size + 1;
  }
  return false;
}

enum class CharClass : uint8_t { kLower, kUpper, kDigit, kOther };

CharClass ClassOf(char c) {
  return IsLower(c)   ? CharClass::kLower
         : IsUpper(c) ? CharClass::kUpper
         : IsDigit(c) ? CharClass::kDigit
                      : CharClass::kOther;
}

struct Texture {
  size_t lower = 0, upper = 0, digits = 0, other = 0;
  size_t changes = 0;   // from one class of characters to another
  size_t in_words = 0;  // lower case letters of which three or more follow each other
};

Texture TextureOf(Slice text) {
  Texture texture;
  size_t run = 0;
  for (size_t i = 0; i <= text.size; ++i) {
    const CharClass kind = ClassOf(text[i]);
    if (i < text.size) {
      texture.lower += kind == CharClass::kLower;
      texture.upper += kind == CharClass::kUpper;
      texture.digits += kind == CharClass::kDigit;
      texture.other += kind == CharClass::kOther;
      texture.changes += i > 0 && kind != ClassOf(text[i - 1]);
    }
    if (i < text.size && kind == CharClass::kLower) {
      ++run;
    } else {
      if (run >= 3) texture.in_words += run;
      run = 0;
    }
  }
  return texture;
}

// 62 characters, drawn: 0.62 changes a character and a sixth of them in words; names have half and the double of that.
bool IsDrawn(Slice text) {
  const Texture texture = TextureOf(text);
  if (texture.other * 12 > text.size) return false;  // words with dashes between
  if (texture.lower == 0 || texture.upper == 0) {    // base32, base36: 0.4 changes a character
    return texture.digits >= 4 && texture.lower + texture.upper >= 6 && texture.changes * 10 >= text.size * 3 &&
           texture.in_words * 3 <= text.size;
  }
  if (texture.digits == 0 && text.size < kLeastLetters) return false;
  return texture.changes * 5 >= text.size * 2 && texture.in_words * 3 <= text.size;
}

// 8-4-4-4-12 hexadecimal digits at the end: of runs, devices, objects.
bool EndsInUuid(Slice text) {
  constexpr size_t kSize = 36;
  if (text.size < kSize) return false;
  const Slice id = text.From(text.size - kSize);
  for (size_t i = 0; i < kSize; ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? id[i] != '-' : !IsHex(id[i])) return false;
  }
  return true;
}

// 20240131T235959, and what else has no letters to speak of.
bool IsMostlyDigits(Slice text) { return Count(text, IsDigit) * 5 >= text.size * 4; }

bool HasEnding(Slice value) {
  for (const char* ending : kEndings) {
    if (value.EndsWithIgnoringCase(ending)) return true;
  }
  return false;
}

bool IsPath(Slice value) {
  const auto is_path_char = [](char c) {
    return IsBase64(c) || c == '@' || c == ',' || c == ':' || c == '%' || c == ' ';
  };
  if (Span(value, is_path_char) != value.size) return false;
  if (value.StartsWith("./") || value.StartsWith("../") || value.StartsWith("~/") || value.StartsWith("file://"))
    return true;
  if (value.StartsWith("/")) {
    for (const char* root : kRoots) {
      if (value.StartsWithIgnoringCase(root)) return true;
    }
  }
  return HasEnding(value) && !value.Contains(' ') && CredentialSize(value) == 0;
}

// $NAME, ${...}, $(...), $1, %NAME%, {name}, {{name}}, <name>, [NAME], env:NAME.
bool IsReference(Slice value) {
  const char last = value.back();
  const Slice rest = value.From(1);
  if (value[0] == '$') {
    if (rest[0] == '{' || rest[0] == '(') return last == '}' || last == ')';
    return !rest.empty() && Span(rest, [](char c) { return IsUpper(c) || IsDigit(c) || c == '_'; }) == rest.size;
  }
  const Slice inside = rest.Until(value.size > 1 ? value.size - 2 : 0);
  const auto is_name_char = [](char c) {
    return IsWordChar(c) || c == '.' || c == '-' || c == '|' || c == '/' || c == '{' || c == '}' || c == ' ';
  };
  const bool is_bracketed = (value[0] == '<' && last == '>') || (value[0] == '{' && last == '}') ||
                            (value[0] == '[' && last == ']') || (value[0] == '%' && last == '%');
  if (is_bracketed) return Span(inside, is_name_char) == inside.size && CredentialSize(inside) == 0;
  return value.StartsWith("env:") && Span(value.From(4), IsWordChar) + 4 == value.size;
}

// @file, @/path: a password may begin with @ as well, so digits want a path around them.
bool IsFileReference(Slice value) {
  if (value[0] != '@' || value.size < 2) return false;
  const Slice name = value.From(1);
  if (IsPath(name) || name[0] == '/' || name[0] == '-') return true;
  return Span(name, [](char c) { return IsLetter(c) || c == '_' || c == '-' || c == '.'; }) == name.size;
}

}  // namespace

size_t CredentialSize(Slice text) {
  for (const Shape& shape : kShapes) {
    if (text[0] != shape.prefix[0] || !text.StartsWith(shape.prefix)) continue;
    const size_t prefix = std::strlen(shape.prefix);
    const Slice rest = text.From(prefix);
    const Slice tested = rest.Until(SpanOf(shape.alphabet, rest.Until(kTested)));
    if (tested.size < shape.least || (shape.alphabet == Alphabet::kDashed && !HasRandomPart(tested))) continue;
    return prefix + SpanOf(shape.alphabet, rest);
  }
  return 0;
}

bool LooksRandom(Slice text) {
  if (text.size < kLeastRandom || EndsInUuid(text)) return false;
  for (size_t at = 0; at < text.size;) {
    const Slice part = text.Part(at, Span(text.From(at), IsAlnum));
    const bool is_hex = part.size >= kLeastHex && Span(part, IsHex) == part.size;
    if (is_hex && Count(part, IsDigit) > 0 && Count(part, IsLetter) > 0 && !IsMostlyDigits(part)) return true;
    if (part.size >= kLeastRandom && !IsMostlyDigits(part) && IsDrawn(part)) return true;
    at += part.size + 1;
  }
  return text.size >= kLeastLetters && !IsMostlyDigits(text) && IsDrawn(text);
}

bool LooksLikeBase64Key(Slice text) {
  constexpr size_t kAwsKey = 40;
  const size_t body = Span(text, [](char c) { return IsAlnum(c) || c == '+' || c == '/'; });
  const size_t padding = Span(text.From(body), [](char c) { return c == '='; });
  if (body + padding != text.size || padding > 2) return false;
  const bool is_padded = text.size >= kLeastHex && text.size % 4 == 0 && (padding > 0 || text.Contains('+'));
  if (body != kAwsKey && !is_padded) return false;
  const Texture texture = TextureOf(text.Until(body));
  return texture.lower > 0 && texture.upper > 0 && texture.digits > 0 && texture.other * 6 <= body &&
         texture.changes * 3 >= body && texture.in_words * 3 <= body;
}

bool IsJoinedPassword(Slice option) {
  constexpr size_t kLeast = 6;
  if (!option.StartsWith("-p") || option.size < kLeast || option.Contains('=') || option.Contains('/')) return false;
  const Slice rest = option.From(2);
  const auto is_ordinary = [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.' || c == ','; };
  const int kinds = (Count(rest, IsLower) > 0) + (Count(rest, IsUpper) > 0) + (Count(rest, IsDigit) > 0) +
                    (Count(rest, is_ordinary) < rest.size);
  return kinds >= 3;
}

bool HoldsNoSecret(Slice value) {
  if (value.empty()) return true;
  for (const char* word : kSwitches) {
    if (value.IsIgnoringCase(word)) return true;
  }
  return IsReference(value) || IsFileReference(value) || IsPath(value);
}

bool HoldsNoLikelySecret(Slice value) {
  constexpr size_t kShortNumber = 5;  // a port
  if (HoldsNoSecret(value)) return true;
  const auto is_number_char = [](char c) {
    return IsDigit(c) || c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+' || c == ':' || c == ',';
  };
  if (IsDigit(value[0]) && Span(value, is_number_char) == value.size)
    return value.size <= kShortNumber || Span(value, IsDigit) < value.size;
  return value[0] == '/' || value[0] == '.' || value.Contains('/') || value.Contains(' ') || HasEnding(value);
}

}  // namespace gpumem::format
