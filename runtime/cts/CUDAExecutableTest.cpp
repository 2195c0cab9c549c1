//===- CUDAExecutableTest.cpp - A kernel's code on a GPU ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests which image of a kernel a GPU gets, and the disk cache of
// code that the driver compiles. The driver is the stand-in library.
//
//===----------------------------------------------------------------------===//

#include "FakeCUDA.h"
#include "TestDevice.h"
#include "TestISA.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#ifndef _WIN32
#include <sys/stat.h>
#endif

using namespace tandem::cts;
namespace fs = std::filesystem;

namespace {
/// The count kernel's code, which a test may change.
class StandInCode : public testing::Test {
protected:
  StandInCode() : desc(countDesc()), fake(desc) {}

  void SetUp() override { device = std::make_unique<OpenDevice>("cuda"); }

  void TearDown() override {
    device.reset();
    fakecuda::setDevices(1, 90);
    EXPECT_EQ(fakecuda::takeViolations(), "");
    EXPECT_EQ(fakecuda::living(), "");
  }

  tdm_status create() {
    tdm_kernel *kernel = nullptr;
    tdm_status status = tdm_kernel_load(*device, &fake.info, &kernel);
    tdm_kernel_destroy(kernel);
    return status;
  }

  void expectRefused(tdm_status status, const std::string &message) {
    expectFailure(create(), status, "kernel 'count': " + message);
  }

  tdm_kernel_desc desc;
  TestCode fake;
  std::unique_ptr<OpenDevice> device;
};
} // namespace

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// Each image is invalid in its own way, so that the error tells which one was
/// loaded.
TEST_F(StandInCode, TheBestImageForTheDevice) {
  struct Candidate {
    const char *kind;
    const char *target;
  };
  // In order of preference on sm_90.
  const Candidate candidates[] = {{"cubin", "sm_90"},
                                  {"PTX", "sm_90a"},
                                  {"PTX", "sm_90"},
                                  {"PTX", "sm_80"},
                                  {"PTX", "sm_75"}};
  const Candidate useless[] = {{"cubin", "sm_89"},
                               {"PTX", "sm_89a"},
                               {"PTX", "sm_100"},
                               {"cubin", "sm_100"},
                               {TDM_IMAGE_LIBRARY, "x86-64-v3"},
                               {"PTX", "gfx90a"}};
  const uint8_t none[32] = {};
  size_t numCandidates = std::size(candidates);
  for (size_t best = 0; best <= numCandidates; ++best) {
    fake.images.clear();
    for (const Candidate &image : useless)
      fake.images.push_back({image.kind, image.target, "?", 1, none});
    for (size_t i = numCandidates; i-- > best;)
      fake.images.push_back(
          {candidates[i].kind, candidates[i].target, "?", 1, none});
    fake.info.images = fake.images.data();
    fake.info.num_images = static_cast<uint32_t>(fake.images.size());
    if (best == numCandidates)
      expectRefused(TDM_UNAVAILABLE,
                    "no image runs on sm_90; there are some for sm_89, sm_89a, "
                    "sm_100, sm_100, x86-64-v3, gfx90a; compile it for this "
                    "device or an earlier one");
    else
      expectRefused(TDM_INVALID_PACKAGE,
                    std::string("the image for ") + candidates[best].target +
                        " is not what its SHA-256 says; compile it again");
  }
}

TEST_F(StandInCode, MachineCodeOfTheSameGeneration) {
  device.reset();
  fakecuda::setDevices(1, 89);
  device = std::make_unique<OpenDevice>("cuda");
  std::string cubin = "machine code of\n" + fake.ptx;
  fake.images = {{"PTX", "sm_89", "bad", 3, nullptr},
                 {"cubin", "sm_80", cubin.c_str(), cubin.size() + 1, nullptr}};
  fake.info.images = fake.images.data();
  fake.info.num_images = 2;
  EXPECT_EQ(create(), TDM_OK) << tdm_last_error();
}

