// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/private_names.h"

#include <gmock/gmock.h>

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/secrets.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct PrivateForm {
  std::string line;
  std::string variable;            // the name of one, whose value is the first text
  std::vector<std::string> texts;  // the arguments, but for that
  std::vector<std::string> hidden;
};

std::vector<PrivateForm> ReadPrivateForms(const std::string& name) {
  std::ifstream file(std::string(GPUMEM_SOURCE_DIR) + "/tests/analyzer/cli/bundle/" + name);
  std::vector<PrivateForm> forms;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    PrivateForm form{line, "", {}, {}};
    absl::string_view rest = line;
    const bool has_variable = absl::ConsumePrefix(&rest, "env ");
    for (std::string word : std::vector<std::string>(absl::StrSplit(rest, " ¦ "))) {
      for (size_t begin = 0; (begin = word.find("‹")) != std::string::npos;) {
        const size_t open = std::string("‹").size(), end = word.find("›", begin);
        form.hidden.push_back(word.substr(begin + open, end - begin - open));
        word.erase(end, open).erase(begin, open);
      }
      form.texts.push_back(word);
    }
    if (has_variable) {
      const std::vector<std::string> pair = absl::StrSplit(form.texts[0], absl::MaxSplits('=', 1));
      form.variable = pair[0];
      form.texts[0] = pair[1];
    }
    forms.push_back(form);
  }
  return forms;
}

// As a bundle masks a header: first all names are learned, then each text is masked.
std::vector<std::string> Masked(const PrivateForm& form) {
  Masker masker;
  std::vector<std::string> texts = WithoutSecrets(form.texts);
  if (form.variable.empty()) {
    LearnFromCommand(texts, &masker);
  } else {
    texts = form.texts;
    LearnFromVariable(form.variable, texts[0], &masker);
  }
  for (const std::string& text : texts) masker.Value(text);
  for (std::string& text : texts) text = masker.Value(text);
  return texts;
}

TEST(PrivateNamesTest, NothingOfTheTableStaysReadable) {
  const std::vector<PrivateForm> forms = ReadPrivateForms("private_forms.txt");
  ASSERT_GE(forms.size(), 150u);
  for (const PrivateForm& form : forms) {
    ASSERT_FALSE(form.hidden.empty()) << form.line;
    const std::string all = absl::AsciiStrToLower(absl::StrJoin(Masked(form), " ¦ "));
    for (const std::string& hidden : form.hidden)
      EXPECT_THAT(all, Not(HasSubstr(absl::AsciiStrToLower(hidden)))) << form.line;
  }
}

TEST(PrivateNamesTest, WhatNamesNobodyStays) {
  const std::vector<PrivateForm> forms = ReadPrivateForms("plain_forms.txt");
  ASSERT_GE(forms.size(), 40u);
  for (const PrivateForm& form : forms) EXPECT_EQ(Masked(form), form.texts) << form.line;
}

TEST(PrivateNamesTest, AnyWordsAreTaken) {
  Masker masker;
  for (const std::string& word :
       {std::string(), std::string("-"), std::string("="), std::string("--host="), std::string("@"), std::string(":"),
        std::string("\\\\"), std::string("C:\\"), std::string("~"), std::string("~a"), std::string(10000, ':'),
        std::string(10000, '\\'), std::string("user: \""), std::string("\0host=\0", 7)}) {
    LearnFromCommand({word, word, "--host", word}, &masker);
    LearnFromVariable(word, word, &masker);
    masker.Value(word);
  }
  LearnFromCommand({}, &masker);
}

}  // namespace
}  // namespace gpumem
