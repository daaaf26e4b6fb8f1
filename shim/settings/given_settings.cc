// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/given_settings.h"

#include <string.h>

#include <atomic>
#include <cstdlib>

namespace gpumemshim::control {
namespace {

constexpr size_t kMaxBytes = 3072;

// "NAME=VALUE" one behind the other, each with its end; an empty one is the last.
char g_text[kMaxBytes + 2];
std::atomic<bool> g_given;

}  // namespace

void GiveSettings(const char* lines) {
  const size_t size = lines == nullptr ? 0 : strnlen(lines, kMaxBytes);
  for (size_t i = 0; i < size; ++i) g_text[i] = lines[i] == '\n' ? '\0' : lines[i];
  g_text[size] = g_text[size + 1] = '\0';
  g_given.store(true, std::memory_order_release);
}

const char* GivenSetting(const char* name) {
  if (!g_given.load(std::memory_order_acquire)) return nullptr;
  const size_t size = strlen(name);
  for (const char* at = g_text; *at != '\0'; at += strlen(at) + 1) {
    if (strncmp(at, name, size) == 0 && at[size] == '=') return at + size + 1;
  }
  return nullptr;
}

const char* SettingOf(const char* name) {
  const char* given = GivenSetting(name);
  return given != nullptr ? given : std::getenv(name);
}

}  // namespace gpumemshim::control