TEST_F(StandInCode, Descriptions) {
  tdm_kernel_info whole = fake.info;
  auto expect = [&](const std::string &message) {
    expectRefused(TDM_INVALID_ARGUMENT, message);
    fake.info = whole;
  };
  fake.info.phases = nullptr;
  expect("phases is NULL but num_phases is 1");
  fake.info.num_phases = 0;
  expect("there is no last phase over elements; pass the launches of a step");
  fake.info.num_epilogues = 2;
  fake.info.epilogues = nullptr;
  expect("epilogues is NULL but num_epilogues is 2");
  fake.info.images = nullptr;
  expect("images is NULL but num_images is 1");
  tdm_part_info parts[] = {{nullptr, TDM_PER_ELEMENT},
                           {"tandem_count", TDM_PER_ELEMENT}};
  auto expectPhase = [&](tdm_part_info phase, const std::string &message) {
    parts[0] = phase;
    fake.info.phases = parts;
    fake.info.num_phases = 2;
    expect("phase 0 has " + message);
  };
  expectPhase({nullptr, TDM_PER_ELEMENT}, "no entry; name its function");
  const std::string remedy = "; use a tdm_granularity, and TDM_PER_ELEMENT "
                             "except in a matrix kernel";
  expectPhase({"tandem_count", TDM_PER_ROW}, "granularity 1" + remedy);
  desc.matrix = 1;
  expectPhase({"tandem_count", TDM_PER_BLOCK}, "granularity 3" + remedy);
  desc.matrix = 0;
  parts[0] = {"tandem_none", TDM_PER_ELEMENT};
  fake.info.epilogues = parts;
  fake.info.num_epilogues = 1;
  expectRefused(TDM_INVALID_PACKAGE,
                "its code has no function 'tandem_none'; compile it again");
  fake.info = whole;
  fake.images[0].kind = nullptr;
  expect("image 0 has no kind; pass compiled code");
  fake.images[0] = {"PTX", nullptr, "", 1, nullptr};
  expect("image 0 has no target; pass compiled code");
  fake.images[0] = {"PTX", "sm_80", "", 0, nullptr};
  expect("image 0 has no data; pass compiled code");
  fake.info.num_images = 0;
  expectRefused(TDM_UNAVAILABLE,
                "no image runs on sm_90; there is none; compile it for this "
                "device or an earlier one");
}

TEST_F(StandInCode, ThePrologueIsNeededForScalars) {
  desc.num_scalars = 1;
  expectRefused(TDM_INVALID_ARGUMENT, "prologue is NULL but num_scalars is 1; "
                                      "name the compiled prologue");
}

TEST_F(StandInCode, ABlockMustFit) {
  size_t limit = fake.ptx.find("256");
  fake.ptx.replace(limit, 3, "128");
  expectRefused(TDM_UNAVAILABLE, "function 'tandem_count' allows blocks of 128 "
                                 "threads on this device, but takes 256");
}

TEST_F(StandInCode, WhatTheDriverSaysOfPTX) {
  fake.ptx[0] = '?';
  expectFailure(create(), TDM_DEVICE_ERROR,
                "kernel 'count': the driver cannot compile its PTX: line 1; "
                "fatal: there is no .version");
}

TEST_F(StandInCode, Arguments) {
  OpenDevice cpu;
  tdm_kernel *kernel = nullptr;
  const std::string notTold = "tdm_kernel_load: info is not what "
                              "tdm_package_kernel of this runtime stores; pass "
                              "that";
  expectFailure(tdm_kernel_load(nullptr, &fake.info, &kernel),
                TDM_INVALID_ARGUMENT,
                "tdm_kernel_load: device is NULL; pass an open device, and "
                "where to store the kernel");
  expectFailure(tdm_kernel_load(*device, &fake.info, nullptr),
                TDM_INVALID_ARGUMENT,
                "tdm_kernel_load: kernel is NULL; pass an open device, and "
                "where to store the kernel");
  expectFailure(tdm_kernel_load(*device, nullptr, &kernel),
                TDM_INVALID_ARGUMENT, notTold);
  fake.info.desc = nullptr;
  expectFailure(tdm_kernel_load(*device, &fake.info, &kernel),
                TDM_INVALID_ARGUMENT, notTold);
  fake.info.desc = &desc;
  expectFailure(tdm_kernel_load(cpu, &fake.info, &kernel), TDM_UNAVAILABLE,
                "kernel 'count': no image runs on cpu; there is one for sm_80; "
                "compile it for " +
                    std::string(advisedISA));
}

