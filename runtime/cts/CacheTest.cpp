//===- CacheTest.cpp - Kernels kept on disk -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the cache on disk: what is kept is found again, and nothing
// is believed that this user has not written whole.
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"
#include "TestPackages.h"
#include "tandem-runtime/tandem_cache.h"

#include <gtest/gtest.h>

#ifndef _WIN32

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::cts;
namespace fs = std::filesystem;

using Key = std::array<uint8_t, TDM_CACHE_KEY_SIZE>;

static Key keyOf(uint8_t number) {
  Key key = {};
  key.back() = number;
  return key;
}

/// Returns the bytes of a package of a kernel with code.
static std::string packKernel() {
  package::PackageT package = describeCount();
  addImage(package, readCode(1), TDM_CACHE_TARGET);
  return write(package);
}

namespace {
/// A kernel of the cache, or none.
class Opened {
public:
  explicit Opened(const Key &key) {
    EXPECT_EQ(tdm_cached_kernel_open(key.data(), &kernel), TDM_OK)
        << tdm_last_error();
  }
  ~Opened() { tdm_cached_kernel_close(kernel); }
  Opened(const Opened &) = delete;
  explicit operator bool() const { return kernel; }

  tdm_cached_kernel *kernel = nullptr;
};

/// A cache in a folder that does not exist yet.
class Cache : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "tandem-cache-XXXXXX";
    root = mkdtemp(name.data());
    folder = root / "a" / "b";
    setenv("TANDEM_CACHE_DIR", folder.c_str(), 1);
  }
  void TearDown() override {
    setenv("TANDEM_CACHE_DIR", "", 1);
    unsetenv("TANDEM_CACHE");
    unsetenv("TANDEM_CACHE_SIZE");
    fs::remove_all(root);
  }

  void store(uint8_t number) {
    Key key = keyOf(number);
    tdm_cached_kernel_store(key.data(), bytes.data(), bytes.size());
  }
  bool has(uint8_t number) { return bool(Opened(keyOf(number))); }

  fs::path pathOf(uint8_t number) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", number);
    return folder / (std::string(62, '0') + digits + ".tdm");
  }
  std::string read(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const fs::path &path, const std::string &content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  tdm_cache_info query() {
    tdm_cache_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(tdm_cache_query(&info), TDM_OK) << tdm_last_error();
    return info;
  }

  const std::string bytes = packKernel();
  fs::path root, folder;
};
} // namespace

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

TEST_F(Cache, KeepsKernelsWithTheirCode) {
  EXPECT_FALSE(has(1));
  EXPECT_FALSE(fs::exists(folder)) << "reading creates nothing";
  store(1);
  Opened opened(keyOf(1));
  ASSERT_TRUE(opened);
  const tdm_kernel_info *info = tdm_cached_kernel_info(opened.kernel);
  EXPECT_STREQ(info->name, "count");
  EXPECT_STREQ(info->desc->planes[0].name, "count");
  EXPECT_EQ(info->num_images, 0u);
  EXPECT_EQ(info->format, 0u);
  EXPECT_NE(tdm_cached_kernel_find(opened.kernel, "tandem_count"), nullptr);
  EXPECT_EQ(tdm_cached_kernel_find(opened.kernel, "tandem_other"), nullptr);
  EXPECT_FALSE(has(2));
}

TEST_F(Cache, KeepsCodeOfGPUsAsImages) {
  package::PackageT package = describeCount();
  addImage(package, "text", "sm_90");
  package.kernels[0]->images[0]->kind = packedPTX;
  std::string packed = cts::write(package);
  Key key = keyOf(1);
  tdm_cached_kernel_store(key.data(), packed.data(), packed.size());
  Opened opened(key);
  ASSERT_TRUE(opened);
  const tdm_kernel_info *info = tdm_cached_kernel_info(opened.kernel);
  ASSERT_EQ(info->num_images, 1u);
  EXPECT_STREQ(info->images[0].target, "sm_90");
  EXPECT_EQ(tdm_cached_kernel_find(opened.kernel, "tandem_count"), nullptr);
}

