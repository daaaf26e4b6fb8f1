// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "round.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "append_trap.h"
#include "shim/ring/layout.h"
#include "trace/reader.h"

namespace torture {
namespace {

namespace fs = std::filesystem;
using gpumemshim::ring::ChunkDescriptor;
using gpumemshim::ring::ReadSlot;
using gpumemshim::ring::RingHeader;

constexpr absl::Duration kPatience = absl::Seconds(120), kPatienceForAnEvent = absl::Microseconds(40);

// A shared mapping of a whole file; nullptr where it cannot be had.
class Mapping {
 public:
  Mapping(const std::string& path, int protection) {
    const int fd = open(path.c_str(), (protection & PROT_WRITE) != 0 ? O_RDWR : O_RDONLY);
    if (fd < 0) return;
    bytes_ = static_cast<size_t>(lseek(fd, 0, SEEK_END));
    void* const memory = bytes_ == 0 ? MAP_FAILED : mmap(nullptr, bytes_, protection, MAP_SHARED, fd, 0);
    close(fd);
    if (memory != MAP_FAILED) data_ = static_cast<char*>(memory);
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

pid_t Start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
            const std::string& folder) {
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, 1, absl::StrCat(folder, "/out").c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  if (posix_spawn(&pid, arguments[0].c_str(), &actions, nullptr, pointers(arguments).data(),
                  pointers(environment).data()) != 0)
    pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

int Wait(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

bool HasEnded(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

std::string TheOne(const std::string& folder, const char* extension) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == extension) return entry.path().string();
  }
  return "";
}

// Number of the newest packet that the ring speaks of.
uint64_t NewestMark(const char* ring) {
  const auto* header = reinterpret_cast<const RingHeader*>(ring);
  const auto* chunks = reinterpret_cast<const ChunkDescriptor*>(ring + header->descriptors_offset);
  uint64_t newest = 0;
  for (uint32_t i = 0; i < header->chunk_count; ++i) {
    for (const ReadSlot& slot : chunks[i].read) {
      const uint64_t number = __atomic_load_n(&slot.packet_sequence, __ATOMIC_RELAXED);
      if (number > newest) newest = number;
    }
  }
  return newest;
}

class Runner {
 public:
  Runner(const Setup& setup, const Round& round) : setup_(setup), round_(round) {}

  Outcome Run() {
    char pattern[] = "/tmp/gpumemshim-torture.XXXXXX";
    char ring_pattern[] = "/dev/shm/gpumemshim-torture.XXXXXX";
    if (mkdtemp(pattern) == nullptr || mkdtemp(ring_pattern) == nullptr) return Wrong("no folder for the round");
    folder_ = pattern;
    ring_folder_ = ring_pattern;
    truth_path_ = ring_folder_ + "/truth";
    KillAVictim();
    if (outcome_.verdict.wrong.empty()) CheckWhatIsLeft();
    std::error_code ignored;
    if (outcome_.verdict.wrong.empty()) {
      fs::remove_all(folder_, ignored);
      fs::remove_all(ring_folder_, ignored);
    } else {
      outcome_.folder = absl::StrCat(folder_, " and ", ring_folder_);
    }
    return outcome_;
  }

 private:
  Outcome Wrong(absl::string_view what) {
    if (outcome_.verdict.wrong.empty()) outcome_.verdict.wrong = std::string(what);
    return outcome_;
  }

  bool MakeTruth();
  void KillAVictim();
  bool WaitFor(pid_t victim);
  bool KillInAppendOf(pid_t victim);
  void CheckWhatIsLeft();
  void CheckRecovered(const std::string& from);
  std::vector<std::string> Environment() const;

