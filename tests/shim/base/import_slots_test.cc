// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/import_slots.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

namespace gpumemshim::imports {
namespace {

pid_t Answer() { return 4242; }

int TakeFirst(dl_phdr_info* info, size_t, void* data) {
  *static_cast<Object*>(data) = {info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
  return 1;
}

Object ThisProgram() {
  Object object;
  dl_iterate_phdr(&TakeFirst, &object);
  return object;
}

TEST(ImportSlots, AreThoseOfTheFunctionsThatTheProgramCalls) {
  std::set<std::string> names;
  ForEach(ThisProgram(), Which::kAll, [&](const Import& import) { names.insert(import.name); });
  EXPECT_TRUE(names.contains("getppid"));
  EXPECT_TRUE(names.contains("dl_iterate_phdr"));
  EXPECT_FALSE(names.contains("getpgrp"));  // which it does not call
}

TEST(ImportSlots, LeadWhereTheyAreToldTo) {
  const Object object = ThisProgram();
  const pid_t parent = getppid();
  uintptr_t slot = 0, before = 0;
  ForEach(object, Which::kAll, [&](const Import& import) {
    if (std::string(import.name) == "getppid") slot = import.slot;
  });
  ASSERT_NE(slot, 0U);
  before = *reinterpret_cast<const uintptr_t*>(slot);
  ASSERT_TRUE(Store(object, slot, reinterpret_cast<uintptr_t>(&Answer)));
  EXPECT_EQ(getppid(), 4242);
  ASSERT_TRUE(Store(object, slot, before));
  EXPECT_EQ(getppid(), parent);
}

TEST(ImportSlots, AnObjectWithoutADynamicSectionHasNone) {
  Object object = ThisProgram();
  object.header_count = 0;
  EXPECT_EQ(DynamicOf(object), nullptr);
  ForEach(object, Which::kAll, [](const Import&) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace gpumemshim::imports
