// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A victim that says what it has: each descriptor below 900, what each signal does, which are blocked, what is mapped.
// It uses CUDA at a place, closes descriptors that it does not know, opens files of its own under their numbers, uses
// CUDA again, and ends:
//
//   unchanged_host FOLDER PLACE CLOSING ENDING
//
// Used by tests/hosts/unchanged_test.py, which compares what it prints, leaves and returns with and without the
// recorder. Failure: exit code 70.

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

namespace {

constexpr int kFirstOfOthers = 900;
constexpr int kMostDescriptors = 4096;
constexpr int kFiles = 12;

std::string g_folder;
std::array<int, kFiles> g_files;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "unchanged_host: %s failed\n", what);
  _exit(70);
}

// What the recorder's unwinder finds no tables for: it guesses by the frame pointer, which leads somewhere, or nowhere.
extern "C" void CallWithoutTables(void (*function)());
extern "C" void CallWithBadFramePointer(void (*function)());
#if defined(__x86_64__)
asm(R"(
  .text
  .globl CallWithoutTables
CallWithoutTables:
  push %rbp
  mov %rsp, %rbp
  call *%rdi
  pop %rbp
  ret
  .globl CallWithBadFramePointer
CallWithBadFramePointer:
  push %rbp
  mov $0x10, %ebp
  call *%rdi
  pop %rbp
  ret
)");
#else
void CallWithoutTables(void (*function)()) { function(); }
void CallWithBadFramePointer(void (*function)()) { function(); }
#endif

void Allocate() {
  for (int i = 1; i <= 40; ++i) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, static_cast<std::size_t>(i) << 12) != cudaSuccess) Fail("cudaMalloc");
    if (cudaFree(memory) != cudaSuccess) Fail("cudaFree");
  }
}

void UseCuda() {
  Allocate();
  CallWithoutTables(&Allocate);
  CallWithBadFramePointer(&Allocate);
}

const char* KindOf(mode_t mode) {
  return S_ISREG(mode)    ? "file"
         : S_ISDIR(mode)  ? "folder"
         : S_ISCHR(mode)  ? "device"
         : S_ISFIFO(mode) ? "pipe"
         : S_ISSOCK(mode) ? "socket"
                          : "other";
}

void SayDescriptors(const char* when) {
  for (int fd = 0; fd < kFirstOfOthers; ++fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) continue;
    char path[512] = "";
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    // A file that the recorder reads may have been closed since.
    if (S_ISREG(status.st_mode) && readlink(link.c_str(), path, sizeof path - 1) < 0) continue;
    const char* const slash = std::strrchr(path, '/');
    std::printf("%s: descriptor %d is a %s %s %x %x\n", when, fd, KindOf(status.st_mode),
                slash == nullptr ? "" : slash + 1, fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
  }
}

void SaySignals(const char* when) {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler != SIG_DFL)
      std::printf("%s: signal %d %s %x\n", when, number, action.sa_handler == SIG_IGN ? "ignored" : "handled",
                  static_cast<unsigned>(action.sa_flags));
  }
  sigset_t blocked, pending;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  sigpending(&pending);
  for (int number = 1; number < NSIG; ++number) {
    if (sigismember(&blocked, number) == 1) std::printf("%s: signal %d blocked\n", when, number);
    if (sigismember(&pending, number) == 1) std::printf("%s: signal %d pending\n", when, number);
  }
}

// Of mapped files the part of the path and the rights; what is not a file differs from run to run.
void SayMappings(const char* when) {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> said;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string range, rights, offset, device, inode, path;
    fields >> range >> rights >> offset >> device >> inode >> path;
    if (path.empty() || path[0] != '/') continue;
    said.insert(rights.append(" ").append(offset).append(" ").append(path));
  }
  for (const std::string& mapping : said) std::printf("%s: mapped %s\n", when, mapping.c_str());
}

void SayLimits(const char* when) {
  for (int number = 0; number < RLIM_NLIMITS; ++number) {
    rlimit limit;
    if (getrlimit(static_cast<__rlimit_resource_t>(number), &limit) == 0)
      std::printf("%s: limit %d %lx %lx\n", when, number, limit.rlim_cur, limit.rlim_max);
  }
  const mode_t mask = umask(0);
  umask(mask);
  char folder[512] = "";
  if (getcwd(folder, sizeof folder) == nullptr) Fail("getcwd");
  std::printf("%s: mask %o folder %d\n", when, mask, folder == g_folder);
}

void Say(const char* when) {
  SayDescriptors(when);
  SaySignals(when);
  SayMappings(when);
  SayLimits(when);
  std::fflush(stdout);
}

