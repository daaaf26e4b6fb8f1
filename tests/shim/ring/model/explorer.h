// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Explorer: runs a few threads of a program as fibers, one at a time, and goes through the interleavings of their
// atomic operations, depth first. The program under test is the ring's own source, compiled with the calls that the
// thread sanitizer would get at each access; they end here (instrumentation.cc).
//
// Each atomic operation is a point where another thread may come to run and where a thread may die; a store may be held
// back and becomes visible before or after another thread's next look at its place. The search is bounded by how often
// a thread is interrupted, how many stores are held back, and how many threads die; within these bounds it is complete.
//
// Not thread-safe: all of it is one thread. The test's program is re-run from the start for each schedule, so it must
// do the same things under the same schedule.
//
//   Explorer& explorer = Explorer::Get();
//   while (explorer.BeginExecution()) {
//     explorer.Spawn([] { ... });
//     explorer.RunFibers();
//   }

#ifndef GPUMEM_TESTS_SHIM_RING_MODEL_EXPLORER_H_
#define GPUMEM_TESTS_SHIM_RING_MODEL_EXPLORER_H_

#include <ucontext.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace model {

inline constexpr int kMaxFibers = 4;

struct Bounds {
  int preemptions = 2;     // times that a thread is interrupted although it could go on
  int delayed_stores = 0;  // stores that become visible later than what follows them
  int deaths = 0;
  uint64_t executions = UINT64_MAX;
};

class Explorer {
 public:
  static Explorer& Get();

  // Begins the whole search.
  void Start(const Bounds& bounds);
  // Begins the next execution; false when all were run, the bound is reached, or something failed.
  bool BeginExecution();

  // Within an execution. A mortal fiber may die at any point.
  void Spawn(std::function<void()> body, bool mortal = false);
  // Until all have ended or died. `at_each_step` is called between any two atomic operations where something has
  // changed that outlives a kill.
  void RunFibers(std::function<void()> at_each_step);

  // By the instrumentation and by what fibers run.
  int current() const { return current_; }  // -1 outside of fibers
  bool IsExploring() const { return current_ >= 0 && failure_.empty(); }
  void Point();  // an atomic operation of the current fiber is about to happen
  void Yield();  // lets the others go on
  // True where the current fiber's store is to be held back.
  bool ChooseDelay();
  // True where a held store that the current fiber is about to look for becomes visible before.
  bool ChooseFlush() { return Decide(2) != 0; }
  void SetChanged() { changed_ = true; }
  bool HasDied(int fiber) const { return fibers_[fiber].state == State::kDead; }
  bool HasEnded(int fiber) const { return fibers_[fiber].state == State::kDone || HasDied(fiber); }

  void Fail(const std::string& what);  // ends the execution and the search; first one wins
  const std::string& failure() const { return failure_; }
  uint64_t executions() const { return executions_; }
  uint64_t points() const { return points_; }
  bool exhausted() const { return exhausted_; }

  // What belongs to a fiber besides its stack, exchanged at each switch: the ring's thread-local variable.
  std::function<void(int from, int to)> on_switch;

 private:
  enum class State { kNone, kReady, kDone, kDead };
  struct Fiber {
    ucontext_t context;
    State state = State::kNone;
    bool mortal = false;
    std::function<void()> body;
  };
  struct Choice {
    uint8_t taken, count;
  };
  static constexpr uint64_t kMaxPointsInAnExecution = 20'000;
  static constexpr size_t kStackBytes = 256 << 10;

  int Decide(int count);
  int CollectOptions();
  void Take(int option);
  void SwitchTo(int fiber);
  void LeaveFiber();  // to the loop in RunFibers
  static void Main();

  Bounds bounds_, left_;
  std::vector<Choice> path_;
  size_t depth_ = 0;
  std::array<Fiber, kMaxFibers> fibers_;
  std::vector<std::vector<char>> stacks_;
  ucontext_t loop_;
  int fiber_count_ = 0, current_ = -1, next_ = -1;
  struct Option {
    enum Kind { kGoOn, kSwitch, kKill } kind;
    int fiber;
  };
  std::array<Option, 4 * kMaxFibers> options_;
  std::function<void()> at_each_step_;
  std::string failure_;
  uint64_t executions_ = 0, points_ = 0, points_of_execution_ = 0;
  bool started_ = false, exhausted_ = false, changed_ = false;
};

}  // namespace model

#endif  // GPUMEM_TESTS_SHIM_RING_MODEL_EXPLORER_H_
