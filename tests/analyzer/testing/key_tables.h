// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The tables of docs/json.md, or of another page, that are written from what documents declare. With
// GPUMEMSHIM_UPDATE_GOLDEN in the environment they are written anew instead of compared. Needs GPUMEM_DOCS_FOLDER.
//
//   ExpectKeyTables({{"steps", StepsAnswer(input, 0)}});   // between <!-- keys of steps: ... --> and <!-- /keys -->

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_KEY_TABLES_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_KEY_TABLES_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "render/draw.h"

namespace gpumem::testing {

// `pieces` return in many answers: their keys stand in tables of their own alone; without a
// name, in one that another test holds.
using NamedDocuments = std::vector<std::pair<std::string, Document>>;
inline void ExpectKeyTablesOf(const std::string& page, const NamedDocuments& documents, const NamedDocuments& pieces) {
  const std::string path = absl::StrCat(GPUMEM_DOCS_FOLDER "/", page);
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string before = text;
  std::vector<Document> elsewhere;
  const auto write = [&](const std::string& name, const Document& document) {
    const size_t marker = text.find(absl::StrCat("<!-- keys of ", name, " "));
    ASSERT_NE(marker, std::string::npos) << name;
    const size_t begin = text.find('\n', marker) + 1, end = text.find("<!-- /keys -->", begin);
    text.replace(begin, end - begin, absl::StrCat("| field | meaning |\n|---|---|\n", KeyRows(document, elsewhere)));
  };
  for (const auto& [name, piece] : pieces) {
    if (!name.empty()) write(name, piece);
    elsewhere.push_back(piece);
  }
  for (const auto& [name, document] : documents) write(name, document);
  if (std::getenv("GPUMEMSHIM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  EXPECT_TRUE(text == before) << page
                              << " is not what the answers declare: run this test with GPUMEMSHIM_UPDATE_GOLDEN=1";
}

inline void ExpectKeyTables(const NamedDocuments& documents, const NamedDocuments& pieces = {}) {
  ExpectKeyTablesOf("json.md", documents, pieces);
}

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_KEY_TABLES_H_
