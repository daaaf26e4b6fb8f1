// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/masker.h"

#include <arpa/inet.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/secrets.h"
#include "cli/bundle/masked_path.h"

namespace gpumem {
namespace {

constexpr absl::string_view kMask = "***";
// Names of users and hosts that say nothing, or that reports are full of.
constexpr absl::string_view kCommonNames[] = {"root", "user",   "users",      "home",  "admin",     "ubuntu", "nobody",
                                              "app",  "jovyan", "train",      "torch", "localhost", "python", "cuda",
                                              "gpu",  "gpumem", "gpumemshim", "data",  "dir",       "test",   "node",
                                              "host", "docker", "worker",     "main",  "build",     "runner"};

bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || static_cast<signed char>(c) < 0; }
bool IsSpace(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }
bool EndsPath(char c) { return IsSpace(c) || absl::string_view("\"'<>|;,:)]}`*").find(c) != absl::string_view::npos; }
bool EndsUrl(char c) { return IsSpace(c) || absl::string_view("\"'<>`|").find(c) != absl::string_view::npos; }
bool IsOfWord(char c) { return IsAlnum(c) || absl::string_view("._%+-@:").find(c) != absl::string_view::npos; }

// Whether an absolute path may begin here: not in the middle of a word, of a URL or of another path.
bool BeginsPath(absl::string_view text, size_t at) {
  constexpr absl::string_view kInside = "._~/*-";
  if (text[at] != '/' || at + 1 == text.size()) return false;
  if (!IsAlnum(text[at + 1]) && absl::string_view("._~").find(text[at + 1]) == absl::string_view::npos) return false;
  return at == 0 || (!IsAlnum(text[at - 1]) && kInside.find(text[at - 1]) == absl::string_view::npos);
}

// Size of the path of Windows that begins here: C:\\x, also with each backslash twice, and \\server\x. 0 where none
// does. It may hold blanks, where a backslash follows them.
size_t WindowsPathSize(absl::string_view text, size_t at) {
  const absl::string_view rest = text.substr(at);
  const bool is_begin = at == 0 || (!IsAlnum(text[at - 1]) && text[at - 1] != '\\');
  const bool has_drive = rest.size() > 3 && absl::ascii_isalpha(static_cast<unsigned char>(rest[0])) &&
                         rest[1] == ':' && (rest[2] == '\\' || (rest[2] == '/' && rest[3] != '/'));
  const bool has_server =
      rest.size() > 3 && rest[0] == '\\' && rest[1] == '\\' && (IsAlnum(rest[2]) || rest[2] == '\\' || rest[2] == '?');
  if (!is_begin || (!has_drive && !has_server)) return 0;
  constexpr absl::string_view kEnds = "\"'<>|*?\n\t;,)]}";
  size_t end = has_server ? 3 : 2;
  while (end < rest.size() && kEnds.find(rest[end]) == absl::string_view::npos) ++end;
  const size_t last = rest.substr(0, end).find_last_of("\\/");
  const size_t blank = rest.substr(0, end).find(' ', last);
  return std::min(blank, end);
}

bool IsAddress(const std::string& word) {
  unsigned char bytes[sizeof(in6_addr)];
  if (inet_pton(AF_INET, word.c_str(), bytes) == 1) return bytes[0] != 127 && bytes[0] != 0;
  const bool has_digit = std::any_of(word.begin(), word.end(), [](char c) { return absl::ascii_isdigit(c); });
  if (has_digit && word != "::1" && inet_pton(AF_INET6, word.c_str(), bytes) == 1) return true;
  const bool is_mac = word.size() == 17 && std::all_of(word.begin(), word.end(), [&](const char& c) {
                        return (&c - word.data()) % 3 == 2 ? c == ':' : absl::ascii_isxdigit(c);
                      });
  return is_mac;
}

// "/dir12"
bool IsMaskedFolder(absl::string_view folder) {
  return absl::ConsumePrefix(&folder, "/dir") && !folder.empty() &&
         std::all_of(folder.begin(), folder.end(), [](char c) { return absl::ascii_isdigit(c); });
}

// "name@host.example": of people, and of machines that one logs in to. No version ("torch@2.1") and no decorator.
bool IsMail(absl::string_view word) {
  const size_t at = word.find('@');
  if (at == absl::string_view::npos || at == 0 || at + 1 == word.size()) return false;
  return absl::ascii_isalpha(static_cast<unsigned char>(word[at + 1]));
}

}  // namespace

absl::string_view MaskedKindName(MaskedKind kind) {
  constexpr absl::string_view kNames[] = {"secrets", "folders",   "users", "hosts",
                                          "urls",    "addresses", "mails", "gpu_ids"};
  static_assert(std::size(kNames) == kMaskedKinds);
  return kNames[static_cast<size_t>(kind)];
}

