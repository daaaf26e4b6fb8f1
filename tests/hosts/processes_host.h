// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A victim whose life is written on its command line: words, done one after the other, with blocks in brackets for what
// a child, a thread or a new image does.
//
//   processes_host fork ( alloc:10 _exit:3 ) alloc:5 free
//
// `written` waits until the process has a trace that something is written to, `allocated:N` until N blocks are there,
// `await:FILE` until there is such a file.
//
// Used by tests/hosts/processes_test.py alone. Thread-safety: `alloc` and `free` take a lock. Failure: one line on
// stderr and exit code 70.

#ifndef GPUMEM_TESTS_HOSTS_PROCESSES_HOST_H_
#define GPUMEM_TESTS_HOSTS_PROCESSES_HOST_H_

#include <string>
#include <string_view>
#include <vector>

namespace victim {

using Words = std::vector<std::string>;

// Does them in order. May not return.
void Do(const Words& words);

// `name` and the number behind a colon: "alloc:10". 0 where there is none.
long Number(std::string_view word);

[[noreturn]] void Fail(const char* what);

// The words that make children and new images; false where `name` is none of them. `block` = the words in brackets.
bool DoChild(std::string_view name, const std::string& word, const Words& block);

// The words that end a life, or nearly.
bool DoEnding(std::string_view name, const std::string& word);
bool DoBadEnding(std::string_view name, const std::string& word);

}  // namespace victim

#endif  // GPUMEM_TESTS_HOSTS_PROCESSES_HOST_H_
