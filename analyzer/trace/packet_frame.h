// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One packet of a trace file as its frame shows it (length, sync word, checksum), and the search for the next one
// behind damage. Nothing here knows what packets say. Not thread-safe; does not own the window.
//
// A place is believed to be a packet only where the checksum of all its bytes holds, so a search cannot land inside
// one. What hostile files can make it cost is bounded by the file's size: see PacketSearch.
//
//   PacketFrame frame = ReadFrame(&window, offset);
//   if (frame.state != FrameState::kWhole) next = search.Next(&window, offset + 1);

#ifndef GPUMEM_ANALYZER_TRACE_PACKET_FRAME_H_
#define GPUMEM_ANALYZER_TRACE_PACKET_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "trace/file_window.h"

namespace gpumem {

// Unpacks the payload of a Compressed packet, within the limits of limits.h. A pure function.
//
//   const std::string wrong = Decompress(codec, payload, size, dictionary, &content);

// Decompresses `payload` into `out`, which gets exactly `size` bytes. Returns what is wrong, or "".
std::string Decompress(uint64_t codec, absl::string_view payload, uint64_t size, absl::string_view dictionary,
                       std::string* out);

enum class FrameState {
  kWhole,     // `content` and `bytes` are set
  kEnd,       // the file ends here
  kCutShort,  // the file ends before the packet does
  kBroken,    // `wrong` says why
};

struct PacketFrame {
  FrameState state = FrameState::kEnd;
  absl::string_view wrong;
  absl::string_view content;  // the packet's fields before its checksum; valid until the window moves
  uint64_t bytes = 0;         // of the file that it takes
};

PacketFrame ReadFrame(FileWindow* window, uint64_t offset);

// The file begins with a packet's frame, whole or not.
bool BeginsLikeTrace(FileWindow* window);

class PacketSearch {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  // Where the next whole packet begins at or behind `from`; kNone: nowhere before `until`, or the search costs too
  // much. All searches of a file together read and check at most kWorkPerByte times its bytes: a file that is made of
  // sync words is given up.
  uint64_t Next(FileWindow* window, uint64_t from, uint64_t until = kNone);

  bool gave_up() const { return gave_up_; }
  uint64_t work() const { return work_; }  // bytes that were read or checked

 private:
  static constexpr uint64_t kWorkPerByte = 16;
  static constexpr uint64_t kFreeWork = 16u << 20;

  bool Spend(uint64_t bytes, const FileWindow& window);
  uint64_t Verify(FileWindow* window, uint64_t from, uint64_t sync);

  uint64_t work_ = 0;
  bool gave_up_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_PACKET_FRAME_H_
