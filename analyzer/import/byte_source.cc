// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trace/file_window.h"

namespace gpumem {
namespace {

constexpr uint64_t kPieceBytes = 1u << 20;
// Histories become 10 to 30 times as long.
constexpr uint64_t kMostRatio = 100;
constexpr uint64_t kAlwaysUnpacked = uint64_t{16} << 20;

}  // namespace

struct ByteSource::State {
  ~State() {
    if (is_unpacking) inflateEnd(&stream);
  }

  absl::string_view Raw() {
    absl::string_view piece;
    if (window) {
      piece = window->Read(offset, kPieceBytes);
    } else {
      piece = memory.substr(std::min<uint64_t>(offset, memory.size()), kPieceBytes);
    }
    offset += piece.size();
    return piece;
  }
  absl::string_view Unpacked();
  bool Inflate();

  std::optional<FileWindow> window;
  absl::string_view memory;
  uint64_t offset = 0, given = 0;
  bool peeked = false, is_unpacking = false, has_ended = false;
  absl::string_view first;
  z_stream stream = {};
  std::string unpacked;
  absl::Status status;
};

// Fills `unpacked` as far as the input goes. False: something is wrong, or over.
bool ByteSource::State::Inflate() {
  const int result = inflate(&stream, Z_NO_FLUSH);
  if (result == Z_OK || result == Z_BUF_ERROR) return true;
  has_ended = true;
  if (result == Z_STREAM_END) return false;
  status = absl::DataLossError(absl::StrCat("the gzip data are damaged before byte ", offset - stream.avail_in,
                                            stream.msg == nullptr ? "" : ": ", stream.msg == nullptr ? "" : stream.msg,
                                            ". Copy the file anew"));
  return false;
}

absl::string_view ByteSource::State::Unpacked() {
  unpacked.resize(kPieceBytes);
  stream.next_out = reinterpret_cast<Bytef*>(unpacked.data());
  stream.avail_out = kPieceBytes;
  while (!has_ended && stream.avail_out == kPieceBytes) {
    if (stream.avail_in == 0) {
      const absl::string_view piece = Raw();
      if (piece.empty()) {
        has_ended = true;
        status = absl::DataLossError(
            absl::StrCat("the gzip data end at byte ", offset, ", before their end. Copy the file anew"));
        break;
      }
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    Inflate();
  }
  return absl::string_view(unpacked).substr(0, kPieceBytes - stream.avail_out);
}

ByteSource::ByteSource(std::unique_ptr<State> state) : state_(std::move(state)) {
  absl::string_view begin = state_->Raw();
  state_->offset = 0;
  if (absl::StartsWith(begin, "\x1f\x8b") && inflateInit2(&state_->stream, 15 + 16) == Z_OK)
    state_->is_unpacking = true;
}
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

absl::StatusOr<ByteSource> ByteSource::Open(absl::string_view path) {
  auto state = std::make_unique<State>();
  GPUMEM_ASSIGN_OR_RETURN(FileWindow window, FileWindow::Open(path));
  state->window.emplace(std::move(window));
  return ByteSource(std::move(state));
}

ByteSource ByteSource::Of(absl::string_view bytes) {
  auto state = std::make_unique<State>();
  state->memory = bytes;
  return ByteSource(std::move(state));
}

absl::string_view ByteSource::Next() {
  const absl::string_view piece = Peek();
  state_->peeked = false;
  state_->given += piece.size();
  if (state_->is_unpacking && state_->given > kAlwaysUnpacked + kMostRatio * file_bytes()) {
    state_->status = absl::DataLossError(
        absl::StrCat("the gzip data become over ", kMostRatio, " times as long as the file, which no history does"));
    return "";
  }
  return piece;
}

absl::string_view ByteSource::Peek() {
  if (!std::exchange(state_->peeked, true)) state_->first = state_->is_unpacking ? state_->Unpacked() : state_->Raw();
  return state_->first;
}

absl::Status ByteSource::status() const { return state_->status; }
uint64_t ByteSource::file_bytes() const {
  return state_->window ? state_->window->file_bytes() : state_->memory.size();
}
uint64_t ByteSource::position() const { return state_->offset; }
uint64_t ByteSource::unpacked_bytes() const { return state_->given; }
bool ByteSource::is_compressed() const { return state_->is_unpacking; }

}  // namespace gpumem
