// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a user looks at in a LiveFrame, and what keys do to it. No terminal here: a screen (ShowLive) hands keys
// in, and draws what DrawLive says. Pure but for the LiveView itself; not thread-safe.
//
//   LiveView view;
//   if (view.Press('s', frame).kind == LiveAction::Kind::kQuit) return;
//   for (const LiveRow& row : DrawLive(frame, view, size)) Print(row);

#ifndef GPUMEM_ANALYZER_LIVE_LIVE_VIEW_H_
#define GPUMEM_ANALYZER_LIVE_LIVE_VIEW_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "live/live_frame.h"
#include "live/live_job.h"
#include "render/page.h"

namespace gpumem {

// Keys beyond characters.
enum LiveKey : int32_t { kKeyUp = -1, kKeyDown = -2, kKeyEnter = -3, kKeyEscape = -4, kKeyErase = -5 };

// What a key asks for that is not done by the view itself.
struct LiveAction {
  enum class Kind { kNone, kQuit, kMark, kDump } kind = Kind::kNone;
  std::string text;  // of the mark
};

class LiveView {
 public:
  enum class Sort { kBytes, kChange, kBlocks, kName };
  enum class Typing { kNothing, kFilter, kMark };

  // A character (Unicode) or a LiveKey.
  LiveAction Press(int32_t key, const LiveFrame& frame);

  size_t selected() const { return selected_; }
  // nullptr: there is none. Where the user selected none, it is one that runs, if any does.
  const LiveProcess* Selected(const LiveFrame& frame) const;
  // Of the selected process: what the filter leaves, sorted.
  std::vector<LiveLine> Lines(const LiveProcess& process) const;

  Sort sort() const { return sort_; }
  bool is_paused() const { return is_paused_; }
  bool shows_help() const { return shows_help_; }
  Typing typing() const { return typing_; }
  const std::string& typed() const { return typed_; }
  const std::string& filter() const { return filter_; }
  // One line below everything until the next key: the answer to an action.
  void Say(std::string message) { message_ = std::move(message); }
  const std::string& message() const { return message_; }

 private:
  LiveAction Type(int32_t key);
  void Select(int by, const LiveFrame& frame);

  size_t selected_ = 0;
  bool has_selected_ = false;
  Sort sort_ = Sort::kBytes;
  bool is_paused_ = false, shows_help_ = false;
  Typing typing_ = Typing::kNothing;
  std::string typed_, filter_, message_;
};

absl::string_view LiveSortName(LiveView::Sort sort);  // "bytes"

// What stands in one row of the screen; never wider than it, free of anything that steers a terminal.
using LiveRow = std::vector<Span>;

struct LiveSize {
  size_t rows = 24;  // 0 = as many as there is something to say, at most 15 lines of code, and no line of keys
  int columns = 80;
  bool utf8 = true;
  const Phrases* phrases = nullptr;  // of the reader's language; nullptr: English
};

std::vector<LiveRow> DrawLive(const LiveFrame& frame, const LiveView& view, const LiveSize& size);

// ShowLive: the view in a terminal, until the user quits: ncurses draws what DrawLive says, and hands keys in. The
// job is read by a thread of its own, so that keys answer while a long trace is read. Colour as TERM has it, none with
// NO_COLOR.
//
//   return ShowLive(job.get(), std::chrono::seconds(1), console);

// Exit code 0. InvalidArgument where ncurses does not know the terminal.
absl::StatusOr<int> ShowLive(LiveJob* job, std::chrono::milliseconds interval, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_LIVE_VIEW_H_
