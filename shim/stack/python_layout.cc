// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_layout.h"

#include <cstring>

#include "shim/stack/memory_read.h"

namespace gpumemshim::stack {
namespace {

constexpr char kCookie[] = "xdebugpy";
constexpr uint64_t kGreatestOffset = 4096;  // of a field that we read

// Where the table of one version has what: numbers of 8-byte words.
struct Words {
  int minor;
  uint8_t current_frame, native_thread_id;
  uint8_t previous, executable, instruction, locals, owner;
  uint8_t filename, name, qualname, line_table, first_line, bytecode;
  uint8_t object_type, bytes_size, bytes_data, string_state, string_length, ascii_size;
};
constexpr Words kWords[] = {
    {13, 23, 25, 29, 30, 31, 32, 33, 35, 36, 37, 38, 39, 43, 45, 65, 66, 68, 69, 70},
    {14, 26, 28, 32, 33, 34, 35, 36, 40, 41, 42, 43, 44, 48, 51, 75, 76, 78, 79, 80},
    {15, 26, 31, 40, 41, 42, 43, 44, 48, 49, 50, 51, 52, 56, 59, 87, 88, 90, 91, 92},
};

const Words* FindWords(int minor) {
  for (const Words& words : kWords) {
    if (words.minor == minor) return &words;
  }
  return nullptr;
}

class Table {
 public:
  explicit Table(const void* start) : start_(start) {}
  bool ok() const { return ok_; }

  uint64_t Word(uint8_t index) {
    uint64_t value = 0;
    ok_ = TryRead(start_, size_t{index} * sizeof value, &value) && ok_;
    return value;
  }
  uint16_t Offset(uint8_t index) {
    const uint64_t value = Word(index);
    ok_ = ok_ && value < kGreatestOffset;
    return static_cast<uint16_t>(value);
  }

 private:
  const void* start_;
  bool ok_ = true;
};

bool HasReleasedObjects(Table* table, const Words& words) {
  return table->Offset(words.object_type) == kObjectType && table->Offset(words.bytes_size) == kObjectSize &&
         table->Offset(words.bytes_data) == kBytesData && table->Offset(words.string_state) == kStringState &&
         table->Offset(words.string_length) == kObjectSize;
}

PythonLayout Apply(Table* table, const Words& words, const PythonLayout& known) {
  PythonLayout layout = known;
  layout.thread_frame = table->Offset(words.current_frame);
  layout.thread_id = table->Offset(words.native_thread_id);
  layout.frame_previous = table->Offset(words.previous);
  layout.frame_code = table->Offset(words.executable);
  layout.frame_position = table->Offset(words.instruction);
  layout.frame_locals = table->Offset(words.locals);
  layout.frame_owner = table->Offset(words.owner);
  layout.code_filename = table->Offset(words.filename);
  layout.code_name = table->Offset(words.name);
  layout.code_qualname = table->Offset(words.qualname);
  layout.code_first_line = table->Offset(words.first_line);
  layout.code_line_table = table->Offset(words.line_table);
  layout.code_bytecode = table->Offset(words.bytecode);
  layout.ascii_data = table->Offset(words.ascii_size);
  layout.compact_data = static_cast<uint16_t>(layout.ascii_data + known.compact_data - known.ascii_data);
  if (layout == known) return layout;
  // What the table does not tell is known only of builds like the releases.
  layout.code_version = 0;
  layout.line_table_is_hashed = false;
  layout.code_first_traceable = 0;
  return layout;
}

}  // namespace

const char* ReadDebugOffsets(const void* runtime, PythonLayout* layout) {
  const Words* words = FindWords(layout->minor);
  char cookie[sizeof kCookie - 1];
  if (words == nullptr || runtime == nullptr || !TryReadBytes(runtime, cookie, sizeof cookie) ||
      std::memcmp(cookie, kCookie, sizeof cookie) != 0) {
    return "this Python has no table of its offsets (_Py_DebugOffsets)";
  }
  Table table(runtime);
  const uint64_t version = table.Word(1);
  if ((version >> 24) != 3 || ((version >> 16) & 0xFF) != layout->minor) {
    return "this Python's table of offsets is of another version";
  }
  if (table.Word(2) != 0) return "free-threaded build of Python";
  if (!HasReleasedObjects(&table, *words)) return "this Python's objects are laid out otherwise (Py_TRACE_REFS?)";
  const PythonLayout found = Apply(&table, *words, *layout);
  if (!table.ok()) return "this Python's table of offsets does not make sense";
  *layout = found;
  return "";
}

}  // namespace gpumemshim::stack
