// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Masker: takes out of texts what a stranger should not read: secrets (docs/secrets.md), folders, names of users and
// hosts, URLs, addresses of machines and people, serial numbers of GPUs. One for all texts that belong together: a
// folder gets the same number in all of them.
//
//   Masker masker;
//   masker.AddUser("alice");
//   masker.Text("/home/alice/secret/train.py:24 on https://git.example/x")    // "/dir1/train.py:24 on https://***"
//
// docs/commands/bundle.md says what is masked and what cannot be. Failure: masks too much rather than too little.
// Masking what is masked changes nothing. Not thread-safe.

#ifndef GPUMEM_ANALYZER_CLI_BUNDLE_MASKER_H_
#define GPUMEM_ANALYZER_CLI_BUNDLE_MASKER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

enum class MaskedKind { kSecret, kFolder, kUser, kHost, kUrl, kAddress, kMail, kDeviceId };
constexpr size_t kMaskedKinds = 8;
// "secrets", "folders", ...
absl::string_view MaskedKindName(MaskedKind kind);

class Masker {
 public:
  // Whole words from now on, in any case; what everybody's machine may be called ("root", "localhost") is left alone.
  // Of a host with a domain each of the two, too.
  void AddUser(absl::string_view name);
  void AddHost(absl::string_view name);
  // A folder that may hold blanks, by which no path could be told from the words behind it.
  void AddFolder(absl::string_view path);

  // Anything, also of several lines.
  std::string Text(absl::string_view text);
  // One value: where it begins like an absolute path it is one as a whole, blanks and all.
  std::string Value(absl::string_view text);
  // What was made of masked texts, or names code: long identifiers and version numbers stay, the rest is masked.
  std::string Names(absl::string_view text);

  // Each thing that was replaced, once, with what is in its place: for the eyes of whoever has the original.
  struct Replaced {
    MaskedKind kind;
    std::string with;
  };
  const std::map<std::string, Replaced>& replaced() const { return replaced_; }
  uint64_t count(MaskedKind kind) const;

 private:
  struct Known {
    std::string name;
    MaskedKind kind;
  };
  void Add(absl::string_view name, MaskedKind kind);
  std::string Replace(absl::string_view what, MaskedKind kind, std::string with);
  std::string Path(absl::string_view path);
  std::string Folder(absl::string_view folder);
  std::string WithoutSecrets(absl::string_view text);
  std::string WithoutFolders(absl::string_view text);
  std::string WithoutPlaces(absl::string_view text, bool numbers_are_addresses);
  std::string WithoutKnown(absl::string_view text);
  std::string WindowsPath(absl::string_view path);
  std::string Url(absl::string_view scheme, absl::string_view place);
  std::string Word(absl::string_view word, bool numbers_are_addresses);

  std::vector<Known> known_;  // longest first
  std::vector<std::string> folders_;
  std::map<std::string, Replaced> replaced_;
  uint64_t folder_count_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_BUNDLE_MASKER_H_
