// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/ctl_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file_output.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kProtocol = "gpumemshim/1 ";
constexpr size_t kMaxAnswerBytes = 1 << 16;
constexpr int kTimeoutMs = 10'000;  // a flush may take a while
constexpr int kListTimeoutMs = 2'000;
constexpr int kMaxAttempts = 100;  // while others wait in front of us
constexpr useconds_t kAttemptUs = 20'000;

int ConnectPatiently(int fd, const sockaddr_un& address) {
  int result = -1;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    if (result == 0 || errno != EAGAIN) break;
    usleep(kAttemptUs);
  }
  return result;
}

// The numbers of a line of /proc/PID/status, "NSpid:\t4242\t17" for example.
std::vector<int> StatusNumbers(int pid, absl::string_view name) {
  std::vector<int> numbers;
  const std::string status = ProcessStatus(pid, name);
  for (const absl::string_view word : absl::StrSplit(status, absl::ByAnyChar("\t "), absl::SkipEmpty())) {
    int number = 0;
    if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  }
  return numbers;
}

struct Connection {
  int fd = -1;
  int pid = 0;  // of who listens, as the kernel says
  uint32_t uid = 0;
  int error = 0;
};

// Through the directory's descriptor, so that no path is too long for an address.
Connection Connect(const std::string& directory, const std::string& name) {
  Connection connection;
  const int folder = open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return {-1, 0, 0, errno};
  const absl::Cleanup closer = [folder] { close(folder); };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = absl::StrCat("/proc/self/fd/", folder, "/", name);
  if (path.size() >= sizeof(address.sun_path)) return {-1, 0, 0, ENAMETOOLONG};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  connection.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection.fd < 0) return {-1, 0, 0, errno};
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (ConnectPatiently(connection.fd, address) != 0 ||
      getsockopt(connection.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    connection.error = errno;
    close(connection.fd);
    connection.fd = -1;
    return connection;
  }
  connection.pid = peer.pid;
  connection.uid = peer.uid;
  return connection;
}

absl::StatusOr<std::string> Exchange(int fd, absl::string_view request, int timeout_ms) {
  const std::string line = absl::StrCat(kProtocol, request, "\n");
  if (send(fd, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return absl::UnavailableError("the process took no request");
  std::string answer;
  char buffer[4096];
  while (answer.size() < kMaxAnswerBytes) {
    pollfd wanted{fd, POLLIN, 0};
    const int ready = poll(&wanted, 1, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return absl::UnavailableError("the process does not answer (is it stopped?)");
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) break;
    answer.append(buffer, static_cast<size_t>(got));
  }
  if (answer.empty()) return absl::UnavailableError("the process closed the connection without an answer");
  return answer;
}

absl::StatusOr<ControlAnswer> Ask(const Connection& connection, absl::string_view request, int timeout_ms) {
  const absl::Cleanup closer = [&connection] { close(connection.fd); };
  GPUMEM_ASSIGN_OR_RETURN(const std::string text, Exchange(connection.fd, request, timeout_ms));
  return ControlAnswer::Parse(text);
}

// The socket's names: PID.sock, and PID.N.sock where processes of several pid namespaces share a directory.
std::vector<std::string> SocketsIn(const std::string& directory, absl::string_view pid) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!absl::EndsWith(name, ".sock") || name[0] < '1' || name[0] > '9') continue;
    if (pid.empty() || absl::StartsWith(name, absl::StrCat(pid, "."))) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Connects to the process if one of the sockets in this directory is its own.
bool ConnectTo(int pid, const std::string& directory, int name_pid, Connection* connection, int* error) {
  for (const std::string& name : SocketsIn(directory, absl::StrCat(name_pid))) {
    *connection = Connect(directory, name);
    if (connection->fd < 0) {
      *error = connection->error;
    } else if (connection->pid == pid) {
      return true;
    } else {
      close(connection->fd);
    }
  }
  return false;
}

absl::Status WhyNotFound(int pid, uint32_t uid, int error) {
  if (uid != geteuid() && geteuid() != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("process ", pid, " belongs to another user; only that user and root (sudo) may control it"));
  }
  if (error == EACCES || error == EPERM)
    return absl::PermissionDeniedError(absl::StrCat("process ", pid, " may not be controlled: ", std::strerror(error)));
  return absl::NotFoundError(absl::StrCat("process ", pid, " does not listen: ", WhyNoSocket(pid, uid),
                                          ". gpumemshim ctl lists those that do"));
}

