// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/secret_values.h"

#include <cstdint>

#include "shared/secret_shapes.h"

namespace gpumem::format {
namespace {

constexpr size_t kLeastHex = 32, kLeastRandom = 24, kLeastLetters = 32;

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

bool IsBase64(char c) { return IsWordChar(c) || c == '-' || c == '+' || c == '/' || c == '=' || c == '.' || c == '~'; }

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

// AAAA1-22BBB-CC3CC: three groups or more of capitals and digits, all as long.
bool IsProductKey(Slice text) {
  constexpr size_t kLeastGroup = 4, kMostGroup = 8;
  const auto is_key_char = [](char c) { return IsUpper(c) || IsDigit(c); };
  const size_t group = Span(text, is_key_char);
  if (group < kLeastGroup || group > kMostGroup || Count(text, IsDigit) == 0) return false;
  size_t at = group, groups = 1;
  for (; text[at] == '-' && Span(text.From(at + 1), is_key_char) == group; at += group + 1) ++groups;
  return at == text.size && groups >= 3;
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

bool LooksLikeKey(Slice value) {
  constexpr size_t kLeast = 12, kLeastPlain = 16;
  if (value.size < kLeast || IsMostlyDigits(value)) return false;
  if (value.size == 36 && EndsInUuid(value)) return true;
  if (IsProductKey(value) || CredentialSize(value) == value.size || LooksRandom(value)) return true;
  if (Span(value, IsAlnum) != value.size || Count(value, IsDigit) < 2) return false;
  const Texture texture = TextureOf(value);
  if (texture.lower > 0 && texture.upper > 0) return true;
  return value.size >= kLeastPlain && texture.changes * 4 >= value.size && texture.lower + texture.upper > 1;
}

bool IsShortCode(Slice value) { return value.size >= 4 && value.size <= 10 && Span(value, IsDigit) == value.size; }

bool LooksLikeBase64Key(Slice text) {
  constexpr size_t kAwsKey = 40;
  const size_t body = Span(text, [](char c) { return IsAlnum(c) || c == '+' || c == '/'; });
  const size_t padding = Span(text.From(body), [](char c) { return c == '='; });
  if (body + padding != text.size || padding > 2) return false;
  constexpr size_t kLong = 64;  // without padding
  const bool is_padded = (text.size >= kLeastHex && text.size % 4 == 0 && (padding > 0 || text.Contains('+'))) ||
                         (body >= kLong && text.Contains('/') && text.Contains('+'));
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
