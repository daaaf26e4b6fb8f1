// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/secret_programs.h"

#include <initializer_list>

namespace gpumem::format {
namespace {

struct ProgramOption {
  const char* program;
  const char* option;
  NameKind kind;
};

constexpr ProgramOption kOptions[] = {
    {"zip", "-P", NameKind::kSecret},
    {"unzip", "-P", NameKind::kSecret},
    {"redis-cli", "-a", NameKind::kSecret},
    {"valkey-cli", "-a", NameKind::kSecret},
    {"ldapsearch", "-w", NameKind::kSecret},
    {"ldapmodify", "-w", NameKind::kSecret},
    {"ldapadd", "-w", NameKind::kSecret},
    {"ldapwhoami", "-w", NameKind::kSecret},
    {"sqlcmd", "-P", NameKind::kSecret},
    {"bcp", "-P", NameKind::kSecret},
    {"tsql", "-P", NameKind::kSecret},
    {"ipmitool", "-P", NameKind::kSecret},
    {"ssh-keygen", "-N", NameKind::kSecret},
    {"ssh-keygen", "-P", NameKind::kSecret},
    {"snmpwalk", "-A", NameKind::kSecret},
    {"snmpwalk", "-X", NameKind::kSecret},
    {"snmpget", "-A", NameKind::kSecret},
    {"snmpget", "-X", NameKind::kSecret},
    {"mosquitto_pub", "-P", NameKind::kSecret},
    {"mosquitto_sub", "-P", NameKind::kSecret},
    {"http", "-a", NameKind::kUser},
    {"https", "-a", NameKind::kUser},
    {"xh", "-a", NameKind::kUser},
    {"lftp", "-u", NameKind::kUser},
    {"openssl", "-k", NameKind::kSecret},
    {"openssl", "-K", NameKind::kSecret},
    {"rdesktop", "-p", NameKind::kSecret},
    {"cadaver", "-p", NameKind::kSecret},
    {"curl", "-E", NameKind::kUser},
    {"curl", "--cert", NameKind::kUser},
    {"curl", "--key-pass", NameKind::kSecret},
    {"curl", "-b", NameKind::kHeader},
    {"pdftotext", "-upw", NameKind::kSecret},
    {"qpdf", "--password", NameKind::kSecret},
    {"vncviewer", "-passwd", NameKind::kMaybeSecret},
};

constexpr ProgramOption kJoined[] = {
    {"sshpass", "-p", NameKind::kSecret},   {"mysql", "-p", NameKind::kSecret},
    {"mysqldump", "-p", NameKind::kSecret}, {"mysqladmin", "-p", NameKind::kSecret},
    {"mariadb", "-p", NameKind::kSecret},   {"7z", "-p", NameKind::kSecret},
    {"7za", "-p", NameKind::kSecret},       {"rar", "-p", NameKind::kSecret},
    {"unrar", "-p", NameKind::kSecret},     {"xfreerdp", "/p:", NameKind::kSecret},
    {"wfreerdp", "/p:", NameKind::kSecret}, {"xfreerdp3", "/p:", NameKind::kSecret},
};

// Without its folders.
Slice NameOf(Slice program) {
  size_t at = program.size;
  while (at > 0 && program[at - 1] != '/') --at;
  return program.From(at);
}

bool IsAnyOf(Slice word, std::initializer_list<const char*> list) {
  for (const char* each : list) {
    if (word.IsIgnoringCase(each)) return true;
  }
  return false;
}

bool Is(Slice text, const char* word) { return text.size == std::strlen(word) && text.StartsWith(word); }

}  // namespace

NameKind OptionOf(Slice program, Slice option) {
  if (option[0] != '-') return NameKind::kPlain;
  for (const ProgramOption& each : kOptions) {
    if (Is(option, each.option) && Is(NameOf(program), each.program)) return each.kind;
  }
  return NameKind::kPlain;
}

size_t JoinedOptionSize(Slice program, Slice argument) {
  for (const ProgramOption& each : kJoined) {
    if (argument.StartsWith(each.option) && Is(NameOf(program), each.program)) return std::strlen(each.option);
  }
  return 0;
}

bool IntroducesSetting(Slice word) {
  return IsAnyOf(word,
                 {"set", "setx", "env", "setenv", "-x", "-gx", "-Ux", "-env", "-genv", "put", "put-secret", "modify"});
}

bool IsBarePasswordWord(Slice word) { return IsAnyOf(word, {"password", "passwd", "passphrase", "passwort"}); }

}  // namespace gpumem::format