std::string Unescaped(absl::string_view value) {
  std::string text;
  for (size_t i = 0; i < value.size(); ++i) {
    const auto digit = [&](size_t at) {
      const char c = value[at];
      return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    if (value[i] == '\\' && i + 3 < value.size() && value[i + 1] == 'x' && digit(i + 2) >= 0 && digit(i + 3) >= 0) {
      text.push_back(static_cast<char>(digit(i + 2) * 16 + digit(i + 3)));
      i += 3;
    } else {
      text.push_back(value[i]);
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<ControlAnswer> ControlAnswer::Parse(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  absl::string_view head = lines.front();
  if (!absl::ConsumePrefix(&head, kProtocol))
    return absl::DataLossError("unexpected reply; is the recorder another version?");
  if (absl::StartsWith(head, "error ")) return absl::FailedPreconditionError(EscapeControls(head.substr(6)));
  ControlAnswer answer;
  bool ended = false;
  for (size_t i = 1; i < lines.size() && !ended; ++i) {
    ended = lines[i] == "end";
    const size_t blank = lines[i].find(' ');
    if (!ended && blank != absl::string_view::npos)
      answer.fields_[std::string(lines[i].substr(0, blank))] = Unescaped(lines[i].substr(blank + 1));
  }
  if (head != "ok" || !ended) return absl::DataLossError("the answer is cut short");
  return answer;
}

std::string ControlAnswer::Text(absl::string_view name) const {
  const auto found = fields_.find(name);
  return found == fields_.end() ? "" : found->second;
}

uint64_t ControlAnswer::Number(absl::string_view name) const {
  uint64_t number = 0;
  return absl::SimpleAtoi(Text(name), &number) ? number : 0;
}

absl::StatusOr<ControlAnswer> AskProcess(int pid, absl::string_view request) {
  struct stat process {};
  if (stat(absl::StrCat("/proc/", pid).c_str(), &process) != 0)
    return absl::NotFoundError(
        absl::StrCat("there is no process ", pid, ". gpumemshim ctl lists those that are recorded"));
  const std::vector<int> uids = StatusNumbers(pid, "Uid");
  const uint32_t uid = uids.size() > 1 ? static_cast<uint32_t>(uids[1]) : process.st_uid;
  const std::vector<int> inner_pids = StatusNumbers(pid, "NSpid");
  Connection connection;
  int error = 0;
  for (const std::string& directory : ControlPlaces(uid)) {
    if (ConnectTo(pid, directory, pid, &connection, &error)) return Ask(connection, request, kTimeoutMs);
  }
  const int inner_pid = inner_pids.empty() ? pid : inner_pids.back();
  for (const std::string& directory : ControlPlaces(uid)) {
    const std::string inside = absl::StrCat("/proc/", pid, "/root", directory);
    if (ConnectTo(pid, inside, inner_pid, &connection, &error)) return Ask(connection, request, kTimeoutMs);
  }
  return WhyNotFound(pid, uid, error);
}

std::vector<ControlAnswer> AskAll() {
  std::vector<ControlAnswer> answers;
  std::set<int> asked;
  for (const std::string& directory : ControlPlaces(geteuid())) {
    if (!IsPlaceOf(directory, geteuid())) continue;
    for (const std::string& name : SocketsIn(directory, "")) {
      const Connection connection = Connect(directory, name);
      if (connection.fd < 0) {
        if (connection.error == ECONNREFUSED) unlink(absl::StrCat(directory, "/", name).c_str());
        continue;
      }
      if (!asked.insert(connection.pid).second || connection.uid != geteuid()) {
        close(connection.fd);
        continue;
      }
      if (absl::StatusOr<ControlAnswer> answer = Ask(connection, "status", kListTimeoutMs); answer.ok())
        answers.push_back(*std::move(answer));
    }
  }
  return answers;
}

std::vector<int> ListenersBelow(int pid) {
  std::vector<int> below;
  for (const ControlAnswer& answer : AskAll()) {
    const int listener = static_cast<int>(answer.Number("pid"));
    if (listener != pid && IsAtOrBelow(listener, pid)) below.push_back(listener);
  }
  std::sort(below.begin(), below.end());
  return below;
}

namespace {

constexpr const char* kShared[] = {"/tmp", "/dev/shm", "/var/tmp"};

std::string SharedPlace(const char* place, uint32_t uid) { return absl::StrCat(place, "/gpumemshim-", uid); }

constexpr size_t kMostBytes = size_t{256} << 20;  // of what the kernel says of a process

std::string ReadOf(int pid, const char* name) {
  return ReadRegularFile(absl::StrCat("/proc/", pid, "/", name), kMostBytes).value_or("");
}

// "/tmp/gpumemshim-0 belongs to user 1000", of the first place that is taken; "" where none is.
std::string TakenPlace(uint32_t uid) {
  for (const char* place : kShared) {
    const std::string path = SharedPlace(place, uid);
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0 || IsPlaceOf(path, uid)) continue;
    if (status.st_uid != uid) return absl::StrCat(path, " belongs to user ", status.st_uid);
    return absl::StrCat(path, S_ISDIR(status.st_mode) ? " is open to other users" : " is not a folder");
  }
  return "";
}

// The process's own setting.
std::string ControlSetting(int pid) {
  for (const absl::string_view entry : absl::StrSplit(ReadOf(pid, "environ"), '\0')) {
    if (absl::StartsWith(entry, "GPUMEMSHIM_CONTROL=")) return std::string(entry.substr(entry.find('=') + 1));
  }
  return "";
}

}  // namespace

std::vector<std::string> ControlPlaces(uint32_t uid) {
  std::vector<std::string> places;
  const auto add = [&](const char* variable, absl::string_view below) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') places.push_back(absl::StrCat(value, below));
  };
  add("GPUMEMSHIM_CONTROL", "");
  add("XDG_RUNTIME_DIR", "/gpumemshim");
  places.push_back(absl::StrCat("/run/user/", uid, "/gpumemshim"));
  for (const char* place : kShared) places.push_back(SharedPlace(place, uid));
  return places;
}

bool IsPlaceOf(const std::string& directory, uint32_t uid) {
  struct stat status {};
  return lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == uid &&
         (status.st_mode & 022) == 0;
}

std::string WhyNoSocket(int pid, uint32_t uid) {
  const std::string maps = ReadOf(pid, "maps");
  if (maps.empty())
    return "it runs without libgpumemshim.so, has not used CUDA so far, or was started with GPUMEMSHIM_CONTROL=0";
  if (!absl::StrContains(maps, "libgpumemshim")) return "it runs without libgpumemshim.so";
  const std::string setting = ControlSetting(pid);
  if (setting == "0") return "it was started with GPUMEMSHIM_CONTROL=0";
  if (absl::StartsWith(setting, "/"))
    return absl::StrCat("it has not used CUDA so far, or could not make its socket in ", setting,
                        " (GPUMEMSHIM_CONTROL)");
  const std::string taken = TakenPlace(uid);
  if (taken.empty()) return "it has not used CUDA so far";
  return absl::StrCat("it has not used CUDA so far, or found no place for its socket: ", taken,
                      ". Remove that, or set GPUMEMSHIM_CONTROL=/a/folder/of/yours");
}

}  // namespace gpumem
