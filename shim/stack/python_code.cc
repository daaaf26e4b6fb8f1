// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_code.h"

#include "shim/ring/ring.h"
#include "shim/stack/memory_read.h"
#include "shim/stack/module_objects.h"

namespace gpumemshim::stack {
namespace {

constexpr int64_t kMaxLineTable = int64_t{1} << 20;

// The state word of a str object. The two bits below `kind` tell how it is interned.
struct StringState {
  uint32_t kind;  // bytes a character
  bool compact;
  bool ascii;
};

StringState ReadState(const void* object) {
  const auto word = Load<uint32_t>(object, kStringState);
  return {(word >> 2) & 7, ((word >> 5) & 1) != 0, ((word >> 6) & 1) != 0};
}

uint32_t CodePointAt(const char* data, uint32_t kind, int64_t index) {
  const auto offset = static_cast<size_t>(index) * kind;
  if (kind == 1) return Load<uint8_t>(data, offset);
  if (kind == 2) return Load<uint16_t>(data, offset);
  return Load<uint32_t>(data, offset);
}

bool HasType(const void* object, const void* type) {
  return object != nullptr && type != nullptr && Load<const void*>(object, kObjectType) == type;
}

}  // namespace

size_t EncodeUtf8(uint32_t code_point, char* out, size_t capacity) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) code_point = 0xFFFD;
  const size_t size = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  if (size > capacity) return 0;
  if (size == 1) {
    out[0] = static_cast<char>(code_point);
    return 1;
  }
  for (size_t i = size - 1; i > 0; --i) {
    out[i] = static_cast<char>(0x80 | (code_point & 0x3F));
    code_point >>= 6;
  }
  constexpr unsigned char kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  out[0] = static_cast<char>(kLead[size] | code_point);
  return size;
}

bool ReadString(const Interpreter& python, const void* object, char* buffer, size_t capacity, Text* text) {
  if (!HasType(object, python.string_type)) return false;
  const StringState state = ReadState(object);
  const auto length = Load<int64_t>(object, kObjectSize);
  if (!state.compact || length < 0 || (state.kind != 1 && state.kind != 2 && state.kind != 4)) return false;
  const auto* base = static_cast<const char*>(object);
  if (state.ascii) {
    const int64_t bound = static_cast<int64_t>(capacity);
    *text = {base + python.layout.ascii_data, static_cast<uint32_t>(length < bound ? length : bound)};
    return true;
  }
  size_t size = 0;
  for (int64_t i = 0; i < length; ++i) {
    const uint32_t code_point = CodePointAt(base + python.layout.compact_data, state.kind, i);
    const size_t written = EncodeUtf8(code_point, buffer + size, capacity - size);
    if (written == 0) break;
    size += written;
  }
  *text = {buffer, static_cast<uint32_t>(size)};
  return true;
}

CodeResult SendCode(const Interpreter& python, const void* code, uint64_t key) {
  const PythonLayout& layout = python.layout;
  char filename_buffer[kMaxFilename];
  char name_buffer[kMaxName];
  Text filename{"<unreadable>", 12};
  Text name{"<unreadable>", 12};
  ring::RawCode raw{};
  bool readable = HasType(code, python.code_type);
  if (readable) {
    readable =
        ReadString(python, Load<const void*>(code, layout.code_filename), filename_buffer, kMaxFilename, &filename) &&
        ReadString(python, Load<const void*>(code, layout.code_qualname), name_buffer, kMaxName, &name);
    raw.first_line = Load<uint32_t>(code, layout.code_first_line);
    const void* table = Load<const void*>(code, layout.code_line_table);
    const auto size = HasType(table, python.bytes_type) ? Load<int64_t>(table, kObjectSize) : 0;
    if (size > 0 && size <= kMaxLineTable) {
      raw.line_table = static_cast<const char*>(table) + kBytesData;
      raw.line_table_size = static_cast<uint32_t>(size);
    }
  }
  if (readable) NoteModuleCall(layout, code, name.data, name.size, filename.data, filename.size);
  raw.key = key;
  raw.filename = filename.data;
  raw.filename_size = filename.size;
  raw.name = name.data;
  raw.name_size = name.size;
  raw.python_minor = layout.minor;
  if (!ring::RecordCode(raw)) return CodeResult::kNoRoom;
  return readable ? CodeResult::kSent : CodeResult::kUnreadable;
}

}  // namespace gpumemshim::stack
