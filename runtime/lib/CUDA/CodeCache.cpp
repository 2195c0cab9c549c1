//===- CodeCache.cpp - Machine code kept on disk --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the directory in which the runtime caches machine code
// that the driver has compiled from PTX.
//
//===----------------------------------------------------------------------===//

#include "CodeCache.h"

#include <cstdlib>
#include <cstring>

#ifndef _WIN32
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

#ifdef _WIN32

CodeCache::CodeCache() {}
bool CodeCache::read(const Digest &, std::string &) const { return false; }
void CodeCache::write(const Digest &, const void *, size_t) const {}

#else

//===----------------------------------------------------------------------===//
// Directories and files
//===----------------------------------------------------------------------===//

/// Returns whether only this user can write a file. Code from other files is
/// never run.
static bool isOwnAlone(const struct stat &status) {
  return status.st_uid == geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static bool isOwnDirectory(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         isOwnAlone(status);
}

/// Creates a directory and its parents.
static void makeDirectory(const std::string &path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0700);
    if (end == std::string::npos)
      return;
  }
}

static std::string chooseDirectory() {
  if (const char *named = std::getenv("TANDEM_CACHE_DIR"))
    return named;
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/')
    return std::string(cache) + "/tandem";
  const char *home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/tandem" : "";
}

namespace {
/// Owns an open file.
class File {
public:
  explicit File(int descriptor) : descriptor(descriptor) {}
  ~File() {
    if (descriptor >= 0)
      close(descriptor);
  }
  File(const File &) = delete;
  explicit operator bool() const { return descriptor >= 0; }

  bool readAll(std::string &bytes) const {
    char buffer[1 << 14];
    ssize_t size;
    while ((size = ::read(descriptor, buffer, sizeof(buffer))) != 0)
      if (size > 0)
        bytes.append(buffer, static_cast<size_t>(size));
      else if (errno != EINTR)
        return false;
    return true;
  }

  bool writeAll(const void *data, size_t size) const {
    const char *bytes = static_cast<const char *>(data);
    while (size) {
      ssize_t written = ::write(descriptor, bytes, size);
      if (written < 0 && errno != EINTR)
        return false;
      bytes += written > 0 ? written : 0;
      size -= written > 0 ? static_cast<size_t>(written) : 0;
    }
    return true;
  }

  bool isOwn() const {
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
           isOwnAlone(status);
  }

private:
  int descriptor;
};

/// The header before the code in a file, with the digests of the code's source
/// and of the code.
struct Header {
  char magic[8];
  Digest key, digest;
};
} // namespace

static constexpr char magic[8] = {'T', 'D', 'M', 'C', 'O', 'D', 'E', '1'};

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

CodeCache::CodeCache() {
  std::string path = chooseDirectory();
  if (path.empty())
    return;
  makeDirectory(path);
  if (isOwnDirectory(path))
    directory = path;
}

std::string CodeCache::pathOf(const Digest &key) const {
  std::string path = directory + "/";
  for (uint8_t byte : key) {
    path += "0123456789abcdef"[byte >> 4];
    path += "0123456789abcdef"[byte & 15];
  }
  return path + ".cubin";
}

bool CodeCache::read(const Digest &key, std::string &code) const {
  if (directory.empty())
    return false;
  File file(open(pathOf(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string bytes;
  Header header;
  if (!file || !file.isOwn() || !file.readAll(bytes) ||
      bytes.size() < sizeof(header))
    return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  code = bytes.substr(sizeof(header));
  return std::memcmp(header.magic, magic, sizeof(magic)) == 0 &&
         header.key == key &&
         header.digest == digestOf(code.data(), code.size());
}

void CodeCache::write(const Digest &key, const void *code, size_t size) const {
  if (directory.empty())
    return;
  // Other processes read the old file or the new one, but never a partial one.
  std::string name = directory + "/new-XXXXXX";
  File file(mkstemp(name.data()));
  if (!file)
    return;
  Header header;
  std::memcpy(header.magic, magic, sizeof(magic));
  header.key = key;
  header.digest = digestOf(code, size);
  if (!file.writeAll(&header, sizeof(header)) || !file.writeAll(code, size) ||
      rename(name.c_str(), pathOf(key).c_str()) != 0)
    unlink(name.c_str());
}

#endif
