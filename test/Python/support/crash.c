//===- crash.c - Ends a process while it writes files ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a library for LD_PRELOAD. It counts the operations of a
// process on files under CRASH_DIRECTORY: opening for writing, each write,
// renaming and removal. At operation CRASH_AT, the process kills itself; a
// write has then written half of its bytes.
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int count;

static int is_inside(const char *path) {
  const char *directory = getenv("CRASH_DIRECTORY");
  return directory && path && strncmp(path, directory, strlen(directory)) == 0;
}

static int is_inside_file(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0)
    return 0;
  path[size] = 0;
  return is_inside(path);
}

/* Whether the process is to end here. */
static int is_due(void) {
  const char *at = getenv("CRASH_AT");
  return at && ++count == atoi(at);
}

static void crash_if(int due) {
  if (due)
    kill(getpid(), SIGKILL);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t size) {
  if (is_inside_file(file) && is_due()) {
    NEXT(write)(file, bytes, size / 2);
    crash_if(1);
  }
  return NEXT(write)(file, bytes, size);
}

int rename(const char *from, const char *to) {
  crash_if(is_inside(to) && is_due());
  return NEXT(rename)(from, to);
}

int unlink(const char *path) {
  crash_if(is_inside(path) && is_due());
  return NEXT(unlink)(path);
}

int remove(const char *path) {
  crash_if(is_inside(path) && is_due());
  return NEXT(remove)(path);
}

int mkdir(const char *path, mode_t mode) {
  crash_if(is_inside(path) && is_due());
  return NEXT(mkdir)(path, mode);
}

static int open_with(const char *name, const char *path, int flags,
                     mode_t mode) {
  crash_if((flags & (O_WRONLY | O_RDWR)) && is_inside(path) && is_due());
  int (*next)(const char *, int, ...) =
      (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
  return next(path, flags, mode);
}

#define DEFINE_OPEN(name)                                                      \
  int name(const char *path, int flags, ...) {                                 \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;             \
    va_end(arguments);                                                         \
    return open_with(#name, path, flags, mode);                                \
  }

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
