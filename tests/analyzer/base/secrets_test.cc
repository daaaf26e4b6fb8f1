// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shared/forms.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;

TEST(SecretsTest, TheAnalyzerMasksAsTheRecorderDoes) {
  for (const char* name : {"secret_forms.txt", "later_secret_forms.txt"}) {
    for (const format::Form& form : format::ReadForms(name))
      EXPECT_EQ(WithoutSecrets(form.arguments), form.masked) << form.line;
  }
}

TEST(SecretsTest, InAnyText) {
  EXPECT_EQ(WithoutSecretsIn("shelf[n] = store(out, password=\"x y\")"), "shelf[n] = store(out, password=\"***\")");
  EXPECT_EQ(WithoutSecretsIn("os.environ[\"DB_PASSWORD\"] = \"x\""), "os.environ[\"DB_PASSWORD\"] = \"***\"");
  EXPECT_EQ(WithoutSecretsIn("losses.append(loss)  # key of it"), "losses.append(loss)  # key of it");
  EXPECT_EQ(WithoutSecretsIn(""), "");
}

TEST(SecretsTest, WhatOnlySoundsAlikeStays) {
  for (const format::Form& form : format::ReadForms("harmless_forms.txt"))
    EXPECT_EQ(WithoutSecrets(form.arguments), form.arguments) << form.line;
  EXPECT_THAT(WithoutSecrets({}), ElementsAre());
  EXPECT_THAT(WithoutSecrets({"", "x"}), ElementsAre("", "x"));
}

TEST(SecretsTest, Variables) {
  EXPECT_EQ(WithoutSecrets("WANDB_API_KEY", "x"), "***");
  EXPECT_EQ(WithoutSecrets("batch_size", "8"), "8");
}

}  // namespace
}  // namespace gpumem