uint64_t Masker::count(MaskedKind kind) const {
  return static_cast<uint64_t>(
      std::count_if(replaced_.begin(), replaced_.end(), [kind](const auto& each) { return each.second.kind == kind; }));
}

void Masker::Add(absl::string_view name, MaskedKind kind) {
  const std::string lower = absl::AsciiStrToLower(name);
  const bool common = std::find(std::begin(kCommonNames), std::end(kCommonNames), lower) != std::end(kCommonNames);
  const bool listed = std::any_of(known_.begin(), known_.end(), [&](const Known& each) { return each.name == lower; });
  if (lower.size() < 2 || common || listed || absl::StrContains(lower, kMask)) return;
  known_.push_back({lower, kind});
  std::stable_sort(known_.begin(), known_.end(),
                   [](const Known& a, const Known& b) { return a.name.size() > b.name.size(); });
}

void Masker::AddUser(absl::string_view name) { Add(name, MaskedKind::kUser); }

void Masker::AddHost(absl::string_view name) {
  Add(name, MaskedKind::kHost);
  const size_t dot = name.find('.');
  Add(name.substr(0, dot), MaskedKind::kHost);
  if (dot == absl::string_view::npos) return;
  const absl::string_view domain = name.substr(dot + 1);
  if (absl::StrContains(domain, '.')) Add(domain, MaskedKind::kHost);  // "local" alone says nothing
}

void Masker::AddFolder(absl::string_view path) {
  while (absl::ConsumeSuffix(&path, "/")) {
  }
  const std::string as_folder = absl::StrCat(path, "/");
  const absl::string_view folder = absl::StripSuffix(SplitPath(as_folder).folder, "/");
  if (!absl::StartsWith(folder, "/") || folder.size() < 2) return;
  AddUser(UserOfPath(folder));
  if (std::find(folders_.begin(), folders_.end(), folder) != folders_.end()) return;
  folders_.emplace_back(folder);
  std::sort(folders_.begin(), folders_.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

std::string Masker::Replace(absl::string_view what, MaskedKind kind, std::string with) {
  return replaced_.try_emplace(std::string(what), Replaced{kind, std::move(with)}).first->second.with;
}

std::string Masker::Path(absl::string_view path) {
  AddUser(UserOfPath(path));
  const SplitPathResult split = SplitPath(path);
  if (split.folder.empty() || IsMaskedFolder(split.folder)) return std::string(path);
  return absl::StrCat(Folder(split.folder), split.kept);
}

std::string Masker::Folder(absl::string_view folder) {
  const auto found = replaced_.find(std::string(folder));
  if (found != replaced_.end()) return found->second.with;
  return Replace(folder, MaskedKind::kFolder, absl::StrCat("/dir", ++folder_count_));
}

std::string Masker::WithoutSecrets(absl::string_view text) {
  std::string masked = WithoutSecretsIn(text);
  if (masked != text) Replace(text, MaskedKind::kSecret, masked);
  return masked;
}

std::string Masker::WithoutFolders(absl::string_view text) {
  std::string out(text);
  for (const std::string& folder : folders_) {
    for (size_t at = out.find(folder); at != std::string::npos; at = out.find(folder, at + 1)) {
      const size_t end = at + folder.size();
      const bool is_whole = (end == out.size() || (!IsAlnum(out[end]) && out[end] != '_' && out[end] != '-')) &&
                            (at == 0 || (!IsAlnum(out[at - 1]) && out[at - 1] != '/' && out[at - 1] != '.'));
      if (is_whole) out.replace(at, folder.size(), Folder(folder));
    }
  }
  return out;
}

std::string Masker::Word(absl::string_view word, bool numbers_are_addresses) {
  absl::string_view end;  // a sentence's
  while (!word.empty() && absl::string_view(".:-").find(word.back()) != absl::string_view::npos) {
    end = absl::string_view(word.end() - 1, end.size() + 1);
    word.remove_suffix(1);
  }
  const auto with = [&](MaskedKind kind, absl::string_view mask) {
    return absl::StrCat(Replace(word, kind, std::string(mask)), end);
  };
  if (absl::StartsWith(word, "GPU-") && word.size() >= 12) return with(MaskedKind::kDeviceId, "GPU-***");
  if (absl::StartsWith(word, "MIG-") && word.size() >= 12) return with(MaskedKind::kDeviceId, "MIG-***");
  if (IsMail(word)) return with(MaskedKind::kMail, "***@***");
  if (!numbers_are_addresses) return absl::StrCat(word, end);
  if (IsAddress(std::string(word))) return with(MaskedKind::kAddress, kMask);
  const size_t port = word.rfind(':');
  if (port != absl::string_view::npos && IsAddress(std::string(word.substr(0, port))))
    return absl::StrCat(Replace(word.substr(0, port), MaskedKind::kAddress, std::string(kMask)), word.substr(port),
                        end);
  return absl::StrCat(word, end);
}

// Its folder as of any path; the name of a file with an ending stays.
std::string Masker::WindowsPath(absl::string_view path) {
  AddUser(UserOfPath(path));
  const size_t name = path.find_last_of("\\/") + 1;
  const bool has_ending = path.find('.', name) != absl::string_view::npos;
  return has_ending ? absl::StrCat(Folder(path.substr(0, name - 1)), "/", path.substr(name)) : Folder(path);
}

// ~name/x, and ~name behind a blank. 0 where none is here.
size_t HomeOfSize(absl::string_view text, size_t at) {
  if (text[at] != '~' || (at > 0 && (IsAlnum(text[at - 1]) || text[at - 1] == '/' || text[at - 1] == '.'))) return 0;
  size_t end = at + 1;
  while (end < text.size() && (IsAlnum(text[end]) || text[end] == '_' || text[end] == '-' || text[end] == '.')) ++end;
  const bool is_name = end > at + 1 && absl::ascii_isalpha(static_cast<unsigned char>(text[at + 1]));
  const bool is_home = end < text.size() && text[end] == '/';
  return is_name && (is_home || (at > 0 && (IsSpace(text[at - 1]) || text[at - 1] == '='))) ? end - at : 0;
}

std::string Masker::WithoutPlaces(absl::string_view text, bool numbers_are_addresses) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (const size_t size = WindowsPathSize(text, at); size > 0) {
      absl::StrAppend(&out, WindowsPath(text.substr(at, size)));
      at += size;
    } else if (const size_t home = HomeOfSize(text, at); home > 0) {
      AddUser(text.substr(at + 1, home - 1));
      absl::StrAppend(&out, "~", Replace(text.substr(at + 1, home - 1), MaskedKind::kUser, std::string(kMask)));
      at += home;
    } else if (BeginsPath(text, at)) {
      while (at < text.size() && !EndsPath(text[at])) ++at;
      const absl::string_view path = text.substr(begin, at - begin);
      const bool has_folder = path.find('/', 1) != absl::string_view::npos;  // "MiB /step" has none
      absl::StrAppend(&out, has_folder ? Path(path) : std::string(path));
    } else if (!IsOfWord(text[at])) {
      out.push_back(text[at++]);
    } else {
      while (at < text.size() && IsOfWord(text[at]) && (at == begin || WindowsPathSize(text, at) == 0)) ++at;
      const absl::string_view word = text.substr(begin, at - begin);
      const bool is_url = absl::EndsWith(word, ":") && absl::StartsWith(text.substr(at), "//");
      absl::StrAppend(&out, is_url ? std::string(word) : Word(word, numbers_are_addresses));
      if (!is_url) continue;
      at += 2;
      const size_t place = at;
      while (at < text.size() && !EndsUrl(text[at])) ++at;
      absl::StrAppend(&out, "//", Url(word, text.substr(place, at - place)));
    }
  }
  return out;
}

