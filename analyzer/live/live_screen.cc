// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_screen.h"

#define NCURSES_WIDECHAR 1
#include <ncurses.h>

#include <clocale>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/terminal.h"
#include "base/utf8.h"
#include "live/ctl_client.h"
#include "live/ctl_snapshot.h"
#include "live/live_view.h"
#include "live/live_worker.h"

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
    return {static_cast<size_t>(rows), columns, style_.utf8};
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
