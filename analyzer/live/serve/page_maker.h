// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PageMaker: a thread that makes the data of a page (`gpumemshim html --json`) when it is asked to, one at a time, in a
// process of its own at low priority: a long trace then neither holds up nor ends who asked.
// Thread-safe. Its end kills what is being made.
//
//   PageMaker maker({"/proc/self/exe", "html", "--json"});
//   maker.Want({"run.gmtrace"}, "");
//   std::shared_ptr<const MadePage> page = maker.made();   // number 0 until the first is there

#ifndef GPUMEM_ANALYZER_LIVE_SERVE_PAGE_MAKER_H_
#define GPUMEM_ANALYZER_LIVE_SERVE_PAGE_MAKER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/process.h"

namespace gpumem {

struct MadePage {
  uint64_t number = 0;                // 0 = there is none
  std::string deflated;               // web/packed_data.h; "" = it could not be made
  std::string problem;                // why not, and what to do; "" = nothing
  std::string events;                 // --events that it was made with
  std::chrono::milliseconds took{0};  // to make it
};

class PageMaker {
 public:
  // The traces are appended to `command`.
  explicit PageMaker(std::vector<std::string> command);
  ~PageMaker();
  PageMaker(const PageMaker&) = delete;
  PageMaker& operator=(const PageMaker&) = delete;

  // Of these traces, with the single events of `events` (html --events; "" = without); nothing where one is being made.
  void Want(const std::vector<std::string>& traces, const std::string& events);
  bool is_busy() const;
  std::shared_ptr<const MadePage> made() const;  // never null

 private:
  void Run();
  MadePage Make(const std::vector<std::string>& traces, const std::string& events);

  const std::vector<std::string> command_;
  ChildOutput child_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> wanted_;  // empty: nothing is
  std::string wanted_events_;
  std::shared_ptr<const MadePage> made_ = std::make_shared<const MadePage>();
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_PAGE_MAKER_H_
