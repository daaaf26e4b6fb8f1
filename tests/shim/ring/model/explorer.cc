// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "explorer.h"

#include "memory.h"

namespace model {

Explorer& Explorer::Get() {
  static Explorer explorer;
  return explorer;
}

void Explorer::Start(const Bounds& bounds) {
  bounds_ = bounds;
  path_.clear();
  failure_.clear();
  executions_ = points_ = 0;
  started_ = exhausted_ = false;
  if (stacks_.empty()) stacks_.assign(kMaxFibers, std::vector<char>(kStackBytes));
}

bool Explorer::BeginExecution() {
  if (!failure_.empty()) return false;
  if (started_) {
    while (!path_.empty() && path_.back().taken + 1 == path_.back().count) path_.pop_back();
    if (path_.empty()) {
      exhausted_ = true;
      return false;
    }
    if (executions_ == bounds_.executions) return false;
    ++path_.back().taken;
  }
  started_ = true;
  ++executions_;
  depth_ = 0;
  points_of_execution_ = 0;
  left_ = bounds_;
  changed_ = true;
  fiber_count_ = 0;
  current_ = -1;
  for (Fiber& fiber : fibers_) fiber.state = State::kNone;
  Memory::Get().Reset();
  return true;
}

void Explorer::Spawn(std::function<void()> body, bool mortal) {
  Fiber& fiber = fibers_[fiber_count_];
  fiber.body = std::move(body);
  fiber.mortal = mortal;
  fiber.state = State::kReady;
  getcontext(&fiber.context);
  fiber.context.uc_stack = {stacks_[fiber_count_].data(), 0, kStackBytes};
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &Explorer::Main, 0);
  ++fiber_count_;
}

void Explorer::Main() {
  Explorer& explorer = Get();
  explorer.fibers_[explorer.current_].body();
  Memory::Get().FlushAll(explorer.current_);
  explorer.fibers_[explorer.current_].state = State::kDone;
  explorer.LeaveFiber();
}

void Explorer::RunFibers(std::function<void()> at_each_step) {
  at_each_step_ = std::move(at_each_step);
  next_ = -1;
  while (failure_.empty()) {
    if (next_ < 0) {  // at the start, or one has ended: who goes on is free to choose
      int ready[kMaxFibers], count = 0;
      for (int i = 0; i < fiber_count_; ++i) {
        if (fibers_[i].state == State::kReady) ready[count++] = i;
      }
      if (count == 0) break;
      next_ = ready[Decide(count)];
    }
    current_ = next_;
    next_ = -1;
    if (on_switch) on_switch(-1, current_);
    swapcontext(&loop_, &fibers_[current_].context);
    if (on_switch) on_switch(current_, -1);
    current_ = -1;
  }
}

void Explorer::LeaveFiber() {
  const int self = current_;
  swapcontext(&fibers_[self].context, &loop_);
}

void Explorer::SwitchTo(int fiber) {
  next_ = fiber;
  LeaveFiber();
}

int Explorer::Decide(int count) {
  if (count == 1) return 0;
  if (depth_ == path_.size()) path_.push_back({0, static_cast<uint8_t>(count)});
  if (path_[depth_].count != count) {
    Fail("the program did something else under the same schedule");
    return 0;
  }
  return path_[depth_++].taken;
}

int Explorer::CollectOptions() {
  int count = 0;
  options_[count++] = {Option::kGoOn, current_};
  for (int i = 0; i < fiber_count_; ++i) {
    const bool is_other = i != current_ && fibers_[i].state == State::kReady;
    if (is_other && left_.preemptions > 0) options_[count++] = {Option::kSwitch, i};
    if (fibers_[i].mortal && fibers_[i].state == State::kReady && left_.deaths > 0)
      options_[count++] = {Option::kKill, i};
  }
  return count;
}

void Explorer::Take(int option) {
  const Option taken = options_[option];
  switch (taken.kind) {
    case Option::kGoOn:
      return;
    case Option::kSwitch:
      --left_.preemptions;
      SwitchTo(taken.fiber);
      return;
    case Option::kKill:
      --left_.deaths;
      Memory::Get().FlushAll(taken.fiber);
      fibers_[taken.fiber].state = State::kDead;
      if (taken.fiber == current_) LeaveFiber();
  }
}

void Explorer::Point() {
  ++points_;
  if (++points_of_execution_ > kMaxPointsInAnExecution) Fail("it does not come to an end");
  // A kill lets the processors finish their stores, so nothing is held back then.
  if (failure_.empty() && changed_ && !Memory::Get().HoldsBackAny()) {
    changed_ = false;
    at_each_step_();
  }
  if (failure_.empty()) Take(Decide(CollectOptions()));
  if (!failure_.empty()) LeaveFiber();
}

void Explorer::Yield() {
  if (!IsExploring()) return;
  for (int i = 1; i < fiber_count_; ++i) {
    const int other = (current_ + i) % fiber_count_;
    if (fibers_[other].state != State::kReady) continue;
    Memory::Get().FlushAll(current_);
    SwitchTo(other);
    return;
  }
}

bool Explorer::ChooseDelay() {
  if (left_.delayed_stores == 0 || Decide(2) == 0) return false;
  --left_.delayed_stores;
  return true;
}

void Explorer::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

}  // namespace model
