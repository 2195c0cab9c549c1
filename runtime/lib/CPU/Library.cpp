//===- Library.cpp - Kernels in shared libraries --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the loading of shared libraries from memory, on Linux. A
// library is in an anonymous file, which no other process can reach or change
// and which needs no directory on a file system that allows execution.
//
//===----------------------------------------------------------------------===//

#include "Library.h"

#include <atomic>
#include <cerrno>
#include <cstring>

using namespace tandem::runtime;

#ifdef __linux__

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

// The C library's headers may be too old to define it.
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/// Creates an anonymous file that may be mapped as code. Linux before 6.3
/// rejects MFD_EXEC and does not need it.
static int createFile() {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int file = memfd_create("tandem-kernel", flags | MFD_EXEC);
  return file < 0 && errno == EINVAL ? memfd_create("tandem-kernel", flags)
                                     : file;
}

namespace {
/// Owns an open file.
struct OpenFile {
  explicit OpenFile(int number) : number(number) {}
  ~OpenFile() {
    if (number >= 0)
      close(number);
  }
  OpenFile(const OpenFile &) = delete;

  const int number;
};
} // namespace

static bool writeAll(int file, const char *bytes, size_t size) {
  while (size) {
    ssize_t count = write(file, bytes, size);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

static tdm_status failWithErrno(const char *what) {
  return Failure(TDM_UNAVAILABLE) << what << ": " << std::strerror(errno)
                                  << "; allow the process anonymous files "
                                     "(memfd_create) that are mapped "
                                     "as code";
}

/// Returns a path to a file in a spelling that has not been used before. The
/// loader would otherwise return an earlier library of the same path, which may
/// never be unloaded.
static std::string makePath(int file) {
  static std::atomic<uint32_t> count;
  uint32_t number = count++;
  std::string path = "/proc/self/fd";
  for (int bit = 0; bit < 32; ++bit)
    path += number >> bit & 1 ? "/./" : "///";
  return path + std::to_string(file);
}

/// Returns why the loader failed, without the path, which means nothing to the
/// user.
static std::string explain(const std::string &path) {
  const char *error = dlerror();
  std::string reason = error ? error : "for no known reason";
  return reason.rfind(path + ": ", 0) ? reason : reason.substr(path.size() + 2);
}

tdm_status Library::load(const tdm_image &image,
                         std::shared_ptr<const HostLibrary> &library) {
  OpenFile file(createFile());
  if (file.number < 0)
    return failWithErrno("no anonymous file can be made");
  if (!writeAll(file.number, static_cast<const char *>(image.data), image.size))
    return failWithErrno("the code cannot be written to memory");
  fcntl(file.number, F_ADD_SEALS,
        F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  std::string path = makePath(file.number);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Failure(TDM_UNAVAILABLE)
           << "the system's loader refuses its code: " << explain(path)
           << "; see that /proc is there, and that anonymous files may be "
              "mapped as code";
  library.reset(new Library(handle));
  return TDM_OK;
}

Library::~Library() { dlclose(handle); }

void *Library::find(const char *name) const { return dlsym(handle, name); }

#else

tdm_status Library::load(const tdm_image &,
                         std::shared_ptr<const HostLibrary> &) {
  return Failure(TDM_UNAVAILABLE)
         << "code of packages is loaded on Linux only; "
            "compile the kernel in this process";
}

Library::~Library() { static_cast<void>(handle); }

void *Library::find(const char *) const { return nullptr; }

#endif
