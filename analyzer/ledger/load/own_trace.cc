// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/own_trace.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"

namespace gpumem {

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (!(file >> text)) return "";
  text = absl::StrReplaceAll(text, {{"-", ""}});
  const bool is_hex = text.size() == 32 && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
  return is_hex ? absl::HexStringToBytes(text) : "";
}

bool IsOwnTrace(const std::string& path, const ProcessInfo& process) {
  struct stat file {};
  if (process.boot_id.size() != 16 || process.boot_id != BootId()) return false;
  if (stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return false;
  return file.st_uid == geteuid() && (file.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace gpumem
