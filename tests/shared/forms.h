// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The tables of command lines with and without secrets (secret_forms.txt, harmless_forms.txt) that everything which
// masks is tested with.
//
//   for (const Form& form : ReadForms("secret_forms.txt"))
//     EXPECT_EQ(Masked(form.arguments), form.masked) << form.line;

#ifndef GPUMEM_TESTS_SHARED_FORMS_H_
#define GPUMEM_TESTS_SHARED_FORMS_H_

#include <fstream>
#include <string>
#include <vector>

namespace gpumem::format {

struct Form {
  std::string line;
  std::vector<std::string> arguments;
  std::vector<std::string> masked;  // "***" for each secret
};

inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

inline std::string WithMasks(std::string text) {
  for (size_t begin = 0; (begin = text.find("‹")) != std::string::npos;) {
    const size_t end = text.find("›", begin) + std::string("›").size();
    text.replace(begin, end - begin, "***");
  }
  return text;
}

inline std::vector<Form> ReadForms(const std::string& name) {
  std::ifstream file(std::string(GPUMEM_SOURCE_DIR) + "/tests/shared/" + name);
  std::vector<Form> forms;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Form form{line, {}, {}};
    line = Replaced(Replaced(line, "⏎", "\n"), "·", "");
    for (size_t at = 0; at != std::string::npos;) {
      const std::string separator = " ¦ ";
      const size_t end = line.find(separator, at);
      const std::string word = line.substr(at, end == std::string::npos ? end : end - at);
      form.arguments.push_back(Replaced(Replaced(word, "‹", ""), "›", ""));
      form.masked.push_back(WithMasks(word));
      at = end == std::string::npos ? end : end + separator.size();
    }
    forms.push_back(std::move(form));
  }
  return forms;
}

}  // namespace gpumem::format

#endif  // GPUMEM_TESTS_SHARED_FORMS_H_
