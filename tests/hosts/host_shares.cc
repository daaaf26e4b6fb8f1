// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Two processes, one of which opens what the other allocated: by an IPC handle, by a shareable handle of physical
// memory, and by a pool and a pointer into it. The first prints its own process id and that of the other.

#include <cuda.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kMebibyte = 1 << 20;
constexpr auto kFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "host_shares: %s\n", what);
  std::_Exit(1);
}
#define CHECK(condition) Check(condition, #condition)

struct Message {
  CUipcMemHandle handle;
  CUmemPoolPtrExportData pointer;
};
constexpr int kFiles = 2;  // physical memory, pool

struct Control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kFiles)] = {};
};

msghdr Header(iovec* part, Control* control) {
  msghdr header{};
  header.msg_iov = part;
  header.msg_iovlen = 1;
  header.msg_control = control->bytes;
  header.msg_controllen = sizeof control->bytes;
  return header;
}

void Send(int socket, Message message, const int (&files)[kFiles]) {
  iovec part{&message, sizeof message};
  Control control;
  msghdr header = Header(&part, &control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(rights), files, sizeof files);
  CHECK(sendmsg(socket, &header, 0) == sizeof message);
}

Message Receive(int socket, int (*files)[kFiles]) {
  Message message;
  iovec part{&message, sizeof message};
  Control control;
  msghdr header = Header(&part, &control);
  CHECK(recvmsg(socket, &header, MSG_WAITALL) == sizeof message);
  const cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  CHECK(rights != nullptr);
  if (rights != nullptr) std::memcpy(*files, CMSG_DATA(rights), sizeof *files);
  return message;
}

void Start() {
  CUcontext context = nullptr;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

void Give(int socket) {
  Start();
  Message message{};
  int files[kFiles] = {-1, -1};
  CUdeviceptr plain = 0, pooled = 0;
  CHECK(cuMemAlloc(&plain, 3 * kMebibyte) == CUDA_SUCCESS);
  CHECK(cuIpcGetMemHandle(&message.handle, plain) == CUDA_SUCCESS);

  CUmemAllocationProp memory{};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  memory.requestedHandleTypes = kFile;
  CUmemGenericAllocationHandle physical = 0;
  CHECK(cuMemCreate(&physical, 4 * kMebibyte, &memory, 0) == CUDA_SUCCESS);
  CHECK(cuMemExportToShareableHandle(&files[0], physical, kFile, 0) == CUDA_SUCCESS);

  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = kFile;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  CHECK(cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS);
  CHECK(cuMemAllocFromPoolAsync(&pooled, kMebibyte, pool, nullptr) == CUDA_SUCCESS);
  CHECK(cuMemPoolExportToShareableHandle(&files[1], pool, kFile, 0) == CUDA_SUCCESS);
  CHECK(cuMemPoolExportPointer(&message.pointer, pooled) == CUDA_SUCCESS);
  Send(socket, message, files);
}

// Its own: 5 MiB. What it keeps of the other's: 3 and 1 MiB.
void Take(int socket) {
  Start();
  int files[kFiles];
  Message message = Receive(socket, &files);
  CUdeviceptr own = 0, opened = 0, mapped = 0, pooled = 0;
  CHECK(cuMemAlloc(&own, 5 * kMebibyte) == CUDA_SUCCESS);
  CHECK(cuIpcOpenMemHandle(&opened, message.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
  CHECK(cuIpcCloseMemHandle(opened) == CUDA_SUCCESS);
  CHECK(cuIpcOpenMemHandle(&opened, message.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);

  CUmemGenericAllocationHandle physical = 0;
  CHECK(cuMemImportFromShareableHandle(&physical, reinterpret_cast<void*>(intptr_t{files[0]}), kFile) == CUDA_SUCCESS);
  CHECK(cuMemAddressReserve(&mapped, 4 * kMebibyte, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(cuMemMap(mapped, 4 * kMebibyte, 0, physical, 0) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(mapped, 4 * kMebibyte) == CUDA_SUCCESS);
  CHECK(cuMemRelease(physical) == CUDA_SUCCESS);

  CUmemoryPool pool = nullptr;
  CHECK(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t{files[1]}), kFile, 0) ==
        CUDA_SUCCESS);
  CHECK(cuMemPoolImportPointer(&pooled, pool, &message.pointer) == CUDA_SUCCESS);
}

}  // namespace

int main() {
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const pid_t other = fork();
  if (other == 0) {
    Take(sockets[1]);
    return 0;
  }
  std::printf("%d %d\n", getpid(), other);
  Give(sockets[0]);
  int status = 0;
  CHECK(waitpid(other, &status, 0) == other && status == 0);
  return 0;
}
