// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Children: by fork and by raw clone. They must find the ring inactive, leave the parent's alone, and be able to start
// their own.

#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "ring_fixture.h"

namespace gpumemshim::ring {
namespace {

// Exit code 0 = all as it should be, else the number of the check.
int InChild(const char* parent_path) {
  if (Active()) return 1;
  Event event{};
  event.kind = EventKind::kAlloc;
  if (Record(event)) return 2;
  RawFrame frame = {1, 0, 0};
  if (RecordStack(1, &frame, 1)) return 3;
  if (GetStats().size_bytes != 0) return 4;
  Config config;
  if (!Start(config) || !Active()) return 5;
  if (strcmp(Path(), parent_path) == 0 || Path()[0] == '\0') return 6;
  for (int i = 0; i < 1000; i++) {
    event.time_ns = 0;
    if (!Record(event)) return 7;
  }
  Reader reader;
  if (!reader.Attach()) return 8;
  Stop(1000);
  reader.BeginPass(true);
  int count = 0;
  EventView view;
  while (reader.NextEvent(&view)) count++;
  Unlink();
  return count == 1000 ? 0 : 9;
}

int Wait(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

class ProcessTest : public RingTest {
 protected:
  void RecordSome(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
      Event event = MakeEvent(EventKind::kAlloc, i);
      ASSERT_TRUE(Record(event));
    }
  }
};

TEST_F(ProcessTest, ForkedChildStartsAnew) {
  StartRing();
  RecordSome(200);
  std::string path = Path();
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(InChild(path.c_str()));
  RecordSome(200);
  EXPECT_EQ(Wait(child), 0);
  EXPECT_TRUE(Active());
  EXPECT_EQ(access(path.c_str(), F_OK), 0) << "the child must not remove the parent's file";
  EXPECT_EQ(StopAndDrain().size(), 400u);
}

// No atfork handler runs here; only the emptied page tells the child.
TEST_F(ProcessTest, RawClonedChildStartsAnew) {
  StartRing();
  RecordSome(200);
  std::string path = Path();
  long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  ASSERT_GE(child, 0);
  if (child == 0) syscall(SYS_exit_group, InChild(path.c_str()));
  EXPECT_EQ(Wait(static_cast<pid_t>(child)), 0);
  EXPECT_EQ(StopAndDrain().size(), 200u);
}

TEST_F(ProcessTest, VforkLeavesTheParentActive) {
  StartRing();
  pid_t child = vfork();
  if (child == 0) _exit(0);
  EXPECT_EQ(Wait(child), 0);
  RecordSome(10);
  EXPECT_EQ(StopAndDrain().size(), 10u);
}

// What an older kernel needs.
TEST_F(ProcessTest, ForgetInChildMakesItInactive) {
  StartRing();
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ForgetInChild();
    _exit(Active() ? 1 : InChild(""));
  }
  EXPECT_EQ(Wait(child), 0);
  EXPECT_TRUE(Active());
}

}  // namespace
}  // namespace gpumemshim::ring