std::string Masker::Url(absl::string_view scheme, absl::string_view place) {
  if (scheme == "file:") return Path(place);
  return place.empty() || place == kMask ? std::string(place) : Replace(place, MaskedKind::kUrl, std::string(kMask));
}

std::string Masker::WithoutKnown(absl::string_view text) {
  std::string out(text);
  for (const Known& each : known_) {
    std::string lower = absl::AsciiStrToLower(out);
    for (size_t at = lower.find(each.name); at != std::string::npos; at = lower.find(each.name, at)) {
      const size_t end = at + each.name.size();
      const bool is_word = (at == 0 || !IsAlnum(lower[at - 1])) && (end == lower.size() || !IsAlnum(lower[end]));
      if (!is_word) {
        at = end;
        continue;
      }
      const std::string with = Replace(out.substr(at, each.name.size()), each.kind, std::string(kMask));
      out.replace(at, each.name.size(), with);
      lower.replace(at, each.name.size(), with);
      at += with.size();
    }
  }
  return out;
}

std::string Masker::Text(absl::string_view text) {
  return WithoutKnown(WithoutPlaces(WithoutFolders(WithoutSecrets(text)), true));
}

std::string Masker::Value(absl::string_view text) {
  const bool is_path =
      text.size() > 1 && text[0] == '/' && text[1] != '/' && text.find('\n') == absl::string_view::npos;
  if (!is_path) return Text(text);
  return WithoutKnown(Path(WithoutFolders(WithoutSecrets(text))));
}

std::string Masker::Names(absl::string_view text) { return WithoutKnown(WithoutPlaces(WithoutFolders(text), false)); }

}  // namespace gpumem