TEST_F(Cache, OnlyTheOwnerHasPermissions) {
  mode_t before = umask(0);
  store(1);
  umask(before);
  struct stat status;
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(pathOf(1).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(Cache, NoDamagedByteIsBelieved) {
  store(1);
  std::string good = read(pathOf(1));
  for (size_t i = 0; i < good.size(); i += i < 200 ? 1 : 331) {
    std::string damaged = good;
    damaged[i] ^= 4;
    write(pathOf(1), damaged);
    EXPECT_FALSE(has(1)) << "byte " << i;
  }
  write(pathOf(1), good);
  EXPECT_TRUE(has(1));
}

TEST_F(Cache, NoOtherSizeIsBelieved) {
  store(1);
  std::string good = read(pathOf(1));
  for (size_t size = 0; size < good.size(); size += size < 200 ? 1 : 331) {
    write(pathOf(1), good.substr(0, size));
    EXPECT_FALSE(has(1)) << size << " bytes";
  }
  write(pathOf(1), good + "?");
  EXPECT_FALSE(has(1));
  store(1);
  EXPECT_TRUE(has(1)) << "it is replaced";
}

TEST_F(Cache, EntriesOfOtherKeysAreNotTaken) {
  store(1);
  fs::copy(pathOf(1), pathOf(2));
  EXPECT_FALSE(has(2));
}

TEST_F(Cache, PackagesOfOtherVersionsAreNotTaken) {
  std::string packed =
      addHeader(pack(describeCount()), TDM_PACKAGE_VERSION + 1);
  Key key = keyOf(1);
  tdm_cached_kernel_store(key.data(), packed.data(), packed.size());
  EXPECT_FALSE(has(1));
  packed = "no package";
  tdm_cached_kernel_store(key.data(), packed.data(), packed.size());
  EXPECT_FALSE(has(1));
}

TEST_F(Cache, CodeThatCannotBeLoadedIsNotTaken) {
  package::PackageT package = describeCount();
  addImage(package, "no library", TDM_CACHE_TARGET);
  std::string packed = cts::write(package);
  Key key = keyOf(1);
  tdm_cached_kernel_store(key.data(), packed.data(), packed.size());
  EXPECT_FALSE(has(1));
}

//===----------------------------------------------------------------------===//
// Other users
//===----------------------------------------------------------------------===//

TEST_F(Cache, WhatOthersCanWriteIsNotUsed) {
  store(1);
  for (fs::perms perm : {fs::perms::group_write, fs::perms::others_write})
    for (const fs::path &path : {pathOf(1), folder}) {
      fs::permissions(path, perm, fs::perm_options::add);
      EXPECT_FALSE(has(1)) << path;
      fs::permissions(path, perm, fs::perm_options::remove);
      EXPECT_TRUE(has(1)) << path;
    }
  fs::permissions(folder, fs::perms::others_write, fs::perm_options::add);
  store(2);
  EXPECT_FALSE(fs::exists(pathOf(2)));
}

TEST_F(Cache, LinksToFilesAreNotFollowed) {
  store(1);
  fs::rename(pathOf(1), root / "elsewhere");
  fs::create_symlink(root / "elsewhere", pathOf(1));
  EXPECT_FALSE(has(1));
  store(1);
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(fs::is_symlink(pathOf(1))) << "the link is replaced";
}

TEST_F(Cache, OtherKindsOfFilesAreNotOpened) {
  store(1);
  fs::remove(pathOf(1));
  ASSERT_EQ(mkfifo(pathOf(1).c_str(), 0600), 0);
  EXPECT_FALSE(has(1)) << "and it does not wait for a writer";
  fs::remove(pathOf(1));
  fs::create_directory(pathOf(1));
  EXPECT_FALSE(has(1));
}

TEST_F(Cache, TheUsersOwnLinkToTheFolderIsFollowed) {
  store(1);
  fs::create_directory_symlink(folder, root / "link");
  setenv("TANDEM_CACHE_DIR", (root / "link").c_str(), 1);
  EXPECT_TRUE(has(1));
}

TEST_F(Cache, WhatBelongsToOthersIsNotUsed) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give files away";
  constexpr uid_t other = 12345;
  store(1);
  for (const fs::path &path : {pathOf(1), folder}) {
    ASSERT_EQ(chown(path.c_str(), other, gid_t(-1)), 0);
    EXPECT_FALSE(has(1)) << path;
    ASSERT_EQ(chown(path.c_str(), 0, gid_t(-1)), 0);
    EXPECT_TRUE(has(1)) << path;
  }
  fs::create_directory_symlink(folder, root / "link");
  ASSERT_EQ(lchown((root / "link").c_str(), other, gid_t(-1)), 0);
  setenv("TANDEM_CACHE_DIR", (root / "link").c_str(), 1);
  EXPECT_FALSE(has(1));
  ASSERT_EQ(chown(folder.c_str(), other, gid_t(-1)), 0);
  setenv("TANDEM_CACHE_DIR", folder.c_str(), 1);
  EXPECT_NE(tdm_cache_clear(), TDM_OK);
  EXPECT_TRUE(fs::exists(pathOf(1)));
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

TEST_F(Cache, IsOffOnRequest) {
  setenv("TANDEM_CACHE", "off", 1);
  EXPECT_FALSE(tdm_cache_is_enabled());
  store(1);
  EXPECT_FALSE(fs::exists(folder));
  unsetenv("TANDEM_CACHE");
  store(1);
  setenv("TANDEM_CACHE", "0", 1);
  EXPECT_FALSE(has(1));
  setenv("TANDEM_CACHE", "on", 1);
  EXPECT_TRUE(has(1));
  setenv("TANDEM_CACHE_DIR", "", 1);
  EXPECT_FALSE(tdm_cache_is_enabled());
  EXPECT_FALSE(has(1));
}

TEST_F(Cache, IsWhereTheEnvironmentSays) {
  unsetenv("TANDEM_CACHE_DIR");
  std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  setenv("HOME", "/home/me", 1);
  setenv("XDG_CACHE_HOME", "/var/mine", 1);
  EXPECT_STREQ(query().folder, "/var/mine/tandem");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_STREQ(query().folder, "/home/me/.cache/tandem");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "", 1);
  EXPECT_STREQ(query().folder, "");
  EXPECT_FALSE(query().enabled);
  EXPECT_EQ(tdm_cache_clear(), TDM_OK);
  setenv("HOME", home.c_str(), 1);
}

TEST_F(Cache, FoldersThatCannotBeMadeAreNoError) {
  write(root / "a", "a file");
  store(1);
  EXPECT_FALSE(has(1));
}

TEST_F(Cache, FullFileSystemsLeaveNothingBehind) {
  store(1);
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit limit = before;
  limit.rlim_cur = bytes.size() / 2;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  store(2);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(has(2));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  EXPECT_TRUE(has(1));
}

//===----------------------------------------------------------------------===//
// Size
//===----------------------------------------------------------------------===//

TEST_F(Cache, RemovesWhatWasNotUsedForLongest) {
  for (uint8_t number = 1; number <= 4; ++number)
    store(number);
  uint64_t each = fs::file_size(pathOf(1));
  EXPECT_EQ(query().entries, 4u);
  EXPECT_EQ(query().bytes, 4 * each);
  EXPECT_TRUE(has(1));
  std::string limit = std::to_string(3.5 * double(each) / (1 << 20));
  setenv("TANDEM_CACHE_SIZE", limit.c_str(), 1);
  store(5);
  EXPECT_EQ(query().entries, 3u);
  EXPECT_LE(query().bytes, query().limit);
  EXPECT_TRUE(has(1)) << "it was used after it was written";
  EXPECT_TRUE(has(5));
  EXPECT_FALSE(has(2));
  setenv("TANDEM_CACHE_SIZE", "0", 1);
  store(6);
  EXPECT_FALSE(has(6));
}

TEST_F(Cache, UnreadableLimitsAreIgnored) {
  for (const char *value : {"much", "-1", "1e99", "nan", "3 MiB"}) {
    setenv("TANDEM_CACHE_SIZE", value, 1);
    EXPECT_EQ(query().limit, uint64_t(256) << 20) << value;
  }
}

TEST_F(Cache, LeavesOtherFilesAlone) {
  store(1);
  write(folder / "notes.txt", std::string(100000, 'x'));
  write(folder / "new-1-1", "being written");
  setenv("TANDEM_CACHE_SIZE", "0.05", 1);
  store(2);
  EXPECT_TRUE(has(1));
  EXPECT_EQ(tdm_cache_clear(), TDM_OK);
  EXPECT_FALSE(has(1));
  EXPECT_EQ(query().entries, 0u);
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
  EXPECT_TRUE(fs::exists(folder / "new-1-1"));
}

TEST_F(Cache, RemovesWhatEndedProcessesLeft) {
  store(1);
  write(folder / "new-1-1", "never completed");
  fs::last_write_time(folder / "new-1-1",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  store(2);
  EXPECT_FALSE(fs::exists(folder / "new-1-1"));
  EXPECT_TRUE(has(1));
}

TEST_F(Cache, IsClearedAlsoWhileItIsOff) {
  store(1);
  setenv("TANDEM_CACHE", "off", 1);
  EXPECT_EQ(tdm_cache_clear(), TDM_OK);
  EXPECT_FALSE(fs::exists(pathOf(1)));
}

//===----------------------------------------------------------------------===//
// At once
//===----------------------------------------------------------------------===//

/// Stores and reads an entry many times. Returns whether each read found it or
/// nothing.
static bool storeAndRead(const std::string &bytes) {
  Key key = keyOf(1);
  for (int i = 0; i < 20; ++i) {
    tdm_cached_kernel_store(key.data(), bytes.data(), bytes.size());
    tdm_cached_kernel *kernel = nullptr;
    if (tdm_cached_kernel_open(key.data(), &kernel) != TDM_OK || !kernel)
      return false;
    bool hasCode = tdm_cached_kernel_find(kernel, "tandem_count");
    tdm_cached_kernel_close(kernel);
    if (!hasCode)
      return false;
  }
  return true;
}

TEST_F(Cache, ProcessesWriteAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    pid_t child = fork();
    if (child == 0)
      _exit(storeAndRead(bytes) ? 0 : 1);
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(query().entries, 1u);
}

TEST_F(Cache, ThreadsWriteAtOnce) {
  bool good[4] = {};
  std::vector<std::thread> threads;
  for (bool &result : good)
    threads.emplace_back([&] { result = storeAndRead(bytes); });
  for (std::thread &thread : threads)
    thread.join();
  for (bool result : good)
    EXPECT_TRUE(result);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST_F(Cache, ArgumentsAreChecked) {
  tdm_cached_kernel *kernel = nullptr;
  Key key = keyOf(1);
  EXPECT_EQ(tdm_cached_kernel_open(nullptr, &kernel), TDM_INVALID_ARGUMENT);
  EXPECT_EQ(tdm_cached_kernel_open(key.data(), nullptr), TDM_INVALID_ARGUMENT);
  EXPECT_EQ(tdm_cache_query(nullptr), TDM_INVALID_ARGUMENT);
  tdm_cache_info info = {};
  EXPECT_EQ(tdm_cache_query(&info), TDM_INVALID_ARGUMENT);
  tdm_cached_kernel_close(nullptr);
}

#endif
