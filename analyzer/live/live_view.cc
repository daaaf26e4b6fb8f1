// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_view.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

constexpr size_t kLongestTyped = 200;

bool Holds(const LiveLine& line, const std::string& lower) {
  return absl::StrContains(absl::AsciiStrToLower(line.site), lower) ||
         absl::StrContains(absl::AsciiStrToLower(line.through), lower) ||
         absl::StrContains(CategoryName(line.category), lower);
}

void EraseLast(std::string* text) {
  while (!text->empty() && (static_cast<uint8_t>(text->back()) & 0xC0) == 0x80) text->pop_back();
  if (!text->empty()) text->pop_back();
}

}  // namespace

absl::string_view LiveSortName(LiveView::Sort sort) {
  constexpr std::array<absl::string_view, 4> kNames = {"bytes", "change", "blocks", "line"};
  return kNames[static_cast<size_t>(sort)];
}

const LiveProcess* LiveView::Selected(const LiveFrame& frame) const {
  if (frame.processes.empty()) return nullptr;
  if (has_selected_) return &frame.processes[std::min(selected_, frame.processes.size() - 1)];
  for (const LiveProcess& process : frame.processes) {
    if (process.state == LiveProcess::State::kRunning) return &process;
  }
  return &frame.processes.front();
}

std::vector<LiveLine> LiveView::Lines(const LiveProcess& process) const {
  std::vector<LiveLine> lines = process.lines;
  const std::string lower = absl::AsciiStrToLower(typing_ == Typing::kFilter ? typed_ : filter_);
  std::erase_if(lines, [&](const LiveLine& line) { return !lower.empty() && !Holds(line, lower); });
  std::stable_sort(lines.begin(), lines.end(), [&](const LiveLine& a, const LiveLine& b) {
    switch (sort_) {
      case Sort::kChange:
        return a.change.value_or(0) > b.change.value_or(0);
      case Sort::kBlocks:
        return a.blocks > b.blocks;
      case Sort::kName:
        return a.site < b.site;
      case Sort::kBytes:
        break;
    }
    return a.bytes > b.bytes;
  });
  return lines;
}

void LiveView::Select(int by, const LiveFrame& frame) {
  if (frame.processes.empty()) return;
  const LiveProcess* const now = Selected(frame);
  const auto place = static_cast<std::ptrdiff_t>(now - frame.processes.data()) + by;
  const auto last = static_cast<std::ptrdiff_t>(frame.processes.size()) - 1;
  selected_ = static_cast<size_t>(std::clamp<std::ptrdiff_t>(place, 0, last));
  has_selected_ = true;
}

LiveAction LiveView::Type(int32_t key) {
  if (key == kKeyEscape) {
    typing_ = Typing::kNothing;
    typed_.clear();
  } else if (key == kKeyErase) {
    EraseLast(&typed_);
  } else if (key == kKeyEnter) {
    const Typing what = std::exchange(typing_, Typing::kNothing);
    std::string text = std::exchange(typed_, "");
    if (what == Typing::kMark && !text.empty()) return {LiveAction::Kind::kMark, std::move(text)};
    if (what == Typing::kFilter) filter_ = std::move(text);
  } else if (key > 0 && !IsMisleading(static_cast<char32_t>(key)) && typed_.size() < kLongestTyped) {
    AppendUtf8(static_cast<char32_t>(key), &typed_);
  }
  return {};
}

LiveAction LiveView::Press(int32_t key, const LiveFrame& frame) {
  message_.clear();
  if (typing_ != Typing::kNothing) return Type(key);
  if (std::exchange(shows_help_, false)) return {};  // any key closes it
  switch (key) {
    case 'q':
      return {LiveAction::Kind::kQuit, ""};
    case 'd':
      return {LiveAction::Kind::kDump, ""};
    case 'p':
    case ' ':
      is_paused_ = !is_paused_;
      break;
    case 's':
      sort_ = static_cast<Sort>((static_cast<int>(sort_) + 1) % 4);
      break;
    case '/':
    case 'f':
      typing_ = Typing::kFilter;
      typed_ = filter_;
      break;
    case 'm':
      typing_ = Typing::kMark;
      break;
    case '?':
    case 'h':
      shows_help_ = true;
      break;
    case kKeyEscape:
      filter_.clear();
      break;
    case kKeyUp:
    case 'k':
      Select(-1, frame);
      break;
    case kKeyDown:
    case 'j':
      Select(1, frame);
      break;
    default:
      break;
  }
  return {};
}

}  // namespace gpumem

#define NCURSES_WIDECHAR 1
#include <ncurses.h>

#include <clocale>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console.h"
#include "base/utf8.h"
#include "live/ctl_client.h"
#include "live/ctl_snapshot.h"
#include "live/live_job.h"
#include "live/live_view.h"

