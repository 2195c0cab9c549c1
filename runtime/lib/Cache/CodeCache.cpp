//===- CodeCache.cpp - Compiled code kept on disk -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the cache on disk.
//
//===----------------------------------------------------------------------===//

#include "CodeCache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#ifndef _WIN32
#include <unistd.h>
#endif

using namespace tandem::runtime;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

void tandem::runtime::logOnce(CacheLog kind, const std::string &line) {
  static std::atomic<unsigned> logged;
  unsigned bit = 1u << static_cast<unsigned>(kind);
  if (logged.fetch_or(bit) & bit)
    return;
  // One call, so that lines of several processes do not mix.
  std::string text = "tandem: " + line + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

static void logFolder(const std::string &path, const std::string &problem) {
  logOnce(CacheLog::folder,
          "the cache of compiled code is not used, because its folder '" +
              path + "' " + problem +
              "; name another in TANDEM_CACHE_DIR, or set TANDEM_CACHE=off");
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

/// Returns whether the process has another user's privileges, who did not set
/// its environment.
static bool hasOtherPrivileges() {
#ifdef _WIN32
  return false;
#else
  return getuid() != geteuid() || getgid() != getegid();
#endif
}

static std::string chooseFolder() {
  if (hasOtherPrivileges())
    return "";
  if (const char *named = std::getenv("TANDEM_CACHE_DIR"))
    return named;
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/')
    return std::string(cache) + "/tandem";
  const char *home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/tandem" : "";
}

static bool isAnyOf(const std::string &value,
                    std::initializer_list<const char *> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char *name) { return value == name; });
}

static bool readIsOff() {
  const char *named = std::getenv("TANDEM_CACHE");
  std::string value = named ? named : "";
  if (isAnyOf(value, {"off", "0"}))
    return true;
  if (!isAnyOf(value, {"", "on", "1"}))
    logOnce(CacheLog::settings,
            "TANDEM_CACHE is '" + value +
                "', which is neither on nor off; the cache stays on");
  return false;
}

/// Returns the maximum size in bytes.
static uint64_t readLimit() {
  constexpr uint64_t mebibyte = 1 << 20, standard = 256 * mebibyte;
  const char *value = std::getenv("TANDEM_CACHE_SIZE");
  if (!value || !*value)
    return standard;
  char *end = nullptr;
  errno = 0;
  double number = std::strtod(value, &end);
  if (!errno && !*end && number >= 0 && number <= 1e9)
    return static_cast<uint64_t>(number * double(mebibyte));
  logOnce(CacheLog::settings,
          std::string("TANDEM_CACHE_SIZE is '") + value +
              "', which is not a number of MiB; the cache has up to 256");
  return standard;
}

CacheSettings CacheSettings::get() {
  CacheSettings settings;
  settings.folder = chooseFolder();
  settings.isOff = readIsOff();
  settings.limit = readLimit();
  return settings;
}

//===----------------------------------------------------------------------===//
// Size
//===----------------------------------------------------------------------===//

static bool endsWith(const std::string &name, const std::string &suffix) {
  return name.size() > suffix.size() &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

/// Returns whether a file was never completed: its process has ended.
static bool isAbandoned(const CacheFolder::File &file) {
  constexpr int64_t hour = int64_t(3600) * 1000000000;
  return file.name.rfind(pendingPrefix, 0) == 0 &&
         file.used + hour < int64_t(std::time(nullptr)) * 1000000000;
}

std::vector<CacheFolder::File>
tandem::runtime::listEntries(const CacheFolder &folder) {
  std::vector<CacheFolder::File> files = folder.list();
  auto isOther = [](const CacheFolder::File &file) {
    return !endsWith(file.name, machineCodeSuffix) &&
           !endsWith(file.name, kernelSuffix) && !isAbandoned(file);
  };
  files.erase(std::remove_if(files.begin(), files.end(), isOther), files.end());
  return files;
}

void tandem::runtime::removeOldest(const CacheFolder &folder, uint64_t limit) {
  std::vector<CacheFolder::File> files = listEntries(folder);
  std::sort(files.begin(), files.end(),
            [](const CacheFolder::File &a, const CacheFolder::File &b) {
              return a.used > b.used;
            });
  uint64_t size = 0;
  for (const CacheFolder::File &file : files) {
    size += file.size;
    if (size > limit || isAbandoned(file))
      folder.remove(file.name);
  }
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

namespace {
/// The header before the code in a file, with its key and the digest of the
/// code.
struct Header {
  char magic[8];
  Digest key, digest;
};
} // namespace

static constexpr char magic[8] = {'T', 'D', 'M', 'C', 'O', 'D', 'E', '1'};

std::string CodeCache::nameOf(const Digest &key) const {
  std::string name;
  for (uint8_t byte : key) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name + suffix;
}

/// Moves the code of an intact entry from \p bytes to \p code. Otherwise
/// returns why it is none.
static std::string takeCode(const Digest &key, std::string &bytes,
                            std::string &code) {
  Header header;
  if (bytes.size() < sizeof(header))
    return "is cut short";
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, magic, sizeof(magic)) != 0)
    return "is not an entry of this version of the cache";
  if (header.key != key)
    return "was written for other code";
  code = std::move(bytes);
  code.erase(0, sizeof(header));
  bool isIntact = header.digest == digestOf(code.data(), code.size());
  return isIntact ? "" : "is damaged or cut short";
}

bool CodeCache::read(const Digest &key, std::string &code) const {
  if (!isOn())
    return false;
  std::string problem, bytes;
  CacheFolder folder(settings.folder, /*isCreated=*/false, problem);
  if (!problem.empty())
    logFolder(settings.folder, problem);
  if (!folder)
    return false;
  std::string name = nameOf(key);
  if (folder.read(name, bytes, problem))
    problem = takeCode(key, bytes, code);
  else if (problem.empty())
    return false;
  if (problem.empty())
    return true;
  logOnce(CacheLog::entry, "'" + settings.folder + "/" + name +
                               "' in the cache of compiled code " + problem +
                               "; it is not used, and compiled again");
  return false;
}

void CodeCache::write(const Digest &key, const void *code, size_t size) const {
  if (!isOn() || size > settings.limit)
    return;
  std::string problem;
  CacheFolder folder(settings.folder, /*isCreated=*/true, problem);
  if (!folder)
    return logFolder(settings.folder, problem);
  Header header;
  std::memcpy(header.magic, magic, sizeof(magic));
  header.key = key;
  header.digest = digestOf(code, size);
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof(header));
  bytes.append(static_cast<const char *>(code), size);
  if (folder.write(nameOf(key), bytes, problem))
    return removeOldest(folder, settings.limit);
  logOnce(CacheLog::write,
          "compiled code is not kept in the cache '" + settings.folder +
              "', because a file there " + problem +
              "; free space, name another folder in TANDEM_CACHE_DIR, or set "
              "TANDEM_CACHE=off");
}