void WaitForFile(const std::string& path) {
  while (access(path.c_str(), F_OK) != 0) usleep(5'000);
}

// The program's own files get the numbers of what it closed.
void OpenFiles() {
  for (int i = 0; i < kFiles; ++i) {
    const std::string path = g_folder + "/own" + std::to_string(i);
    g_files[static_cast<std::size_t>(i)] = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    std::printf("own file %d has number %d\n", i, g_files[static_cast<std::size_t>(i)]);
  }
}

void WriteFiles() {
  for (std::size_t i = 0; i < kFiles; ++i) {
    if (g_files[i] < 0) continue;
    if (write(g_files[i], "line\n", 5) != 5) std::printf("own file %zu cannot be written\n", i);
    struct stat status;
    std::printf("own file %zu has %ld bytes\n", i, fstat(g_files[i], &status) == 0 ? long{status.st_size} : -1L);
  }
}

void CloseRange(int from) {
  for (int fd = from; fd < kMostDescriptors; ++fd) close(fd);
}

// Over each number that is somebody else's.
void DuplicateOverEach(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0) Fail("open");
  for (int fd = 3; fd < kMostDescriptors; ++fd) {
    if (fd != file && fcntl(fd, F_GETFD) >= 0) dup2(file, fd);
  }
  struct stat status;
  usleep(300'000);  // for the recorder's threads, to write what they want to
  std::printf("file of all numbers has %ld bytes\n", fstat(file, &status) == 0 ? long{status.st_size} : -1L);
  for (int fd = kFirstOfOthers; fd < kMostDescriptors; ++fd) {
    if (fstat(fd, &status) == 0) close(fd);
  }
}

void SetUpDaemon() {
  const pid_t first = fork();
  if (first < 0) Fail("fork");
  if (first != 0) {
    int status = 0;
    waitpid(first, &status, 0);
    WaitForFile(g_folder + "/done");
    _exit(WEXITSTATUS(status));
  }
  setsid();
  if (fork() != 0) _exit(7);
  CloseRange(3);
}

void DoClosing(const std::string& closing) {
  if (closing == "closerange") CloseRange(3);
  if (closing == "kernel-closerange") syscall(SYS_close_range, 3, ~0U, 0);
  if (closing == "dup2") DuplicateOverEach((g_folder + "/all").c_str());
  if (closing == "standard-streams") {
    close(STDIN_FILENO);
    close(STDERR_FILENO);
  }
  if (closing == "closing-child") {  // as subprocess with close_fds does
    const pid_t child = fork();
    if (child == 0) {
      CloseRange(3);
      OpenFiles();
      WriteFiles();
      std::fflush(stdout);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
}

void DoPlace(const std::string& place) {
  if (place == "once" || place == "attached") UseCuda();
  if (place == "many") {
    for (int i = 0; i < 10; ++i) UseCuda();
  }
  if (place == "threads") {
    std::array<std::thread, 4> threads;
    for (std::thread& thread : threads) thread = std::thread(&UseCuda);
    for (std::thread& thread : threads) thread.join();
  }
  if (place == "attached") {
    std::puts("ready");
    std::fflush(stdout);
    WaitForFile(g_folder + "/go");
  }
}

[[noreturn]] void End(const std::string& ending, char** argv) {
  std::fflush(stdout);
  if (ending == "exit") std::exit(3);
  if (ending == "_exit") _exit(4);
  if (ending == "quick_exit") std::quick_exit(5);
  if (ending == "abort") std::abort();
  if (ending == "term") std::raise(SIGTERM);
  if (ending == "kill") std::raise(SIGKILL);
  if (ending == "segv") std::raise(SIGSEGV);
  if (ending == "exec") execl(argv[0], argv[0], argv[1], "never", "none", "return", nullptr);
  Fail("the ending");
}

void DoForked(const std::string& ending, char** argv) {
  const pid_t child = fork();
  if (child < 0) Fail("fork");
  if (child == 0) {
    Say("in the child");
    if (ending == "child-exits") std::exit(0);
    if (ending == "child-execs") execl(argv[0], argv[0], argv[1], "never", "none", "return", nullptr);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) Fail("waitpid");
  std::printf("child ended with %d\n", status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) Fail("the command line");
  g_folder = argv[1];
  const std::string place = argv[2], closing = argv[3], ending = argv[4];
  if (closing == "daemon") SetUpDaemon();
  Say("at first");
  DoPlace(place == "in-a-child" ? "never" : place);
  if (place != "never") Say("after CUDA");
  DoClosing(closing);
  OpenFiles();
  if (place == "in-a-child") {
    const pid_t child = fork();
    if (child == 0) {
      UseCuda();
      Say("in a child with CUDA");
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  } else if (place != "never") {
    UseCuda();
    std::thread(&UseCuda).join();
  }
  WriteFiles();
  Say("at last");
  if (closing == "daemon") std::ofstream(g_folder + "/done").put('\n');
  if (ending.starts_with("child-")) DoForked(ending, argv);
  if (ending == "return" || ending.starts_with("child-")) return 2;
  End(ending, argv);
}
