/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * gpumemshim.h: what a program can say to the recorder about itself: marks, stages, steps, tags, names of
 * memory; and when to record.
 *
 * Nothing is linked. Where libgpumemshim.so is preloaded the calls reach it; everywhere else each of them is a test of
 * one variable, and does nothing. C99 or C++, gcc or clang, Linux. Before glibc 2.34 link with -ldl.
 *
 *   #include <gpumemshim.h>
 *
 *   for (int step = 1; step <= steps; ++step) {
 *     gpumemshim_step(step);
 *     gpumemshim_stage_push("forward");
 *     forward();
 *     gpumemshim_stage_pop();
 *   }
 *
 * Thread-safety: every function may be called from any thread. None fails, blocks, allocates or changes errno. Texts
 * are UTF-8 and copied; of longer ones the first 1,024 bytes count.
 *
 * Versions: GPUMEMSHIM_API_VERSION grows when functions are added. A program built with this header works with older
 * and newer libraries: what the library does not know does nothing.
 */
#ifndef GPUMEMSHIM_H_
#define GPUMEMSHIM_H_

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define GPUMEMSHIM_API_VERSION 3

#ifdef __cplusplus
extern "C" {
#endif

/* What the library hands out. Functions are only ever added, at the end; `size` says how many there are. */
struct gpumemshim_api {
  uint32_t version;
  uint32_t size; /* bytes of this struct that the library knows */
  int (*recording)(void);
  void (*mark)(const char* text);
  void (*stage_push)(const char* name);
  void (*stage_pop)(void);
  void (*step)(uint64_t number);
  void (*tag)(const char* name);
  void (*pause)(void);
  void (*resume)(void);
  /* Version 2. */
  void (*snapshot)(const char* name);
  void (*name)(const void* address, size_t bytes, const char* name);
  /* Version 3. */
  void (*read)(const void* address, size_t bytes);
};

#ifdef __cplusplus
} /* extern "C" */
#endif

/* Whether the library, which may be older than this header, has a function of the table. */
#define GPUMEMSHIM_HAS(api, function) \
  ((api)->size >= offsetof(struct gpumemshim_api, function) + sizeof((api)->function))

/* The library's functions, looked up at the first call of each source file; NULL where it is not loaded. */
static inline const struct gpumemshim_api* gpumemshim_get_api(void) {
  static const struct gpumemshim_api* api;
  static int looked_up;
  if (!__atomic_load_n(&looked_up, __ATOMIC_ACQUIRE)) {
    const struct gpumemshim_api* found = NULL;
    void* const symbol = dlsym((void*)0 /* RTLD_DEFAULT */, "gpumemshim_get_api_v1");
    if (symbol != NULL) {
      const struct gpumemshim_api* (*get)(void);
      *(void**)&get = symbol;
      found = get();
    }
    __atomic_store_n(&api, found, __ATOMIC_RELAXED);
    __atomic_store_n(&looked_up, 1, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(&api, __ATOMIC_RELAXED);
}

/* 1 while memory events of this process are being recorded. 0 without the library, before CUDA is used, when paused. */
static inline int gpumemshim_recording(void) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  return api != NULL ? api->recording() : 0;
}

/* A mark at this instant: it is shown in reports and timelines, with the stack of this call. */
static inline void gpumemshim_mark(const char* text) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL) api->mark(text);
}

/* A mark whose memory is to be shown: reports say what was alive at this instant, and what it was for. */
static inline void gpumemshim_snapshot(const char* name) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api == NULL) return;
  if (GPUMEMSHIM_HAS(api, snapshot)) {
    api->snapshot(name);
  } else {
    api->mark(name);
  }
}

/* The memory at `address` bears this name from its allocation to its end: `gpumemshim at` shows it. Name it after it
 * was allocated; of several names the last counts. `bytes`: how much of it is meant. */
static inline void gpumemshim_name(const void* address, size_t bytes, const char* name) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL && GPUMEMSHIM_HAS(api, name)) api->name(address, bytes, name);
}

/* For a simulation of CUDA: the program reads device memory into the host's, whose contents are not computed. */
static inline void gpumemshim_read(const void* address, size_t bytes) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL && GPUMEMSHIM_HAS(api, read)) api->read(address, bytes);
}

/* A stage of this thread begins, inside those that are open: "forward", "load weights". What is allocated until the
 * matching pop belongs to it, also on threads that have no stages of their own (as autograd's). */
static inline void gpumemshim_stage_push(const char* name) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL) api->stage_push(name);
}

/* The innermost stage of this thread ends. One pop too many does nothing. */
static inline void gpumemshim_stage_pop(void) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL) api->stage_pop();
}

/* Step `number` of the whole process begins; count from 1. 0: no step. */
static inline void gpumemshim_step(uint64_t number) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL) api->step(number);
}

/* What this thread does from now on bears this name: a tenant, a request, a model. NULL takes it away. */
static inline void gpumemshim_tag(const char* name) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL) api->tag(name);
}

/* Record nothing more in this process until gpumemshim_resume: calls pass through. What is allocated or freed meanwhile
 * stays unknown. Before CUDA is used: do not begin to record. */
static inline void gpumemshim_pause(void) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL) api->pause();
}

/* Record again; also begins a recording that GPUMEMSHIM_START=off held back. */
static inline void gpumemshim_resume(void) {
  const struct gpumemshim_api* api = gpumemshim_get_api();
  if (api != NULL) api->resume();
}

#endif /* GPUMEMSHIM_H_ */
