// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "reference.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <link.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

const ucontext_t* g_context;
pid_t g_thread;

pid_t NextThread(Dwfl*, void*, void** position) {
  if (*position != nullptr) return 0;
  *position = &g_thread;
  return g_thread;
}

bool GetThread(Dwfl*, pid_t, void*, void** position) {
  *position = &g_thread;
  return true;
}

bool ReadMemory(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void*) {
  iovec to{result, sizeof *result};
  iovec from{reinterpret_cast<void*>(address), sizeof *result};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(sizeof *result);
}

bool SetRegisters(Dwfl_Thread* thread, void*) {
  // DWARF numbers registers otherwise than the kernel does.
  static constexpr int kOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                   REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  Dwarf_Word registers[17];
  for (int i = 0; i < 17; ++i) registers[i] = static_cast<Dwarf_Word>(g_context->uc_mcontext.gregs[kOrder[i]]);
  return dwfl_thread_state_registers(thread, 0, 17, registers);
}

struct Walk {
  std::vector<uint64_t> pcs;
  size_t limit;
};

int AddFrame(Dwfl_Frame* frame, void* data) {
  auto* walk = static_cast<Walk*>(data);
  Dwarf_Addr pc = 0;
  if (!dwfl_frame_pc(frame, &pc, nullptr) || pc == 0) return DWARF_CB_ABORT;
  walk->pcs.push_back(pc);
  return walk->pcs.size() < walk->limit ? DWARF_CB_OK : DWARF_CB_ABORT;
}

void Require(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "reference: %s: %s\n", what, dwfl_errmsg(-1));
  std::abort();
}

struct Counts {
  unsigned long long adds, subs;
  bool operator==(const Counts&) const = default;
};

Counts CountLoads() {
  Counts counts{};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        *static_cast<Counts*>(data) = {info->dlpi_adds, info->dlpi_subs};
        return 1;
      },
      &counts);
  return counts;
}

// Anew whenever anything was loaded or unloaded, and in each process.
Dwfl* Session() {
  static Dwfl* session = nullptr;
  static Counts counts;
  static pid_t owner = 0;
  const Counts now = CountLoads();
  if (session != nullptr && now == counts && owner == getpid()) return session;
  if (session != nullptr) dwfl_end(session);
  static char* path = nullptr;
  static const Dwfl_Callbacks callbacks = {dwfl_linux_proc_find_elf, dwfl_standard_find_debuginfo, nullptr, &path};
  static const Dwfl_Thread_Callbacks threads = {NextThread, GetThread, ReadMemory, SetRegisters, nullptr, nullptr};
  session = dwfl_begin(&callbacks);
  Require(session != nullptr && dwfl_linux_proc_report(session, getpid()) == 0, "report");
  Require(dwfl_report_end(session, nullptr, nullptr) == 0, "report end");
  Require(dwfl_attach_state(session, nullptr, getpid(), &threads, nullptr), "attach");
  counts = now;
  owner = getpid();
  return session;
}

}  // namespace

std::vector<uint64_t> Reference(const ucontext_t& context, size_t limit) {
  g_context = &context;
  g_thread = static_cast<pid_t>(syscall(SYS_gettid));
  Walk walk{{}, limit};
  dwfl_getthread_frames(Session(), g_thread, AddFrame, &walk);
  return walk.pcs;
}