//===----------------------------------------------------------------------===//
// The cache on disk
//===----------------------------------------------------------------------===//

#ifndef _WIN32

namespace {
/// A cache directory, which does not exist yet.
class StandInCache : public StandInCode {
protected:
  void SetUp() override {
    StandInCode::SetUp();
    std::string name = testing::TempDir() + "tandem-cache-XXXXXX";
    root = mkdtemp(name.data());
    directory = root / "a" / "b";
    setenv("TANDEM_CACHE_DIR", directory.c_str(), 1);
  }
  void TearDown() override {
    setenv("TANDEM_CACHE_DIR", "", 1);
    fs::remove_all(root);
    StandInCode::TearDown();
  }

  /// Creates the kernel and returns whether the driver has compiled.
  bool compiles() {
    long before = fakecuda::callsOf("cuLinkComplete");
    EXPECT_EQ(create(), TDM_OK) << tdm_last_error();
    return fakecuda::callsOf("cuLinkComplete") > before;
  }

  fs::path onlyFile() {
    std::vector<fs::path> files{fs::directory_iterator(directory), {}};
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files[0];
  }

  std::string read() {
    std::ifstream file(onlyFile(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void write(const std::string &bytes) {
    std::ofstream(onlyFile(), std::ios::binary) << bytes;
  }

  fs::path root, directory;
};
} // namespace

TEST_F(StandInCache, CodeIsCompiledOnce) {
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
  struct stat status;
  ASSERT_EQ(stat(directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(onlyFile().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(StandInCache, OtherCodeAndOtherDevicesHaveTheirOwn) {
  EXPECT_TRUE(compiles());
  fake.ptx += "//";
  fake.images[0].data = fake.ptx.data();
  fake.images[0].size = fake.ptx.size();
  EXPECT_TRUE(compiles());
  device.reset();
  fakecuda::setDevices(1, 89);
  device = std::make_unique<OpenDevice>("cuda");
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
}

TEST_F(StandInCache, DamagedFilesAreMadeAgain) {
  EXPECT_TRUE(compiles());
  std::string good = read();
  std::vector<std::string> damaged = {
      "", good.substr(0, 20), good.substr(0, good.size() - 1), good + "?"};
  for (size_t i : {size_t(0), size_t(8), size_t(40), good.size() - 2}) {
    damaged.push_back(good);
    damaged.back()[i] ^= 1;
  }
  for (const std::string &bytes : damaged) {
    write(bytes);
    EXPECT_TRUE(compiles());
    EXPECT_EQ(read(), good);
  }
}

TEST_F(StandInCache, FilesOfOtherCodeAreNotTaken) {
  EXPECT_TRUE(compiles());
  std::string first = read();
  fs::remove(onlyFile());
  fake.ptx += "//";
  fake.images[0].size = fake.ptx.size();
  fake.images[0].data = fake.ptx.data();
  EXPECT_TRUE(compiles());
  write(first);
  EXPECT_TRUE(compiles());
}

TEST_F(StandInCache, WhatOthersCanWriteIsNotUsed) {
  EXPECT_TRUE(compiles());
  fs::path file = onlyFile();
  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles()) << "the file has been replaced";
  fs::permissions(directory, fs::perms::others_write, fs::perm_options::add);
  EXPECT_TRUE(compiles());
  fs::permissions(directory, fs::perms::others_write, fs::perm_options::remove);
  EXPECT_FALSE(compiles());
  fs::path elsewhere = root / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  EXPECT_TRUE(compiles()) << "links are not followed";
}

TEST_F(StandInCache, ADirectoryThatCannotBeMadeIsNoError) {
  std::ofstream(root / "a") << "a file";
  EXPECT_TRUE(compiles());
  EXPECT_TRUE(compiles());
}

#endif