  const Setup& setup_;
  const Round& round_;
  Outcome outcome_;
  std::string folder_, ring_folder_, truth_path_;
};

// Some threads come to run more often than others, so each has room for three times its share; what nobody touches
// takes no memory.
bool Runner::MakeTruth() {
  const uint64_t capacity = 3 * (round_.events / kThreads) + 1000;
  const uint64_t bytes = sizeof(Truth) + capacity * kThreads * sizeof(Entry);
  const int fd = open(truth_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool sized = fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0;
  if (fd >= 0) close(fd);
  if (!sized) return false;
  const Mapping file(truth_path_, PROT_READ | PROT_WRITE);
  if (file.data() == nullptr) return false;
  auto* truth = new (file.data()) Truth{};
  truth->capacity = capacity;
  for (uint64_t i = 0; i < kThreads; ++i) {
    truth->threads[i].entries_offset = sizeof(Truth) + i * capacity * sizeof(Entry);
  }
  return true;
}

std::vector<std::string> Runner::Environment() const {
  std::vector<std::string> environment = {
      absl::StrCat("LD_PRELOAD=", setup_.library), absl::StrCat("LD_LIBRARY_PATH=", setup_.simcuda),
      absl::StrCat("GPUMEMSHIM_RING_DIRECTORY=", ring_folder_), "GPUMEMSHIM_FREE_STACKS=1"};
  if (!setup_.ring_size.empty()) environment.push_back(absl::StrCat("GPUMEMSHIM_RING_SIZE=", setup_.ring_size));
  return environment;
}

// Until enough is acknowledged. False: the victim ended by itself, or time is up.
bool Runner::WaitFor(pid_t victim) {
  const Mapping file(truth_path_, PROT_READ);
  const auto* truth = reinterpret_cast<const Truth*>(file.data());
  const absl::Time deadline = absl::Now() + kPatience + round_.events * kPatienceForAnEvent;
  while (truth->ready.load(std::memory_order_acquire) == 0 || truth->Acknowledged() < round_.events) {
    if (HasEnded(victim) || absl::Now() > deadline) return false;
    usleep(50);
  }
  return true;
}

// True: it is dead.
bool Runner::KillInAppendOf(pid_t victim) {
  const AppendStep step = round_.moment == Moment::kBeforeTheWrite ? AppendStep::kBeforeTheWrite
                          : round_.moment == Moment::kHalfWritten  ? AppendStep::kHalfWritten
                                                                   : AppendStep::kAfterTheWrite;
  return round_.moment != Moment::kAnyTime && KillInAppend(victim, step, round_.part);
}

void Runner::KillAVictim() {
  if (!MakeTruth()) {
    Wrong("no file for the truth");
    return;
  }
  const pid_t victim = Start({setup_.victim, truth_path_, absl::StrCat(round_.seed)}, Environment(), folder_);
  if (victim < 0) {
    Wrong("the victim did not start");
    return;
  }
  const bool ready = WaitFor(victim);
  if (ready && round_.delay_us > 0) usleep(round_.delay_us);
  outcome_.trapped = ready && KillInAppendOf(victim);
  kill(victim, SIGKILL);
  const int status = Wait(victim);
  if (!ready || !WIFSIGNALED(status)) Wrong(absl::StrCat("the victim did not get far enough: status ", status));
}

void Runner::CheckWhatIsLeft() {
  const Mapping file(truth_path_, PROT_READ);
  const auto& truth = *reinterpret_cast<const Truth*>(file.data());
  const std::string trace = TheOne(folder_, ".gmtrace"), ring = TheOne(ring_folder_, ".ring");
  outcome_.no_file = trace.empty() || fs::file_size(trace) == 0;  // killed between opening and its first write
  if (ring.empty()) {
    Wrong("the ring is gone");
    return;
  }
  if (!outcome_.no_file) {
    outcome_.verdict = CheckTrace(trace, truth, file.data());
    const Mapping mapping(ring, PROT_READ);
    outcome_.marked_ahead = NewestMark(mapping.data()) > outcome_.verdict.last_whole_packet;
  }
  if (outcome_.verdict.wrong.empty()) CheckRecovered(outcome_.no_file ? ring : trace);
}

void Runner::CheckRecovered(const std::string& from) {
  const std::string to = folder_ + "/whole.gmtrace";
  const pid_t recover = Start({setup_.gpumem, "export", "trace", "--delete", "-o", to, from}, {}, folder_);
  const int status = recover < 0 ? -1 : Wait(recover);
  if (status != 0) {
    Wrong(absl::StrCat("gpumemshim export trace ended with status ", status));
    return;
  }
  const bool is_whole = !fs::exists(to);  // the file had it all already
  if (is_whole && outcome_.no_file) Wrong("gpumemshim export trace wrote nothing");
  if (is_whole) return;
  const Mapping file(truth_path_, PROT_READ);
  const Verdict verdict = CheckTrace(to, *reinterpret_cast<const Truth*>(file.data()), file.data());
  if (outcome_.no_file) {
    outcome_.verdict = verdict;
    outcome_.verdict.from_ring = verdict.found;
  }
  if (!verdict.wrong.empty()) Wrong(absl::StrCat("as gpumemshim export trace wrote it: ", verdict.wrong));
  if (verdict.found != outcome_.verdict.found) Wrong("gpumemshim export trace wrote another number of events");
  if (TheOne(ring_folder_, ".ring") != "") Wrong("gpumemshim export trace --delete left the ring");
}

}  // namespace

Outcome RunRound(const Setup& setup, const Round& round) { return Runner(setup, round).Run(); }

}  // namespace torture
