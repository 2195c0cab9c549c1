//===- CacheFolder.h - A folder that only its owner writes ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the folder of the cache: files that are complete or not
// there, and that no other user could have written.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CACHE_CACHEFOLDER_H
#define TANDEM_RUNTIME_LIB_CACHE_CACHEFOLDER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tandem::runtime {

/// An open folder. All files are reached through its descriptor, so that a path
/// that changes meanwhile changes nothing. A problem that a function reports is
/// a clause about the file or folder; it is empty if there is only nothing
/// there.
class CacheFolder {
public:
  /// A file, and when it was last read or written, in nanoseconds.
  struct File {
    std::string name;
    uint64_t size;
    int64_t used;
  };

  /// Opens the folder at \p path, and with \p isCreated creates it first.
  CacheFolder(const std::string &path, bool isCreated, std::string &problem);
  ~CacheFolder();
  CacheFolder(const CacheFolder &) = delete;
  CacheFolder &operator=(const CacheFolder &) = delete;

  explicit operator bool() const { return descriptor >= 0; }

  /// Reads the whole file and marks it as used. Returns false if there is none,
  /// or if another user could have written it.
  bool read(const std::string &name, std::string &bytes,
            std::string &problem) const;

  /// Writes a file under another name, and gives it its own when it is
  /// complete.
  bool write(const std::string &name, const std::string &bytes,
             std::string &problem) const;

  /// Returns the regular files.
  std::vector<File> list() const;

  void remove(const std::string &name) const;

private:
  int create(std::string &name) const;

  int descriptor = -1;
};

/// The beginning of the names of files that are not complete yet.
constexpr const char *pendingPrefix = "new-";

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CACHE_CACHEFOLDER_H