namespace gpumem {
namespace {

constexpr std::chrono::milliseconds kKeyWait(100);

// The terminal is ncurses' while one of these lives.
class Screen {
 public:
  // nullptr: TERM names no terminal that ncurses knows.
  static std::unique_ptr<Screen> Open(const TextStyle& style) {
    SCREEN* const screen = newterm(nullptr, stdout, stdin);
    if (screen == nullptr) return nullptr;
    return std::unique_ptr<Screen>(new Screen(screen, style));
  }
  ~Screen() {
    endwin();
    delscreen(screen_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  LiveSize size() const {
    int rows = 0, columns = 0;
    getmaxyx(stdscr, rows, columns);
    return {static_cast<size_t>(rows), columns, style_.utf8, style_.phrases};
  }

  void Draw(const std::vector<LiveRow>& rows) const {
    erase();
    for (size_t i = 0; i < rows.size(); ++i) {
      move(static_cast<int>(i), 0);
      for (const Span& span : rows[i]) {
        attrset(AttributeOf(span.tone));
        addstr(span.text.c_str());
      }
    }
    attrset(A_NORMAL);
    refresh();
  }

  // 0: no key within kKeyWait, or the size changed.
  static int32_t ReadKey() {
    wint_t key = 0;
    const int kind = get_wch(&key);
    if (kind == ERR) return 0;
    if (kind == KEY_CODE_YES) {
      switch (key) {
        case KEY_UP:
          return kKeyUp;
        case KEY_DOWN:
          return kKeyDown;
        case KEY_ENTER:
          return kKeyEnter;
        case KEY_BACKSPACE:
          return kKeyErase;
        default:
          return 0;
      }
    }
    if (key == '\n' || key == '\r') return kKeyEnter;
    if (key == 27) return kKeyEscape;
    return key == 127 || key == 8 ? kKeyErase : static_cast<int32_t>(key);
  }

 private:
  Screen(SCREEN* screen, const TextStyle& style) : screen_(screen), style_(style) {
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    set_escdelay(25);
    timeout(static_cast<int>(kKeyWait.count()));
    curs_set(0);
    if (!style_.color || !has_colors()) return;
    start_color();
    use_default_colors();
    init_pair(1, COLOR_GREEN, -1);
    init_pair(2, COLOR_YELLOW, -1);
    init_pair(3, COLOR_RED, -1);
    has_pairs_ = true;
  }

  attr_t AttributeOf(Tone tone) const {
    const auto pair = [&](short number) { return has_pairs_ ? static_cast<attr_t>(COLOR_PAIR(number)) : A_NORMAL; };
    switch (tone) {
      case Tone::kHeading:
        return A_BOLD;
      case Tone::kAside:
        return has_pairs_ ? A_DIM : A_NORMAL;
      case Tone::kGood:
        return pair(1);
      case Tone::kWarning:
        return pair(2);
      case Tone::kAlarm:
        return pair(3) | A_BOLD;
      case Tone::kPlain:
        break;
    }
    return A_NORMAL;
  }

  SCREEN* screen_;
  TextStyle style_;
  bool has_pairs_ = false;
};

std::string Mark(const LiveProcess& process, const std::string& text) {
  const absl::StatusOr<ControlAnswer> answer =
      AskProcess(static_cast<int>(process.process.pid), absl::StrCat("mark ", text));
  return answer.ok() ? absl::StrCat("Marked: ", text) : absl::StrCat("Not marked: ", answer.status().message());
}

std::string Dump(const LiveProcess& process) {
  const int pid = static_cast<int>(process.process.pid);
  const absl::StatusOr<ControlAnswer> answer = AskProcess(pid, "dump");
  if (!answer.ok()) return absl::StrCat("No dump: ", answer.status().message());
  const std::string file = answer->Text("file");
  const absl::StatusOr<Snapshot> taken =
      TakeSnapshot(pid, file, answer->Number("file_bytes"), SnapshotName(file), false);
  return taken.ok() ? absl::StrCat("The trace so far is in ", taken->path)
                    : absl::StrCat("No dump: ", taken.status().message());
}

std::string Do(const LiveAction& action, const LiveProcess* process) {
  if (process == nullptr || !process->is_local) return "Not done: no running program of this machine is shown.";
  return action.kind == LiveAction::Kind::kMark ? Mark(*process, action.text) : Dump(*process);
}

}  // namespace

absl::StatusOr<int> ShowLive(LiveJob* job, std::chrono::milliseconds interval, Console* console) {
  setlocale(LC_ALL, "");
  const std::unique_ptr<Screen> screen = Screen::Open(console->out_style());
  if (screen == nullptr) {
    const char* const term = std::getenv("TERM");
    return absl::InvalidArgumentError(absl::StrCat("no terminal description for TERM=", term == nullptr ? "" : term,
                                                   ". gpumemshim live --once prints one frame."));
  }
  const LiveWorker worker(job, interval);
  LiveView view;
  std::shared_ptr<const LiveFrame> frame = worker.frame();
  for (;;) {
    if (!view.is_paused()) frame = worker.frame();
    screen->Draw(DrawLive(*frame, view, screen->size()));
    for (int32_t key = Screen::ReadKey(); key != 0; key = 0) {
      const LiveAction action = view.Press(key, *frame);
      if (action.kind == LiveAction::Kind::kQuit) return 0;
      if (action.kind != LiveAction::Kind::kNone) view.Say(Do(action, view.Selected(*frame)));
    }
  }
}

}  // namespace gpumem
