// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Reading on past what was read: in a trace that is still being written reading goes on where it stopped, and nothing
// that was read is read again; a look at what comes leaves no trace, neither counts of what is missing, nor the end
// that was seen.

#include <filesystem>
#include <system_error>
#include <utility>

#include "trace/reader.h"

namespace gpumem {

// A trace that is still being written: reading goes on where it stopped. Nothing that was read is read again.

void TraceReader::Follow() {
  follows_ = true;
  process_ = StateOf(header_);
  inode_ = InodeOf(files()[file_].path);
}

// Files of the series that were begun since. The one that is open is whole once the next one is there.
void TraceReader::AddNewFiles() {
  if (!header_.has_part()) return;
  std::error_code error;
  std::string known = files()[file_].path;
  // A ring of files loses its oldest ones.
  if (!std::filesystem::exists(known, error)) known = SeriesFileName(known, part_.number() + 1);
  const Series now = FindSeries(known);
  series_.next_was_begun = now.next_was_begun;
  for (const SeriesFile& file : now.files) {
    if (file.number > series_.files.back().number) series_.files.push_back(file);
    if (file.number == series_.files[file_].number) series_.files[file_].bytes = file.bytes;
  }
  chain_starts_.resize(series_.files.size());
  for (size_t i = 1; i < series_.files.size(); ++i)
    series_.files[i].bytes_before = series_.files[i - 1].bytes_before + series_.files[i - 1].bytes;
}

bool TraceReader::Refresh() {
  if (!MayGrow()) return true;
  // In this order: what the process wrote before it ended is there once it is known to have ended.
  process_ = StateOf(header_);
  if (continued_ || process_ == ProcessState::kEnded) AddNewFiles();
  if (!packets_.Refresh()) return false;
  series_.files[file_].bytes = packets_.file_bytes();
  // A file of a series may have been deleted behind the reader; another one in its place is another trace.
  const uint64_t inode = InodeOf(files()[file_].path);
  return inode == inode_ || (inode == 0 && header_.has_part());
}

// A look at what comes, which leaves no trace: neither counts of what is missing, nor the end that was seen.

void TraceReader::LookAhead(const std::function<bool(const EventBatch&)>& look) {
  const Place place = place_;
  const ItemType type = type_;
  const bool ended = ended_, continued = continued_, again = reading_again_, after_gap = batch_after_gap_;
  const uint64_t last_time_ns = last_time_ns_, events_read = events_read_, next_sequence = next_sequence_;
  const trace::Losses losses = losses_;
  const trace::Counters counters = counters_;
  reading_again_ = stays_in_section_ = true;
  EventBatch kept;
  SwapBatch(&kept);
  while (Next() != ItemType::kEndOfStream && type_ != ItemType::kHeader) {
    if (type_ == ItemType::kEvents && !look(batch_)) break;
  }
  stays_in_section_ = false;
  Seek(place);
  Next();
  SwapBatch(&kept);
  type_ = type;
  reading_again_ = again;
  batch_after_gap_ = after_gap;
  ended_ = ended;
  continued_ = continued;
  last_time_ns_ = last_time_ns;
  events_read_ = events_read;
  next_sequence_ = next_sequence;
  losses_ = losses;
  counters_ = counters;
}

}  // namespace gpumem
