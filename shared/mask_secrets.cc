// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/mask_secrets.h"

#include "shared/secret_pairs.h"
#include "shared/secret_programs.h"
#include "shared/secret_values.h"

namespace gpumem::format {
namespace {

bool IsArgumentChar(char c) {
  return IsNameLetter(c) || c == '_' || c == '-' || c == '.' || c == '@' || c == '/' || c == '[' || c == ']';
}

// Where the name of an assignment ends: behind the marks of Hydra (+, ++, ~) and of options. 0 where it has none.
size_t NameEnd(Slice argument) {
  const size_t marks = Span(argument, [](char c) { return c == '+' || c == '~' || c == '-'; });
  const size_t name = Span(argument.From(marks), IsArgumentChar);
  return name == 0 ? 0 : marks + name;
}

// Behind the = or : that follows the name; 0 where there is none.
size_t ValueAt(Slice argument, size_t name_end) {
  if (name_end == 0) return 0;
  if (argument[name_end] == '=') return name_end + 1;
  if (argument[name_end] != ':' || argument[name_end + 1] == ':') return 0;
  if (argument[name_end + 1] == '/' && argument[name_end + 2] == '/') return 0;
  return name_end + (argument[name_end + 1] == '=' ? 2 : 1) + Span(argument.From(name_end + 1), IsBlank);
}

// -DPASSWORD=x, -eTOKEN=x: the name begins behind the letter.
NameKind KindOfName(Slice name) {
  const NameKind kind = ClassifyName(name, NamePlace::kOption);
  const bool is_joined = name[0] == '-' && name[1] != '-' && name.size > 2 && IsLetter(name[1]) && IsUpper(name[2]);
  return IsSecretKind(kind) || !is_joined ? kind : ClassifyName(name.From(2), NamePlace::kOption);
}

// /some/where, ./x, s3://...: not a name, whatever it has in it.
bool IsPathStart(Slice argument) {
  if (argument.Find(":_") < argument.size) return false;  // //registry/:_authToken=...
  if (argument[0] == '/') return argument.From(1).Contains('/');
  return argument.StartsWith("./") || argument.StartsWith("../") || argument.StartsWith("~/");
}

// -c, -lc, -uc, -e and --command, behind which a script stands.
bool IntroducesCode(Slice argument) {
  if (argument.IsIgnoringCase("--command") || argument.IsIgnoringCase("--eval")) return true;
  if (argument[0] != '-' || argument.size < 2 || argument.size > 5 || argument.back() != 'c') return false;
  return Span(argument.From(1), IsLetter) == argument.size - 1;
}

}  // namespace

// What this argument says of the next one by itself.
NameKind SecretMasker::KindOfNext(Slice argument) const {
  const NameKind option = OptionOf(Slice::Of(program_), argument);
  if (option != NameKind::kPlain || argument[0] == '-') return option;
  const bool is_name = Span(argument, [](char c) { return IsArgumentChar(c) || c == ':'; }) == argument.size;
  if (settings_ > 0 && is_name && ClassifyName(argument, NamePlace::kOption) == NameKind::kSecret)
    return NameKind::kSecret;
  return !is_first_ && IsBarePasswordWord(argument) ? NameKind::kMaybeSecret : NameKind::kPlain;
}

size_t SecretMasker::Mask(const char* argument, size_t size, char* out, size_t capacity) {
  MaskedText text(out, capacity);
  const Slice slice{argument, size};
  const NameKind pending = pending_;
  const bool is_code = is_code_;
  if (is_first_) {
    const size_t kept = size < sizeof program_ ? size : sizeof program_ - 1;
    if (kept > 0) std::memcpy(program_, argument + size - kept, kept);
  }
  if (pending != NameKind::kPlain && (slice.IsIgnoringCase("=") || slice.IsIgnoringCase(":"))) {  // --token = X
    text.Add(slice);
    return text.size();
  }
  pending_ = NameKind::kPlain;
  is_code_ = false;
  if (is_code) {
    MaskText(slice, {}, &text);
  } else if (pending != NameKind::kPlain && !LooksLikeOption(slice)) {
    MaskValue(pending, slice, &text);
  } else {
    MaskArgument(slice, &text);
    if (pending_ == NameKind::kPlain) pending_ = KindOfNext(slice);
  }
  constexpr int kMostBetween = 2;  // remote modify REMOTE NAME VALUE
  settings_ = IntroducesSetting(slice) ? kMostBetween : settings_ - 1;
  is_first_ = false;
  return text.size();
}

void SecretMasker::MaskValue(NameKind kind, Slice value, MaskedText* out) {
  if (kind == NameKind::kIdentifier) return MaskText(value, {.random = false}, out);
  if (kind == NameKind::kUser) return MaskUser(value, out);
  if (kind == NameKind::kSecretList) pending_ = kind;
  const bool is_scheme = IsScheme(value);  // --header Authorization: Bearer X, without quotes
  if (is_scheme) pending_ = NameKind::kSecret;
  if (is_scheme || HoldsNoSecret(value)) return out->Add(value);
  if (!IsSecretValue(kind, value)) return MaskText(value, {}, out);
  out->AddMask();
}

void SecretMasker::MaskArgument(Slice argument, MaskedText* out) {
  if (const size_t joined = JoinedOptionSize(Slice::Of(program_), argument); joined > 0 && argument.size > joined) {
    out->Add(argument.Until(joined));
    return out->AddMask();
  }
  if (IsPathStart(argument)) return MaskText(argument, {.names = false}, out);
  if (IsJoinedPassword(argument)) {
    out->Add(argument.Until(2));
    return out->AddMask();
  }
  const size_t name_end = NameEnd(argument);
  const Slice name = argument.Until(name_end);
  const size_t value = ValueAt(argument, name_end);
  if (value != 0) return MaskAssignment(argument, name, value, out);
  if (name_end == argument.size && argument[0] == '-') pending_ = KindOfName(name);
  if (argument.IsIgnoringCase("bearer")) pending_ = NameKind::kSecret;
  is_code_ = IntroducesCode(argument);
  MaskText(argument, {}, out);
}

void SecretMasker::MaskAssignment(Slice argument, Slice name, size_t value, MaskedText* out) {
  const Slice text = argument.From(value);
  const NameKind kind = KindOfName(name);
  const bool is_colon = argument[name.size] == ':';
  if (is_colon && name.StartsWith("-u")) return MaskUser(argument, out);  // curl -ume:password
  if (kind == NameKind::kPlain || (kind == NameKind::kUser && is_colon)) return MaskText(argument, {}, out);
  out->Add(argument.Until(value));
  if (text.empty() && (is_colon || argument[0] == '-')) {
    pending_ = is_colon ? kind : NameKind::kMaybeSecret;  // Authorization: | Bearer | X, and --token= | X
  } else if (!text.empty()) {
    MaskValue(kind, text, out);
    pending_ = NameKind::kPlain;
  }
}

size_t MaskVariable(const char* name, const char* value, char* out, size_t capacity) {
  MaskedText text(out, capacity);
  const Slice slice = Slice::Of(value);
  const NameKind kind = ClassifyName(Slice::Of(name), NamePlace::kOption);
  if (IsSecretKind(kind) && !HoldsNoSecret(slice) && IsSecretValue(kind, slice)) {
    text.AddMask();
  } else {
    MaskText(slice, {.random = kind != NameKind::kIdentifier}, &text);
  }
  return text.size();
}

}  // namespace gpumem::format
