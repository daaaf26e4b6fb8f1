// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/nvtx/messages.h"

#include <atomic>
#include <cstring>

namespace gpumemshim::nvtx {
namespace {

template <size_t kBytes>
struct Entry {
  std::atomic<uint32_t> size{0};
  char text[kBytes] = {};
};

using Domain = Entry<60>;
using String = Entry<124>;

// Entries are never given back: handles may be used until the end.
template <typename T, size_t kCount>
struct Table {
  std::atomic<size_t> taken{0};
  T entries[kCount] = {};

  T* Add(const Message& message) {
    if (taken.load(std::memory_order_relaxed) >= kCount) return nullptr;
    const size_t index = taken.fetch_add(1, std::memory_order_relaxed);
    if (index >= kCount) return nullptr;
    T& entry = entries[index];
    const size_t size = message.size < sizeof entry.text ? message.size : sizeof entry.text;
    std::memcpy(entry.text, message.text, size);
    entry.size.store(static_cast<uint32_t>(size), std::memory_order_release);
    return &entry;
  }

  const T* Find(const void* handle) const {
    const auto* entry = static_cast<const T*>(handle);
    return entry >= entries && entry < entries + kCount ? entry : nullptr;
  }
};

constinit Table<Domain, 64> g_domains;
constinit Table<String, 2048> g_strings;

void Append(const char* text, size_t size, Message* out) {
  const size_t room = sizeof out->text - out->size;
  if (size > room) size = room;
  std::memcpy(out->text + out->size, text, size);
  out->size += size;
}

void Append(const char* text, Message* out) {
  if (text != nullptr) Append(text, strnlen(text, sizeof out->text), out);
}

size_t EncodeUtf8(uint32_t c, char* out) {
  if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000)) c = '?';
  if (c < 0x80) {
    out[0] = static_cast<char>(c);
    return 1;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr uint8_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out[0] = static_cast<char>(kLead[more] | c >> (6 * more));
  for (int i = 1; i <= more; ++i) out[i] = static_cast<char>(0x80 | (c >> (6 * (more - i)) & 0x3f));
  return static_cast<size_t>(more) + 1;
}

void Append(const wchar_t* text, Message* out) {
  for (; text != nullptr && *text != L'\0' && sizeof out->text - out->size >= 4; ++text) {
    out->size += EncodeUtf8(static_cast<uint32_t>(*text), out->text + out->size);
  }
}

template <typename T>
void Append(const T* entry, Message* out) {
  if (entry != nullptr) Append(entry->text, entry->size.load(std::memory_order_acquire), out);
}

// An older caller's attributes may end before the message.
bool HasMessage(const nvtxEventAttributes_t* attributes) {
  constexpr size_t kNeeded = offsetof(nvtxEventAttributes_t, message) + sizeof attributes->message;
  return attributes != nullptr && attributes->size >= kNeeded;
}

}  // namespace

void ReadMessage(const char* text, Message* out) {
  out->size = 0;
  Append(text, out);
}

void ReadMessage(const wchar_t* text, Message* out) {
  out->size = 0;
  Append(text, out);
}

void ReadMessage(const nvtxEventAttributes_t* attributes, nvtxDomainHandle_t domain, Message* out) {
  out->size = 0;
  if (const Domain* entry = g_domains.Find(domain)) {
    Append(entry, out);
    Append(":", 1, out);
  }
  if (!HasMessage(attributes)) return;
  switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      Append(attributes->message.ascii, out);
      break;
    case NVTX_MESSAGE_TYPE_UNICODE:
      Append(attributes->message.unicode, out);
      break;
    case NVTX_MESSAGE_TYPE_REGISTERED:
      Append(g_strings.Find(attributes->message.registered), out);
      break;
    default:
      break;
  }
}

template <typename Text>
static Message MessageOf(const Text* text) {
  Message message;
  ReadMessage(text, &message);
  return message;
}

nvtxDomainHandle_t AddDomain(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(g_domains.Add(MessageOf(name)));
}
nvtxDomainHandle_t AddDomain(const wchar_t* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(g_domains.Add(MessageOf(name)));
}
nvtxStringHandle_t AddString(const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(g_strings.Add(MessageOf(text)));
}
nvtxStringHandle_t AddString(const wchar_t* text) {
  return reinterpret_cast<nvtxStringHandle_t>(g_strings.Add(MessageOf(text)));
}

}  // namespace gpumemshim::nvtx
