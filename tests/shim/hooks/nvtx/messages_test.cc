// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/nvtx/messages.h"

#include <gtest/gtest.h>

#include <string>

namespace gpumemshim::nvtx {
namespace {

nvtxEventAttributes_t Event(int32_t type) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = type;
  return event;
}

std::string TextOf(const nvtxEventAttributes_t* event, nvtxDomainHandle_t domain = nullptr) {
  Message message;
  ReadMessage(event, domain, &message);
  return std::string(message.text, message.size);
}

TEST(NvtxMessages, EachForm) {
  nvtxEventAttributes_t event = Event(NVTX_MESSAGE_TYPE_ASCII);
  event.message.ascii = "plain";
  EXPECT_EQ(TextOf(&event), "plain");
  event = Event(NVTX_MESSAGE_TYPE_UNICODE);
  event.message.unicode = L"a\u00fc\u20ac\U0001F600";
  EXPECT_EQ(TextOf(&event), "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
  event = Event(NVTX_MESSAGE_TYPE_REGISTERED);
  event.message.registered = AddString("kept");
  EXPECT_EQ(TextOf(&event), "kept");
  event.message.registered = AddString(L"wide");
  EXPECT_EQ(TextOf(&event, AddDomain("NCCL")), "NCCL:wide");
}

TEST(NvtxMessages, WhatMakesNoSense) {
  EXPECT_EQ(TextOf(nullptr), "");
  nvtxEventAttributes_t event = Event(NVTX_MESSAGE_TYPE_ASCII);
  EXPECT_EQ(TextOf(&event), "");  // no text
  event.message.ascii = "old";
  event.size = 8;  // ends before the message
  EXPECT_EQ(TextOf(&event), "");
  event = Event(99);
  EXPECT_EQ(TextOf(&event), "");
  event = Event(NVTX_MESSAGE_TYPE_REGISTERED);
  event.message.registered = reinterpret_cast<nvtxStringHandle_t>(&event);  // another tool's handle
  EXPECT_EQ(TextOf(&event, reinterpret_cast<nvtxDomainHandle_t>(&event)), "");
}

TEST(NvtxMessages, LongAndBrokenTexts) {
  const std::string endless(5000, 'x');
  nvtxEventAttributes_t event = Event(NVTX_MESSAGE_TYPE_ASCII);
  event.message.ascii = endless.c_str();
  EXPECT_EQ(TextOf(&event).size(), sizeof(Message::text));
  const std::wstring wide(5000, L'\u20ac');
  event = Event(NVTX_MESSAGE_TYPE_UNICODE);
  event.message.unicode = wide.c_str();
  EXPECT_LE(TextOf(&event).size(), sizeof(Message::text));
  const wchar_t surrogate[] = {static_cast<wchar_t>(0xd800), static_cast<wchar_t>(0x7fffffff), L'\0'};
  event.message.unicode = surrogate;
  EXPECT_EQ(TextOf(&event), "??");
}

TEST(NvtxMessages, AFullTableGivesNoHandles) {
  nvtxStringHandle_t last = AddString("x");
  for (int i = 0; i < 5000; ++i) last = AddString("x");
  EXPECT_EQ(last, nullptr);
  nvtxEventAttributes_t event = Event(NVTX_MESSAGE_TYPE_REGISTERED);
  event.message.registered = last;
  EXPECT_EQ(TextOf(&event), "");
}

}  // namespace
}  // namespace gpumemshim::nvtx
