// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/pickle_writer.h"

namespace gpumem {

void PickleWriter::Append32(uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out_->push_back(static_cast<char>(value >> shift));
}

void PickleWriter::Text(absl::string_view text) {
  if (const auto known = texts_.find(text); known != texts_.end()) return Recall(known->second);
  out_->push_back('X');
  Append32(static_cast<uint32_t>(text.size()));
  out_->append(text.data(), text.size());
  texts_.emplace(std::string(text), Remember());
}

void PickleWriter::Number(uint64_t value) {
  if (value < 256) {
    out_->push_back('K');
    out_->push_back(static_cast<char>(value));
  } else if (value <= INT32_MAX) {
    out_->push_back('J');
    Append32(static_cast<uint32_t>(value));
  } else {
    // Little-endian with its sign: a highest bit that is set needs a zero behind it.
    std::string bytes;
    for (uint64_t rest = value; rest != 0; rest >>= 8) bytes.push_back(static_cast<char>(rest));
    if ((bytes.back() & 0x80) != 0) bytes.push_back('\0');
    out_->push_back('\x8a');
    out_->push_back(static_cast<char>(bytes.size()));
    out_->append(bytes);
  }
}

void PickleWriter::Signed(int64_t value) {
  if (value >= 0) return Number(static_cast<uint64_t>(value));
  out_->append("\x8a\x08", 2);
  for (int shift = 0; shift < 64; shift += 8) out_->push_back(static_cast<char>(static_cast<uint64_t>(value) >> shift));
}

void PickleWriter::Pair(uint64_t a, uint64_t b) {
  Number(a);
  Number(b);
  out_->push_back('\x86');
}

uint32_t PickleWriter::Remember() {
  const uint32_t number = next_++;
  if (number < 256) {
    out_->push_back('q');
    out_->push_back(static_cast<char>(number));
  } else {
    out_->push_back('r');
    Append32(number);
  }
  return number;
}

void PickleWriter::Recall(uint32_t number) {
  if (number < 256) {
    out_->push_back('h');
    out_->push_back(static_cast<char>(number));
  } else {
    out_->push_back('j');
    Append32(number);
  }
}

}  // namespace gpumem
