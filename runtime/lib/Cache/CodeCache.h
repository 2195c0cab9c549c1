//===- CodeCache.h - Compiled code kept on disk -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the cache on disk: machine code that a driver has compiled
// from PTX, and kernels that the compiler has compiled.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CACHE_CODECACHE_H
#define TANDEM_RUNTIME_LIB_CACHE_CODECACHE_H

#include "CacheFolder.h"
#include "SHA256.h"

#include <string>

namespace tandem::runtime {

/// The settings in the environment.
struct CacheSettings {
  static CacheSettings get();

  /// Returns whether the cache is in use: TANDEM_CACHE is not off, and there is
  /// a folder.
  bool isOn() const { return !isOff && !folder.empty(); }

  /// The path of the folder; empty if there is none.
  std::string folder;
  bool isOff = false;
  /// The maximum size of all files in bytes.
  uint64_t limit;
};

/// Entries of one kind, by key. Any failure is treated as a miss, since the
/// cache only saves time; what the user should know of is logged once.
class CodeCache {
public:
  /// Uses the folder that the environment names. Entries are in files that end
  /// in \p suffix, which is one of codeSuffixes.
  explicit CodeCache(const char *suffix)
      : settings(CacheSettings::get()), suffix(suffix) {}

  bool isOn() const { return settings.isOn(); }

  /// Reads the entry for \p key. Returns false unless the file is intact: it
  /// was written for this key, and its digest matches its bytes.
  bool read(const Digest &key, std::string &code) const;

  /// Stores the entry for \p key, and removes the entries that have not been
  /// used for the longest time if there are too many.
  void write(const Digest &key, const void *code, size_t size) const;

private:
  std::string nameOf(const Digest &key) const;

  CacheSettings settings;
  const char *suffix;
};

/// The ends of the names of entries: machine code of a GPU, and kernels.
constexpr const char *machineCodeSuffix = ".cubin", *kernelSuffix = ".tdm";

/// Returns the entries of all kinds in the folder.
std::vector<CacheFolder::File> listEntries(const CacheFolder &folder);

/// Removes the oldest files until the others have at most \p limit bytes.
void removeOldest(const CacheFolder &folder, uint64_t limit);

/// The kinds of lines that the cache logs, each of them once in a process.
enum class CacheLog { settings, folder, entry, write, load };

/// Prints a line to the standard error output unless one of its kind has been
/// printed.
void logOnce(CacheLog kind, const std::string &line);

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CACHE_CODECACHE_H
