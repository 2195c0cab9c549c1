//===- CacheFolder.cpp - A folder that only its owner writes --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the folder of the cache.
//
//===----------------------------------------------------------------------===//

#include "CacheFolder.h"

#ifdef _WIN32

using namespace tandem::runtime;

CacheFolder::CacheFolder(const std::string &, bool, std::string &) {}
CacheFolder::~CacheFolder() {}
bool CacheFolder::read(const std::string &, std::string &,
                       std::string &) const {
  return false;
}
bool CacheFolder::write(const std::string &, const std::string &,
                        std::string &) const {
  return false;
}
std::vector<CacheFolder::File> CacheFolder::list() const { return {}; }
void CacheFolder::remove(const std::string &) const {}

#else

#include <atomic>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem::runtime;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {
/// Owns an open file.
class OpenFile {
public:
  explicit OpenFile(int descriptor) : descriptor(descriptor) {}
  ~OpenFile() {
    if (descriptor >= 0)
      close(descriptor);
  }
  OpenFile(const OpenFile &) = delete;
  explicit operator bool() const { return descriptor >= 0; }

  bool getStatus(struct stat &status) const {
    return fstat(descriptor, &status) == 0;
  }

  bool readAll(std::string &bytes) const {
    char buffer[1 << 16];
    ssize_t size;
    while ((size = ::read(descriptor, buffer, sizeof(buffer))) != 0)
      if (size > 0)
        bytes.append(buffer, static_cast<size_t>(size));
      else if (errno != EINTR)
        return false;
    return true;
  }

  bool writeAll(const char *bytes, size_t size) const {
    while (size) {
      ssize_t written = ::write(descriptor, bytes, size);
      if (written < 0 && errno != EINTR)
        return false;
      bytes += written > 0 ? written : 0;
      size -= written > 0 ? static_cast<size_t>(written) : 0;
    }
    return true;
  }

  /// Closes the file. A network's file system may say only now that it is full.
  bool finish() { return close(std::exchange(descriptor, -1)) == 0; }

  /// Sets the time of the last change to now.
  void touch() const { futimens(descriptor, nullptr); }

private:
  int descriptor;
};
} // namespace

/// Returns why others could have written a file or folder; empty if they could
/// not.
static std::string findForeignWriter(const struct stat &status) {
  if (status.st_uid != geteuid())
    return "belongs to another user";
  return status.st_mode & (S_IWGRP | S_IWOTH) ? "can be written by other users"
                                              : "";
}

/// Returns whether a file may have \p size bytes. To write more would end the
/// process with a signal.
static bool mayHave(size_t size) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
         limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

/// Creates a folder and its parents.
static void makeFolder(const std::string &path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0700);
    if (end == std::string::npos)
      return;
  }
}

/// Returns why the folder's path cannot be trusted: it may be the user's own
/// symbolic link, but not that of others.
static std::string findForeignLink(const std::string &path) {
  struct stat status;
  bool isForeign = lstat(path.c_str(), &status) == 0 &&
                   S_ISLNK(status.st_mode) && status.st_uid != geteuid();
  return isForeign ? "is a symbolic link of another user" : "";
}

CacheFolder::CacheFolder(const std::string &path, bool isCreated,
                         std::string &problem) {
  if (isCreated)
    makeFolder(path);
  problem = findForeignLink(path);
  if (!problem.empty())
    return;
  int opened = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) {
    if (isCreated || errno != ENOENT)
      problem = std::string("cannot be opened: ") + std::strerror(errno);
    return;
  }
  struct stat status;
  problem = fstat(opened, &status) ? std::string("cannot be examined")
                                   : findForeignWriter(status);
  if (problem.empty())
    descriptor = opened;
  else
    close(opened);
}

CacheFolder::~CacheFolder() {
  if (descriptor >= 0)
    close(descriptor);
}

bool CacheFolder::read(const std::string &name, std::string &bytes,
                       std::string &problem) const {
  OpenFile file(openat(descriptor, name.c_str(),
                       O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) {
    if (errno != ENOENT)
      problem = errno == ELOOP
                    ? std::string("is a symbolic link")
                    : std::string("cannot be opened: ") + std::strerror(errno);
    return false;
  }
  struct stat status;
  if (!file.getStatus(status) || !S_ISREG(status.st_mode))
    problem = "is not a regular file";
  else
    problem = findForeignWriter(status);
  if (!problem.empty())
    return false;
  if (!file.readAll(bytes)) {
    problem = std::string("cannot be read: ") + std::strerror(errno);
    return false;
  }
  file.touch();
  return true;
}

/// Creates a file that no other thread or process has, and stores its name.
int CacheFolder::create(std::string &name) const {
  static std::atomic<uint32_t> count;
  constexpr int attempts = 100;
  for (int i = 0; i < attempts; ++i) {
    name = pendingPrefix + std::to_string(getpid()) + "-" +
           std::to_string(count++);
    int file =
        openat(descriptor, name.c_str(),
               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0 || errno != EEXIST)
      return file;
  }
  return -1;
}

bool CacheFolder::write(const std::string &name, const std::string &bytes,
                        std::string &problem) const {
  if (!mayHave(bytes.size())) {
    problem = std::string("cannot be written: ") + std::strerror(EFBIG);
    return false;
  }
  std::string pending;
  OpenFile file(create(pending));
  bool isCreated = bool(file);
  if (isCreated && file.writeAll(bytes.data(), bytes.size()) && file.finish() &&
      renameat(descriptor, pending.c_str(), descriptor, name.c_str()) == 0)
    return true;
  problem = std::string("cannot be written: ") + std::strerror(errno);
  if (isCreated)
    remove(pending);
  return false;
}

std::vector<CacheFolder::File> CacheFolder::list() const {
  std::vector<File> files;
  int copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? nullptr : fdopendir(copy);
  if (!stream) {
    if (copy >= 0)
      close(copy);
    return files;
  }
  while (const dirent *entry = readdir(stream)) {
    struct stat status;
    if (fstatat(descriptor, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(status.st_mode)) {
#ifdef __APPLE__
      const timespec &time = status.st_mtimespec;
#else
      const timespec &time = status.st_mtim;
#endif
      files.push_back({entry->d_name, static_cast<uint64_t>(status.st_size),
                       int64_t(time.tv_sec) * 1000000000 + time.tv_nsec});
    }
  }
  closedir(stream);
  return files;
}

void CacheFolder::remove(const std::string &name) const {
  unlinkat(descriptor, name.c_str(), 0);
}

#endif
