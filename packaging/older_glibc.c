// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the static archives of Debian 12 take from glibc 2.36 and glibc 2.28 does not have. Linked into the packaged
// files alone, hidden in each.
//
//   arc4random, arc4random_buf   expat's and libstdc++'s random numbers: the kernel's
//   __libc_single_threaded       libstdc++'s reference counts ask whether they may do without atomic instructions: no
//   _dl_find_object              libgcc's unwinder asks for the unwind table of an address: found by dl_iterate_phdr,
//   as libgcc itself did before
//                                glibc 2.35. It answers false otherwise and every exception would end the program
//   pthread_cond_clockwait       libstdc++'s condition_variable waits for a moment of the monotonic clock: for the same
//   time by the clock that the condition has. Where that is set meanwhile, the wait is longer or shorter by as much
//
// Thread-safe. arc4random_buf aborts where the kernel has no getrandom (before 3.17), as glibc's does.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN char __libc_single_threaded = 0;

HIDDEN void arc4random_buf(void* to, size_t size) {
  char* at = to;
  while (size > 0) {
    const long got = syscall(SYS_getrandom, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) abort();
    at += got;
    size -= (size_t)got;
  }
}

HIDDEN uint32_t arc4random(void) {
  uint32_t value;
  arc4random_buf(&value, sizeof value);
  return value;
}

struct search {
  uintptr_t address;
  struct dl_find_object* found;
};

// 0: not in this object; 1: in it; -1: in it, and it has no unwind table.
static int look_into(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  struct search* search = data;
  const ElfW(Phdr)* table = NULL;
  uintptr_t first = UINTPTR_MAX, last = 0;
  int inside = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment->p_vaddr, end = begin + segment->p_memsz;
    if (segment->p_type == PT_GNU_EH_FRAME) table = segment;
    if (segment->p_type != PT_LOAD) continue;
    if (search->address >= begin && search->address < end) inside = 1;
    if (begin < first) first = begin;
    if (end > last) last = end;
  }
  if (!inside) return 0;
  if (table == NULL) return -1;
  search->found->dlfo_flags = 0;
  search->found->dlfo_map_start = (void*)first;
  search->found->dlfo_map_end = (void*)last;
  search->found->dlfo_link_map = NULL;  // libgcc does not read it
  search->found->dlfo_eh_frame = (void*)(object->dlpi_addr + table->p_vaddr);
  return 1;
}

HIDDEN int _dl_find_object(void* address, struct dl_find_object* found) {
  struct search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}

HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const struct timespec* until) {
  struct timespec now, end;
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  if (clock != CLOCK_MONOTONIC || until->tv_nsec < 0 || until->tv_nsec >= 1000000000) return EINVAL;
  clock_gettime(CLOCK_MONOTONIC, &now);
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += until->tv_sec - now.tv_sec;
  end.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (end.tv_nsec >= 1000000000) {
    end.tv_nsec -= 1000000000;
    end.tv_sec++;
  } else if (end.tv_nsec < 0) {
    end.tv_nsec += 1000000000;
    end.tv_sec--;
  }
  return pthread_cond_timedwait(condition, mutex, &end);
}
