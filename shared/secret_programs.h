// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What short options of well-known programs mean, of which the letter alone says nothing: -P of unzip, -a of redis-cli,
// -w of ldapsearch. And words behind which a name and its value stand as two arguments: `aws configure set NAME VALUE`.
//
//   OptionOf("/usr/bin/unzip", "-P")     // kSecret: the next argument is one
//   OptionOf("train.py", "-P")           // kPlain
//
// Thread-safety: pure, no heap.

#ifndef GPUMEM_SHARED_SECRET_PROGRAMS_H_
#define GPUMEM_SHARED_SECRET_PROGRAMS_H_

#include "shared/secret_names.h"
#include "shared/slice.h"

namespace gpumem::format {

// What the argument behind this option of this program is; kPlain where nothing is known of it.
NameKind OptionOf(Slice program, Slice option);

// Bytes of an option that its value follows without a separator: /p: of xfreerdp. 0 where it is none.
size_t JoinedOptionSize(Slice program, Slice argument);

// set, setx, ENV and the like: a name and its value follow.
bool IntroducesSetting(Slice word);

// password, passwd, ...: words that are nothing else.
bool IsBarePasswordWord(Slice word);

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_SECRET_PROGRAMS_H_
