// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/event_batch.h"

#include <cstring>

#include "shim/writer/fields.h"

namespace gpumemshim::writer {
namespace {

using Field = fields::EventBatch;

template <typename T>
bool AllEqual(const T* values, uint32_t count) {
  return memcmp(values, values + 1, (count - 1) * sizeof(T)) == 0;
}

// How far all values can be shifted right without loss.
uint32_t CommonShift(const uint64_t* values, uint32_t count) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < count; i++) bits |= values[i];
  return bits == 0 ? 0 : static_cast<uint32_t>(__builtin_ctzll(bits));
}

struct Same {
  uint64_t operator()(uint64_t value) const { return value; }
};

template <typename T, typename Map>
void PutColumn(ProtoWriter* w, uint32_t field, const T* values, uint32_t count, Map map) {
  bool one = AllEqual(values, count);
  if (one && values[0] == 0) return;
  uint32_t elements = one ? 1 : count;
  size_t mark = w->Open(field);
  if (!w->Room(elements * ProtoWriter::kMaxVarint)) return;
  uint8_t* p = w->End();
  for (uint32_t i = 0; i < elements; i++) p = ProtoWriter::PutVarint(p, map(values[i]));
  w->SetEnd(p);
  w->Close(mark);
}

// Events' times are kept to 32 ns, a third of what recording one takes: the lower bits are noise that no compressor
// shortens (half a byte of an event's three). Rounded down, so that times keep their order.
constexpr uint32_t kTimeShift = 5;

// A column of differences: of its own kind, because "all equal" is about the differences.
void PutDeltas(ProtoWriter* w, uint32_t field, const uint64_t* values, uint32_t count, uint64_t before,
               uint32_t shift) {
  uint64_t first = ((values[0] >> shift) - before);
  uint64_t last = values[0] >> shift;
  bool one = true;
  for (uint32_t i = 1; one && i < count; i++) {
    one = (values[i] >> shift) - last == first;
    last = values[i] >> shift;
  }
  if (one && first == 0) return;
  uint32_t elements = one ? 1 : count;
  size_t mark = w->Open(field);
  if (!w->Room(elements * ProtoWriter::kMaxVarint)) return;
  uint8_t* p = w->End();
  last = before;
  for (uint32_t i = 0; i < elements; i++) {
    uint64_t value = values[i] >> shift;
    p = ProtoWriter::PutVarint(p, ZigZag(static_cast<int64_t>(value - last)));
    last = value;
  }
  w->SetEnd(p);
  w->Close(mark);
}

}  // namespace

bool EventBatch::Init() {
  if (!memory_.Reserve(sizeof(Columns))) return false;
  columns_ = reinterpret_cast<Columns*>(memory_.data());
  return true;
}

// Of the events so far.
void EventBatch::ClearRare() {
  Columns& c = *columns_;
  const size_t words = count_ * sizeof(uint64_t), halves = count_ * sizeof(uint32_t);
  memset(c.requested_size, 0, words);
  memset(c.stream, 0, words);
  memset(c.handle, 0, words);
  memset(c.tag, 0, halves);
  memset(c.duration_ns, 0, halves);
  memset(c.text, 0, halves);
  memset(c.result, 0, halves);
}

void EventBatch::Add(const Event& e, uint32_t thread, uint32_t stack, uint32_t api, uint32_t text) {
  Columns& c = *columns_;
  const bool is_rare =
      (e.requested_size | e.stream | e.handle | e.tag | e.duration_ns | text | static_cast<uint32_t>(e.result)) != 0;
  if (is_rare && !has_rare_) {
    ClearRare();
    has_rare_ = true;
  }
  uint32_t i = count_++;
  c.time_ns[i] = e.time_ns;
  c.address[i] = e.address;
  c.size[i] = e.size;
  c.stack[i] = stack;
  c.thread[i] = thread;
  c.api[i] = api;
  c.device[i] = e.device;
  c.kind[i] = static_cast<uint8_t>(e.kind);
  c.layer[i] = static_cast<uint8_t>(e.layer);
  c.memory[i] = static_cast<uint8_t>(e.memory);
  if (!has_rare_) return;
  c.requested_size[i] = e.requested_size;
  c.stream[i] = e.stream;
  c.handle[i] = e.handle;
  c.tag[i] = e.tag;
  c.duration_ns[i] = e.duration_ns;
  c.text[i] = text;
  c.result[i] = e.result;
}

void EventBatch::Encode(ProtoWriter* w) const {
  const Columns& c = *columns_;
  uint32_t n = count_;
  if (n == 0) return;
  auto zigzag = [](int64_t value) { return ZigZag(value); };
  uint32_t address_shift = CommonShift(c.address, n);
  uint32_t size_shift = CommonShift(c.size, n);
  auto shifted = [size_shift](uint64_t value) { return value >> size_shift; };
  w->Varint(Field::kCount, n);
  w->Varint(Field::kFirstTimeNs, c.time_ns[0] >> kTimeShift << kTimeShift);
  w->Varint(Field::kTimeShift, kTimeShift);
  PutDeltas(w, Field::kTimeDeltaNs, c.time_ns, n, c.time_ns[0] >> kTimeShift, kTimeShift);
  PutColumn(w, Field::kKind, c.kind, n, Same());
  PutColumn(w, Field::kLayer, c.layer, n, Same());
  PutColumn(w, Field::kMemory, c.memory, n, Same());
  PutColumn(w, Field::kDevice, c.device, n, zigzag);
  w->VarintIf(Field::kAddressShift, address_shift);
  PutDeltas(w, Field::kAddressDelta, c.address, n, 0, address_shift);
  w->VarintIf(Field::kSizeShift, size_shift);
  PutColumn(w, Field::kSize, c.size, n, shifted);
  PutColumn(w, Field::kThread, c.thread, n, Same());
  PutColumn(w, Field::kStack, c.stack, n, Same());
  PutColumn(w, Field::kApi, c.api, n, Same());
  if (!has_rare_) return;
  PutColumn(w, Field::kRequestedSize, c.requested_size, n, Same());
  PutColumn(w, Field::kStream, c.stream, n, Same());
  PutColumn(w, Field::kHandle, c.handle, n, Same());
  PutColumn(w, Field::kTag, c.tag, n, Same());
  PutColumn(w, Field::kResult, c.result, n, zigzag);
  PutColumn(w, Field::kDurationNs, c.duration_ns, n, Same());
  PutColumn(w, Field::kText, c.text, n, Same());
}

}  // namespace gpumemshim::writer
