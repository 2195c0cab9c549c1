//===- OlderGlibc.c - Functions of newer C libraries ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements, for static builds, the functions that glibc has added
// since version 2.27 and that LLVM's archives and the C++ library call.
// cmake/modules/LinkOlderGlibc.cmake links it to every library; each library
// hides its own. A C library's header may redirect calls of these functions, so
// that only headers without them are included.
//
//===----------------------------------------------------------------------===//

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

struct stat;

/// Tells the C++ library that there may be several threads, so that it counts
/// references with atomic operations. glibc 2.32 knows better.
char __libc_single_threaded = 0;

/// Returns random bits of the system, or of the clock where a sandbox forbids
/// them: names of temporary files need not be secret.
uint32_t arc4random(void) {
  uint32_t word = 0;
  while (getrandom(&word, sizeof(word), 0) != sizeof(word)) {
    struct timespec now = {0, 0};
    if (errno != EINTR && !clock_gettime(CLOCK_MONOTONIC, &now))
      return (uint32_t)now.tv_nsec * 2654435761u ^ (uint32_t)getpid();
  }
  return word;
}

/// Passes on what every command takes: nothing, a number or a pointer.
int fcntl64(int file, int command, ...) {
  va_list list;
  va_start(list, command);
  void *argument = va_arg(list, void *);
  va_end(list);
  return fcntl(file, command, argument);
}

//===----------------------------------------------------------------------===//
// Numbers in text: what glibc 2.38's headers call in place of strtol and others
//===----------------------------------------------------------------------===//

/// Defines a function that reads what its predecessor reads, which is all but
/// the binary numbers of C23. The predecessor is named by its symbol, since a
/// header would redirect its name too.
#define TANDEM_READ_NUMBER(type, name)                                         \
  type older_##name(const char *text, char **end, int base) __asm__(#name)     \
      __attribute__((visibility("default")));                                  \
  type __isoc23_##name(const char *text, char **end, int base) {               \
    return older_##name(text, end, base);                                      \
  }

TANDEM_READ_NUMBER(long, strtol)
TANDEM_READ_NUMBER(long long, strtoll)
TANDEM_READ_NUMBER(unsigned long, strtoul)
TANDEM_READ_NUMBER(unsigned long long, strtoull)

//===----------------------------------------------------------------------===//
// Properties of files: inline functions of headers before glibc 2.33
//===----------------------------------------------------------------------===//

#ifndef __LP64__
#error "struct stat differs from the kernel's"
#endif

int stat(const char *path, struct stat *result) {
  return syscall(SYS_newfstatat, AT_FDCWD, path, result, 0);
}

int lstat(const char *path, struct stat *result) {
  return syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat *result) {
  return syscall(SYS_fstat, file, result);
}

int fstatat(int folder, const char *path, struct stat *result, int flags) {
  return syscall(SYS_newfstatat, folder, path, result, flags);
}

int mknod(const char *path, mode_t mode, dev_t device) {
  return syscall(SYS_mknodat, AT_FDCWD, path, mode, device);
}

/// A `struct stat64` is a `struct stat` where addresses have 64 bits.
int stat64(const char *path, struct stat *result)
    __attribute__((alias("stat")));
int lstat64(const char *path, struct stat *result)
    __attribute__((alias("lstat")));
int fstat64(int file, struct stat *result) __attribute__((alias("fstat")));

//===----------------------------------------------------------------------===//
// Statistics of memory
//===----------------------------------------------------------------------===//

/// Returns the older statistics, whose numbers wrap at 4 GiB.
struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo info = mallinfo();
  struct mallinfo2 result = {.arena = (unsigned)info.arena,
                             .ordblks = (unsigned)info.ordblks,
                             .smblks = (unsigned)info.smblks,
                             .hblks = (unsigned)info.hblks,
                             .hblkhd = (unsigned)info.hblkhd,
                             .usmblks = (unsigned)info.usmblks,
                             .fsmblks = (unsigned)info.fsmblks,
                             .uordblks = (unsigned)info.uordblks,
                             .fordblks = (unsigned)info.fordblks,
                             .keepcost = (unsigned)info.keepcost};
  return result;
}
