// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory of one process in another: IPC handles, shareable handles, pools and their pointers. The importer has
// addresses and sizes; the memory is the exporter's.
#include <sys/socket.h>

#include <cstring>

#include "tests/simcuda/driver/memory_fixture.h"

namespace simcuda {
namespace {

using testing::ElementsAre;

// Sends bytes and a descriptor (-1: none) over a socket, and back.
void Send(int socket, const void* data, size_t size, int descriptor) {
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(size));
}

int Receive(int socket, void* data, size_t size) {
  iovec part{data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT_EQ(::recvmsg(socket, &message, MSG_WAITALL), static_cast<ssize_t>(size));
  int descriptor = -1;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message)) {
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  }
  return descriptor;
}

// Runs exporter(socket) in a process of its own, which ends after importer(socket) in this one.
template <typename Exporter, typename Importer>
void Between(Exporter exporter, Importer importer) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("SIMCUDA_LOG", "", 1);
    ::close(sockets[1]);
    UsePrimaryContext();
    exporter(sockets[0]);
    char byte = 0;
    if (::read(sockets[0], &byte, 1) != 0) ::_exit(2);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  ::close(sockets[0]);
  UsePrimaryContext();
  importer(sockets[1]);
  ::close(sockets[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SharingTest, IpcHandlesOpenInAnotherProcess) {
  const auto body = [] {
    CUipcMemHandle handle;
    Between(
        [](int socket) {
          CUdeviceptr pointer = 0;
          CUipcMemHandle exported;
          ASSERT_EQ(cuMemAlloc(&pointer, 3 * kMebibyte), CUDA_SUCCESS);
          ASSERT_EQ(cuIpcGetMemHandle(&exported, pointer), CUDA_SUCCESS);
          Send(socket, &exported, sizeof exported, -1);
        },
        [&](int socket) {
          Receive(socket, &handle, sizeof handle);
          const size_t free_before = FreeBytes();
          CUdeviceptr pointer = 0, again = 0, base = 0;
          size_t bytes = 0;
          ASSERT_EQ(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
          EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, pointer), CUDA_SUCCESS);
          EXPECT_EQ(bytes, 3 * kMebibyte);
          EXPECT_EQ(FreeBytes(), free_before);
          EXPECT_EQ(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
          EXPECT_EQ(again, pointer);
          EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
          EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
          EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
          EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_ERROR_INVALID_VALUE);
        });
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuIpcOpenMemHandle(&pointer, handle, 0), CUDA_ERROR_INVALID_VALUE);  // the exporter is gone
  };
  EXPECT_THAT(KindsOf("ipc", body), ElementsAre("import", "free_failed", "import_close"));
}

TEST(SharingTest, ShareableHandlesTravelAsFiles) {
  const auto body = [] {
    Between(
        [](int socket) {
          int file = -1;
          const CUmemGenericAllocationHandle memory = CreateMemory(4 * kMebibyte);
          ASSERT_EQ(cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                    CUDA_SUCCESS);
          Send(socket, "x", 1, file);
        },
        [](int socket) {
          char byte;
          const intptr_t file = Receive(socket, &byte, 1);
          const size_t free_before = FreeBytes();
          CUmemGenericAllocationHandle memory = 0;
          ASSERT_EQ(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(file),
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                    CUDA_SUCCESS);
          CUmemAllocationProp properties{};
          EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, memory), CUDA_SUCCESS);
          EXPECT_EQ(properties.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
          CUdeviceptr address = 0;
          ASSERT_EQ(cuMemAddressReserve(&address, 4 * kMebibyte, 0, 0, 0), CUDA_SUCCESS);
          EXPECT_EQ(cuMemMap(address, 4 * kMebibyte, 0, memory, 0), CUDA_SUCCESS);
          EXPECT_EQ(FreeBytes(), free_before);
          EXPECT_EQ(cuMemUnmap(address, 4 * kMebibyte), CUDA_SUCCESS);
          EXPECT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
        });
  };
  EXPECT_THAT(KindsOf("shareable", body), ElementsAre("import", "reserve", "map", "unmap", "release", "import_close"));
}

TEST(SharingTest, PoolsAndTheirPointersTravelToo) {
  const auto body = [] {
    Between(
        [](int socket) {
          int file = -1;
          CUmemoryPool pool = nullptr;
          CUmemPoolProps properties{};
          properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
          properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
          properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
          CUdeviceptr pointer = 0;
          CUmemPoolPtrExportData data;
          ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
          ASSERT_EQ(cuMemAllocFromPoolAsync(&pointer, kMebibyte, pool, nullptr), CUDA_SUCCESS);
          ASSERT_EQ(cuMemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                    CUDA_SUCCESS);
          ASSERT_EQ(cuMemPoolExportPointer(&data, pointer), CUDA_SUCCESS);
          Send(socket, &data, sizeof data, file);
        },
        [](int socket) {
          CUmemPoolPtrExportData data;
          const intptr_t file = Receive(socket, &data, sizeof data);
          CUmemoryPool pool = nullptr, other = nullptr;
          CUdeviceptr pointer = 0;
          ASSERT_EQ(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(file),
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                    CUDA_SUCCESS);
          EXPECT_EQ(cuDeviceGetDefaultMemPool(&other, 0), CUDA_SUCCESS);
          EXPECT_EQ(cuMemPoolImportPointer(&pointer, other, &data), CUDA_ERROR_INVALID_VALUE);
          ASSERT_EQ(cuMemPoolImportPointer(&pointer, pool, &data), CUDA_SUCCESS);
          EXPECT_EQ(cuMemAllocFromPoolAsync(&pointer, 512, pool, nullptr), CUDA_ERROR_INVALID_VALUE);
          EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);  // its pointer keeps it
          EXPECT_EQ(cuMemFreeAsync(pointer, nullptr), CUDA_SUCCESS);
          EXPECT_EQ(cuMemFreeAsync(pointer, nullptr), CUDA_ERROR_INVALID_VALUE);
        });
  };
  EXPECT_THAT(KindsOf("pool", body),
              ElementsAre("pool_import", "import", "alloc_failed", "pool_destroy", "import_close", "free_failed"));
}

TEST(SharingTest, HostMemoryHasPoolsOfItsOwn) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0}, device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
                         CUmemoryPool first = nullptr, current = nullptr, plain = nullptr;
                         const auto kind = CU_MEM_ALLOCATION_TYPE_PINNED;
                         ASSERT_EQ(cuMemGetDefaultMemPool(&first, &host, kind), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemGetMemPool(&current, &host, kind), CUDA_SUCCESS);
                         EXPECT_EQ(current, first);
                         EXPECT_EQ(cuMemGetDefaultMemPool(&plain, &device, kind), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemSetMemPool(&host, kind, plain), CUDA_ERROR_INVALID_VALUE);
                         const size_t free_before = FreeBytes();
                         CUdeviceptr pointer = 0;
                         ASSERT_EQ(cuMemAllocFromPoolAsync(&pointer, kMebibyte, first, nullptr), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before);
                         *reinterpret_cast<volatile char*>(pointer) = 1;  // the host can write it
                         EXPECT_EQ(cuMemFreeAsync(pointer, nullptr), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemPoolDestroy(first), CUDA_ERROR_INVALID_VALUE);
                       }),
            0);
}

}  // namespace
}  // namespace simcuda
