// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/mask_secrets.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/shared/forms.h"

namespace gpumem::format {
namespace {

std::vector<std::string> Masked(const std::vector<std::string>& arguments) {
  std::vector<std::string> masked;
  SecretMasker masker;
  for (const std::string& argument : arguments) {
    std::string out(MaskedCapacity(argument.size()), '#');
    out.resize(masker.Mask(argument.data(), argument.size(), out.data(), out.size()));
    masked.push_back(out);
  }
  return masked;
}

constexpr const char* kSecretTables[] = {"secret_forms.txt", "further_secret_forms.txt", "later_secret_forms.txt"};
constexpr const char* kPlainTables[] = {"harmless_forms.txt", "everyday_commands.txt"};

TEST(MaskSecrets, NoSecretOfTheTablesStaysReadable) {
  for (const char* name : kSecretTables) {
    const std::vector<Form> forms = ReadForms(name);
    ASSERT_GE(forms.size(), 200u) << name;
    for (const Form& form : forms) {
      EXPECT_EQ(Masked(form.arguments), form.masked) << form.line;
      EXPECT_NE(form.arguments, form.masked) << "nothing marked as secret: " << form.line;
    }
  }
}

TEST(MaskSecrets, WhatOnlySoundsAlikeStays) {
  for (const char* name : kPlainTables) {
    const std::vector<Form> forms = ReadForms(name);
    ASSERT_GE(forms.size(), 150u) << name;
    for (const Form& form : forms) EXPECT_EQ(Masked(form.arguments), form.arguments) << form.line;
  }
}

TEST(MaskSecrets, MaskingTwiceIsMaskingOnce) {
  for (const auto& names : {kSecretTables[0], kSecretTables[1], kSecretTables[2], kPlainTables[0], kPlainTables[1]}) {
    for (const Form& form : ReadForms(names)) EXPECT_EQ(Masked(form.masked), form.masked) << form.line;
  }
}

// Cut anywhere, into any memory, and without reading or writing a byte beyond (under the sanitizers).
TEST(MaskSecrets, AnyPrefixAndAnyCapacity) {
  std::vector<Form> forms;
  for (const char* name : kSecretTables) {
    for (Form& form : ReadForms(name)) forms.push_back(std::move(form));
  }
  for (const Form& form : forms) {
    for (const std::string& argument : form.arguments) {
      for (size_t size = 0; size <= argument.size(); ++size) {
        const std::vector<char> exact(argument.begin(), argument.begin() + static_cast<long>(size));
        std::vector<char> out(size / 2 + 1, '#');
        SecretMasker masker;
        const size_t written = masker.Mask(exact.data(), exact.size(), out.data(), out.size());
        ASSERT_LT(written, out.size());
        EXPECT_EQ(out[written], '\0');
      }
    }
  }
  SecretMasker masker;
  EXPECT_EQ(masker.Mask("x", 1, nullptr, 0), 0u);
}

TEST(MaskSecrets, NeverLongerThanItsCapacitySays) {
  for (const char* shortest : {"p=x", "-p=x", "pw=1;pw=2;pw=3", "{\"pw\":\"x\",\"pw\":\"y\"}", "?key=x&key=y&key=z"}) {
    const std::string text = shortest;
    std::string out(MaskedCapacity(text.size()), '#');
    SecretMasker masker;
    EXPECT_LT(masker.Mask(text.data(), text.size(), out.data(), out.size()), out.size() - 1) << text;
  }
}

// Work that grows with the square of a text would be seconds for these.
TEST(MaskSecrets, LongTextsAreReadOnce) {
  for (const std::string piece : {"a",
                                  "a.",
                                  "a=",
                                  "a-",
                                  "-",
                                  "sk-a-",
                                  "eyJ/",
                                  "://",
                                  "a:a",
                                  "\"",
                                  "\\\"",
                                  "{",
                                  "-----BEGIN "
                                  "PRIVATE KEY-----",
                                  "x token ",
                                  "hooks.slack.com/",
                                  "a@",
                                  "--a ",
                                  "bearer ",
                                  "' \"",
                                  "u:a@",
                                  "key=[",
                                  "a/",
                                  "-----BEGIN ",
                                  "commit   ",
                                  "set_token(",
                                  "echo x|",
                                  "password is ",
                                  "setattr(a,\"token\",",
                                  "login me password ",
                                  "ENV A_TOKEN ",
                                  "token='''",
                                  "$6$"}) {
    std::string text;
    while (text.size() < 100'000) text += piece;
    SecretMasker masker;
    std::string out(MaskedCapacity(text.size()), '#');
    EXPECT_GT(masker.Mask(text.data(), text.size(), out.data(), out.size()), 0u) << piece;
  }
}

TEST(MaskSecrets, VariablesByNameAndByValue) {
  const auto masked = [](const char* name, const char* value) {
    char out[256];
    MaskVariable(name, value, out, sizeof out);
    return std::string(out);
  };
  EXPECT_EQ(masked("HF_TOKEN", "abc"), "***");
  EXPECT_EQ(masked("HF_TOKEN", ""), "");
  EXPECT_EQ(masked("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"), "expandable_segments:True");
  EXPECT_EQ(masked("CUDA_VISIBLE_DEVICES", "GPU-123e4567-e89b-12d3-a456-426614174000"),
            "GPU-123e4567-e89b-12d3-a456-426614174000");
  EXPECT_EQ(masked("TORCHELASTIC_RUN_ID", "0123456789abcdef0123456789abcdef"), "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(masked("GPUMEMSHIM_OUTPUT", "/x/?token=abc"), "/x/?token=***");
}

}  // namespace
}  // namespace gpumem::format
