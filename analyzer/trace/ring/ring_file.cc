// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/ring/ring_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gpumem {
namespace {

using format::ChunkDescriptor;
using format::CodeBlob;
using format::CodeRecord;
using format::RawFrame;
using format::RecordHeader;
using format::RingHeader;
using format::StackRecord;

absl::Status RingOpenError(absl::string_view path, int error) {
  if (error == 0) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  const std::string message = absl::StrCat("cannot open ", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

// Appends to `bytes` until it has `size`; false where the file ends before.
bool ReadUpTo(int descriptor, uint64_t size, std::string* bytes) {
  size_t got = bytes->size();
  bytes->resize(size);
  while (got < size) {
    const ssize_t n = pread(descriptor, bytes->data() + got, size - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += static_cast<size_t>(n);
  }
  return true;
}

// Records start at multiples of 8 in memory too, but a copy asks for nothing.
template <typename T>
T Load(absl::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

using format::kVersion2HeaderBytes;
constexpr uint64_t kPageBytes = 4096;

// How far a trace has a chunk whose last whole packet has this number.
uint32_t PositionOf(const ChunkDescriptor& chunk, uint64_t last_sequence) {
  uint64_t best = 0;
  uint32_t position = 0;
  for (const format::ReadSlot& slot : chunk.read) {
    if (slot.packet_sequence <= best || slot.packet_sequence > last_sequence) continue;
    best = slot.packet_sequence;
    position = slot.position;
  }
  return position;
}

// As far as a header goes in every version; the rest is 0.
RingHeader LoadHeader(absl::string_view bytes) {
  RingHeader header{};
  std::memcpy(&header, bytes.data(), kVersion2HeaderBytes);
  return header;
}

void AddCode(uint64_t key, absl::string_view bytes, RingContents* contents) {
  if (bytes.size() < sizeof(CodeBlob)) return;
  const CodeBlob blob = Load<CodeBlob>(bytes, 0);
  const uint64_t texts = uint64_t{blob.filename_bytes} + blob.name_bytes + blob.line_table_bytes;
  if (texts > bytes.size() - sizeof(CodeBlob)) return;
  absl::string_view rest = bytes.substr(sizeof(CodeBlob));
  const auto take = [&rest](uint32_t size) {
    std::string text(rest.substr(0, size));
    rest.remove_prefix(size);
    return text;
  };
  RingCode code;
  code.first_line = blob.first_line;
  code.python_minor = blob.python_minor;
  code.filename = take(blob.filename_bytes);
  code.name = take(blob.name_bytes);
  code.line_table = take(blob.line_table_bytes);
  contents->codes.try_emplace(key, std::move(code));
}

bool AddCodePart(absl::string_view record, RingThread::PartialCode* partial, RingContents* contents) {
  if (record.size() < sizeof(CodeRecord)) return false;
  const CodeRecord part = Load<CodeRecord>(record, 0);
  const absl::string_view bytes = record.substr(sizeof(CodeRecord));
  if (part.part_bytes > bytes.size() || part.total_bytes > format::kMaxCodeBytes) return false;
  if (part.offset == 0) *partial = {part.key, ""};
  if (partial->key != part.key || partial->bytes.size() != part.offset) return true;  // its beginning is gone
  absl::StrAppend(&partial->bytes, bytes.substr(0, part.part_bytes));
  if (partial->bytes.size() > part.total_bytes) return false;
  if (partial->bytes.size() == part.total_bytes) {
    AddCode(part.key, partial->bytes, contents);
    *partial = {};
  }
  return true;
}

bool AddStack(absl::string_view record, RingContents* contents) {
  if (record.size() < sizeof(StackRecord)) return false;
  const StackRecord stack = Load<StackRecord>(record, 0);
  const size_t bytes = record.size() - sizeof(StackRecord);
  if (stack.count > format::kMaxFrames || stack.count * sizeof(RawFrame) > bytes) return false;
  std::vector<RawFrame> frames(stack.count);
  if (stack.count != 0) std::memcpy(frames.data(), record.data() + sizeof(StackRecord), stack.count * sizeof(RawFrame));
  contents->stacks.try_emplace(stack.hash, std::move(frames));
  return true;
}

bool AddText(absl::string_view record, RingContents* contents) {
  if (record.size() < sizeof(format::TextRecord)) return false;
  const auto text = Load<format::TextRecord>(record, 0);
  if (text.bytes > record.size() - sizeof(format::TextRecord)) return false;
  const absl::string_view bytes = record.substr(sizeof(format::TextRecord), text.bytes);
  if (text.field != 0) {
    contents->ready.emplace_back(text.field, bytes);
    return true;
  }
  contents->texts.try_emplace(text.key, bytes);
  return true;
}

std::vector<std::string> Names(absl::string_view bytes, uint32_t count) {
  std::vector<std::string> names;
  while (names.size() < count) {
    const size_t end = bytes.find('\0');
    if (end == absl::string_view::npos) break;
    names.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
  return names;
}

// A trace from anywhere may name any path: some devices do something when they are only opened. -1 and errno, 0 where
// it is not a plain file.
int OpenPlain(absl::string_view path) {
  const std::string name(path);
  struct stat info {};
  if (lstat(name.c_str(), &info) != 0) return -1;
  errno = S_ISLNK(info.st_mode) ? ELOOP : 0;
  return S_ISREG(info.st_mode) ? open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : -1;
}

}  // namespace

std::string NameOfRing(const RingHeader& header) {
  return absl::StrCat("gpumemshim.", header.pid, ".", header.process_start_ticks, ".", absl::Hex(header.id), ".ring");
}

bool IsNameOfRing(absl::string_view name, const RingHeader& header) {
  const std::string whole = NameOfRing(header);
  return name == whole || name == absl::StrCat("gpumem", absl::StripPrefix(whole, "gpumemshim"));
}

ProcessState StateOfRing(absl::string_view path, uint32_t pid, uint64_t start_ticks) {
  const int descriptor = OpenPlain(path);
  if (descriptor < 0) return ProcessState::kUnknown;
  const absl::Cleanup closer = [descriptor] { close(descriptor); };
  std::string bytes;
  if (!ReadUpTo(descriptor, kVersion2HeaderBytes, &bytes)) return ProcessState::kUnknown;
  const RingHeader header = LoadHeader(bytes);
  if (header.magic != format::kMagic || header.locked == 0) return ProcessState::kUnknown;
  if (header.pid != pid || header.process_start_ticks != start_ticks) return ProcessState::kUnknown;
  if (flock(descriptor, LOCK_SH | LOCK_NB) == 0) return ProcessState::kEnded;
  return errno == EWOULDBLOCK ? ProcessState::kRunning : ProcessState::kUnknown;
}

absl::StatusOr<RingFile> RingFile::OpenUpTo(absl::string_view path, bool whole) {
  const int descriptor = OpenPlain(path);
  if (descriptor < 0) return RingOpenError(path, errno);
  const absl::Cleanup closer = [descriptor] { close(descriptor); };
  struct stat info {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  RingFile ring;
  ring.owner_uid_ = info.st_uid;
  const uint64_t file_bytes = static_cast<uint64_t>(info.st_size);
  if (!ReadUpTo(descriptor, kVersion2HeaderBytes, &ring.bytes_))
    return absl::InvalidArgumentError(absl::StrCat(path, " is too short for a ring of libgpumemshim.so"));
  ring.header_ = LoadHeader(ring.bytes_);
  if (ring.header_.layout_version > format::kOldestLayoutVersion && file_bytes >= sizeof(RingHeader) &&
      ReadUpTo(descriptor, sizeof(RingHeader), &ring.bytes_)) {
    ring.header_ = Load<RingHeader>(ring.bytes_, 0);
  }
  const std::string wrong = ring.Check(file_bytes);
  if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrCat(path, wrong));
  const uint64_t described = ring.header_.descriptors_offset + ring.header_.chunk_count * sizeof(ChunkDescriptor);
  if (!ReadUpTo(descriptor, whole ? ring.header_.size_bytes : described, &ring.bytes_))
    return absl::InvalidArgumentError(absl::StrCat(path, " became shorter while it was read"));
  return ring;
}

absl::StatusOr<RingFile> RingFile::Open(absl::string_view path) { return OpenUpTo(path, true); }

absl::StatusOr<RingFile> RingFile::Peek(absl::string_view path) { return OpenUpTo(path, false); }

// What is wrong with the header, or "".
std::string RingFile::Check(uint64_t file_bytes) const {
  if (header_.magic != format::kMagic) return " is not a ring of libgpumemshim.so";
  const uint32_t version = header_.layout_version;
  if (version < format::kOldestLayoutVersion || version > format::kLayoutVersion) {
    return absl::StrCat(" is a ring of layout ", header_.layout_version, "; this gpumemshim reads layouts ",
                        format::kOldestLayoutVersion, " to ", format::kLayoutVersion,
                        ". Use the gpumemshim that came with that gpumemshim");
  }
  const uint64_t size = header_.size_bytes;
  const uint64_t chunks = header_.chunk_count;  // the products below cannot overflow: 32 bits times a small number
  const uint64_t least = version == format::kOldestLayoutVersion ? kVersion2HeaderBytes : sizeof(RingHeader);
  const bool sane = size <= file_bytes && size <= format::kMaxRingBytes && size >= least &&
                    header_.chunk_bytes == format::kChunkBytes && header_.descriptors_offset <= size &&
                    chunks * sizeof(ChunkDescriptor) <= size - header_.descriptors_offset &&
                    header_.chunks_offset <= size && chunks * header_.chunk_bytes <= size - header_.chunks_offset &&
                    header_.api_names_offset <= header_.chunks_offset &&
                    header_.trace_path_bytes < format::kTracePathBytes;
  return sane ? "" : " is cut short or damaged: its header does not fit its size";
}

RingContents RingFile::Read(uint64_t last_sequence) const {
  RingContents contents;
  const absl::string_view all(bytes_);
  contents.api_names =
      Names(all.substr(header_.api_names_offset, header_.chunks_offset - header_.api_names_offset), header_.api_count);
  struct Chunk {
    ChunkDescriptor descriptor;
    uint32_t index;
  };
  std::vector<Chunk> chunks;
  for (uint32_t i = 0; i < header_.chunk_count; ++i) {
    const auto chunk = Load<ChunkDescriptor>(all, header_.descriptors_offset + i * sizeof(ChunkDescriptor));
    if (chunk.state != format::kChunkFree) chunks.push_back({chunk, i});
  }
  std::stable_sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) {
    return a.descriptor.owner_serial != b.descriptor.owner_serial
               ? a.descriptor.owner_serial < b.descriptor.owner_serial
               : a.descriptor.number < b.descriptor.number;
  });
  for (const Chunk& chunk : chunks) {
    if (!ReadChunk(chunk.descriptor, chunk.index, last_sequence, &contents)) ++contents.broken_chunks;
  }
  return contents;
}

std::vector<std::pair<uint32_t, ChunkDescriptor>> RingFile::UsedChunks() const {
  std::vector<std::pair<uint32_t, ChunkDescriptor>> chunks;
  for (uint32_t i = 0; i < header_.chunk_count; ++i) {
    const auto chunk = Load<ChunkDescriptor>(bytes_, header_.descriptors_offset + i * sizeof(ChunkDescriptor));
    if (chunk.state != format::kChunkFree) chunks.emplace_back(i, chunk);
  }
  return chunks;
}

bool RingFile::HasLosses() const {
  return header_.dropped_allocs + header_.dropped_frees + header_.dropped_definitions + header_.truncated_stacks > 0;
}

bool RingFile::IsEmpty() const {
  const auto chunks = UsedChunks();
  return header_.trace_inode == 0 && !HasLosses() &&
         std::all_of(chunks.begin(), chunks.end(), [](const auto& chunk) { return chunk.second.committed == 0; });
}

std::string RingFile::CopyOfUsed() const {
  auto chunks = UsedChunks();
  const auto is_written = [this](const auto& chunk) {
    return PositionOf(chunk.second, header_.written_sequence) == chunk.second.committed;
  };
  if (!HasLosses() && std::all_of(chunks.begin(), chunks.end(), is_written)) chunks.clear();
  RingHeader copy = header_;
  copy.moved = 1;
  copy.reserved_chunks = 0;
  copy.chunk_count = static_cast<uint32_t>(chunks.size());
  copy.descriptors_offset = kPageBytes;
  copy.api_names_offset = kPageBytes + chunks.size() * sizeof(ChunkDescriptor);
  const absl::string_view all(bytes_);
  const absl::string_view names =
      chunks.empty() ? "" : all.substr(header_.api_names_offset, header_.chunks_offset - header_.api_names_offset);
  if (chunks.empty()) copy.api_count = 0;
  copy.chunks_offset = copy.api_names_offset + names.size();
  copy.size_bytes = copy.chunks_offset + chunks.size() * header_.chunk_bytes;
  std::string bytes(copy.size_bytes, '\0');
  std::memcpy(bytes.data(), &copy, sizeof(copy));
  std::memcpy(bytes.data() + copy.api_names_offset, names.data(), names.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto& [index, chunk] = chunks[i];
    const absl::string_view data = all.substr(header_.chunks_offset + uint64_t{index} * header_.chunk_bytes,
                                              std::min(chunk.committed, header_.chunk_bytes));
    std::memcpy(bytes.data() + copy.descriptors_offset + i * sizeof(chunk), &chunk, sizeof(chunk));
    std::memcpy(bytes.data() + copy.chunks_offset + i * header_.chunk_bytes, data.data(), data.size());
  }
  return bytes;
}

// False where the chunk breaks off; what stands before that is taken.
bool RingFile::ReadChunk(const ChunkDescriptor& chunk, uint32_t index, uint64_t last_sequence,
                         RingContents* contents) const {
  const uint64_t position = PositionOf(chunk, last_sequence);
  for (const format::ReadSlot& slot : chunk.read) contents->was_read |= slot.packet_sequence != 0;
  if (chunk.committed > header_.chunk_bytes || position > chunk.committed || chunk.owner_serial == 0) return false;
  const absl::string_view bytes =
      absl::string_view(bytes_).substr(header_.chunks_offset + uint64_t{index} * header_.chunk_bytes, chunk.committed);
  RingThread& thread = contents->threads[chunk.owner_serial];
  thread.tid = chunk.owner_tid;
  thread.name.assign(chunk.thread_name, strnlen(chunk.thread_name, sizeof(chunk.thread_name)));
  for (size_t at = 0; at < bytes.size();) {
    if (bytes.size() - at < sizeof(RecordHeader)) return false;
    const auto header = Load<RecordHeader>(bytes, at);
    if (header.size < sizeof(RecordHeader) || header.size % 8 != 0 || header.size > bytes.size() - at) return false;
    const absl::string_view record = bytes.substr(at, header.size);
    if (header.type == format::kRecordEvent) {
      const absl::string_view stored = record.substr(sizeof(RecordHeader));
      if (stored.size() < format::kLeastEventBytes || stored.size() > sizeof(format::Event)) return false;
      if (at >= position) {
        format::Event event{};
        std::memcpy(&event, stored.data(), stored.size());
        thread.events.push_back(event);
      }
    } else if (header.type == format::kRecordStack) {
      if (!AddStack(record, contents)) return false;
    } else if (header.type == format::kRecordCode) {
      if (!AddCodePart(record, &thread.partial_code, contents)) return false;
    } else if (header.type == format::kRecordText) {
      if (!AddText(record, contents)) return false;
    }
    at += header.size;
  }
  return true;
}

}  // namespace gpumem
