//===- PackageTest.cpp - Tests of packages --------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the descriptions of kernels in packages, and kernels that are
// loaded from them.
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"
#include "TestKernels.h"
#include "TestPackages.h"

#include <cstring>
#include <thread>

using namespace tandem;
using namespace tandem::cts;

static package::PackageT describeWithCode(int step) {
  package::PackageT package = describeCount();
  addImage(package, readCode(step));
  return package;
}

/// Launches the kernel on zeros and returns the value of an element.
static int count(tdm_kernel *kernel) {
  std::vector<uint8_t> bytes(5000);
  TensorList tensors;
  tensors.add(bytes.size(), {bytes.data()});
  OwnedPlan plan(kernel, tensors);
  double lr = 0.5;
  int64_t step = 1;
  EXPECT_EQ(tdm_plan_launch(plan, &lr, &step, 1, 2, nullptr), TDM_OK)
      << tdm_last_error();
  for (uint8_t byte : bytes)
    EXPECT_EQ(byte, bytes[0]);
  return bytes[0];
}

static tdm_kernel *load(const tdm_package *package) {
  tdm_kernel *kernel = nullptr;
  EXPECT_EQ(tdm_package_load(package, nullptr, nullptr, nullptr, &kernel),
            TDM_OK)
      << tdm_last_error();
  return kernel;
}

TEST(PackageTest, TellsOfItsKernels) {
  OpenPackage package(describeWithCode(1));
  EXPECT_STREQ(tdm_package_compiler(package), "a test");
  ASSERT_EQ(tdm_package_num_kernels(package), 1u);
  tdm_kernel_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(tdm_package_kernel(package, 0, &info), TDM_OK);
  EXPECT_STREQ(info.name, "count");
  EXPECT_STREQ(info.strategy, "plain");
  EXPECT_STREQ(info.compute, "f32 f32");
  EXPECT_STREQ(info.ir, "module {}");
  ASSERT_EQ(info.desc->num_planes, 1u);
  EXPECT_STREQ(info.desc->planes[0].name, "count");
  EXPECT_EQ(info.desc->planes[0].bits, 8u);
  EXPECT_EQ(info.desc->planes[0].kind, TDM_ROLE_STATE);
  EXPECT_EQ(info.desc->planes[0].persistent, 1u);
  EXPECT_EQ(info.desc->planes[0].visible, 0u);
  EXPECT_STREQ(info.desc->planes[0].type, "i8");
  EXPECT_STREQ(info.desc->planes[0].doc, "a count");
  ASSERT_EQ(info.desc->num_hypers, 1u);
  EXPECT_EQ(info.desc->hypers[0].max_open, 1u);
  EXPECT_EQ(info.desc->hypers[0].default_value, 0.5);
  ASSERT_EQ(info.desc->num_integers, 1u);
  EXPECT_EQ(info.desc->integers[0].kind, TDM_ROLE_STEP);
  EXPECT_EQ(info.desc->entry, nullptr);
  ASSERT_EQ(info.num_phases, 1u);
  EXPECT_STREQ(info.phases[0].entry, "tandem_count");
  ASSERT_EQ(info.num_images, 1u);
  EXPECT_STREQ(info.images[0].kind, TDM_IMAGE_LIBRARY);
  EXPECT_EQ(std::string(static_cast<const char *>(info.images[0].data),
                        info.images[0].size),
            readCode(1));
}

/// Files from before the fields were added do not name an assembler.
TEST(PackageTest, TellsHowItsImagesWereMade) {
  package::PackageT described = describeWithCode(1);
  addImage(described, "machine code", "sm_90");
  described.kernels[0]->images[1]->kind = packedCubin;
  described.kernels[0]->images[1]->assembler = "13.0.88";
  described.kernels[0]->images[1]->level = 3;
  OpenPackage package(described);
  tdm_kernel_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(tdm_package_kernel(package, 0, &info), TDM_OK);
  ASSERT_EQ(info.num_images, 2u);
  EXPECT_STREQ(info.images[0].assembler, "");
  EXPECT_EQ(info.images[0].level, 0u);
  EXPECT_STREQ(info.images[1].assembler, "13.0.88");
  EXPECT_EQ(info.images[1].level, 3u);
}

TEST(PackageTest, KernelsTakeOtherImagesForAGPU) {
  OpenPackage package(describeWithCode(1));
  tdm_kernel_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(tdm_package_kernel(package, 0, &info), TDM_OK);
  OpenDevice gpu("cuda");
  tdm_kernel *kernel = nullptr;
  tdm_image image = {"PTX", "sm_120", "//\n", 4, nullptr};
  info.images = &image;
  expectFailure(tdm_kernel_load(gpu, &info, &kernel), TDM_UNAVAILABLE,
                "kernel 'count': no image runs on sm_90; there is one for "
                "sm_120; compile it for this device or an earlier one");
  info.struct_size = 0;
  expectFailure(tdm_kernel_load(gpu, &info, &kernel), TDM_INVALID_ARGUMENT,
                "tdm_kernel_load: info is not what tdm_package_kernel of this "
                "runtime stores; pass that");
}

TEST(PackageTest, HypersMayLackDefaults) {
  package::PackageT described = describeCount();
  described.kernels[0]->hypers[0]->default_value = flatbuffers::nullopt;
  OpenPackage package(described);
  tdm_kernel_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(tdm_package_kernel(package, 0, &info), TDM_OK);
  EXPECT_EQ(info.desc->hypers[0].has_default, 0u);
}

TEST(PackageTest, FindsKernels) {
  package::PackageT described = describeCount();
  described.kernels.push_back(std::move(describeCount().kernels[0]));
  described.kernels[1]->name = "other";
  OpenPackage package(described);
  uint32_t index = 7;
  EXPECT_EQ(tdm_package_find(package, "other", &index), TDM_OK);
  EXPECT_EQ(index, 1u);
  expectFailureSaying(tdm_package_find(package, "third", &index),
                      TDM_INVALID_ARGUMENT,
                      "has no kernel 'third'; it has count, other");
  expectFailureSaying(tdm_package_find(package, nullptr, &index),
                      TDM_INVALID_ARGUMENT,
                      "has several kernels; name one of count, other");
  EXPECT_EQ(index, 1u);
}

TEST(PackageTest, KernelsRunAndOutliveIt) {
  tdm_kernel *kernel;
  {
    OpenPackage package(describeWithCode(1));
    kernel = load(package);
  }
  EXPECT_EQ(count(kernel), 1);
  std::vector<uint8_t> bytes(100);
  TensorList tensors;
  tensors.add(bytes.size(), {bytes.data()});
  OwnedPlan plan(kernel, tensors);
  tdm_kernel_destroy(kernel);
  double lr = 0.5;
  int64_t step = 1;
  EXPECT_EQ(tdm_plan_launch(plan, &lr, &step, 1, 1, nullptr), TDM_OK);
  EXPECT_EQ(bytes[99], 1);
}

/// Libraries have the same symbols, and their file descriptors are reused.
TEST(PackageTest, KernelsKeepTheirOwnCode) {
  OpenPackage one(describeWithCode(1)), two(describeWithCode(2));
  tdm_kernel *first = load(one);
  tdm_kernel *second = load(two);
  EXPECT_EQ(count(first), 1);
  EXPECT_EQ(count(second), 2);
  tdm_kernel_destroy(first);
  tdm_kernel *third = load(two);
  tdm_kernel_destroy(second);
  tdm_kernel *fourth = load(one);
  EXPECT_EQ(count(third), 2);
  EXPECT_EQ(count(fourth), 1);
  tdm_kernel_destroy(third);
  tdm_kernel_destroy(fourth);
}

TEST(PackageTest, LoadsOnManyThreads) {
  OpenPackage package(describeWithCode(2));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        tdm_kernel *kernel = load(package);
        EXPECT_EQ(count(kernel), 2);
        tdm_kernel_destroy(kernel);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(PackageTest, TakesTheBestCodeThatRuns) {
  package::PackageT described = describeCount();
  addImage(described, readCode(1));
  addImage(described, readCode(2), std::string(thisISA) + "-v9");
  addImage(described, readCode(2), otherISA);
  addImage(described, readCode(2), "sm_90");
  OpenPackage package(described);
  tdm_kernel *kernel = load(package);
  EXPECT_EQ(count(kernel), 1);
  tdm_kernel_destroy(kernel);
}

#ifdef __x86_64__
TEST(PackageTest, TakesTheHighestLevelThatRuns) {
  if (!__builtin_cpu_supports("x86-64-v2"))
    GTEST_SKIP() << "this processor has only the first level";
  package::PackageT described = describeWithCode(1);
  addImage(described, readCode(2), "x86-64-v2");
  OpenPackage better(described);
  tdm_kernel *kernel = load(better);
  EXPECT_EQ(count(kernel), 2);
  EXPECT_STREQ(tdm_kernel_target(kernel), "x86-64-v2");
  tdm_kernel_destroy(kernel);
  EXPECT_EQ(tdm_package_load(better, "count", nullptr, "x86-64", &kernel),
            TDM_OK);
  EXPECT_EQ(count(kernel), 1);
  EXPECT_STREQ(tdm_kernel_target(kernel), "x86-64");
  tdm_kernel_destroy(kernel);
  EXPECT_EQ(tdm_kernel_target(nullptr), nullptr);
}
#endif

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// Expects that loading the only kernel fails.
static void expectNotLoaded(const package::PackageT &described,
                            tdm_status status, const std::string &part) {
  OpenPackage package(described);
  ASSERT_EQ(package.status, TDM_OK) << tdm_last_error();
  tdm_kernel *kernel = nullptr;
  expectFailureSaying(
      tdm_package_load(package, nullptr, nullptr, nullptr, &kernel), status,
      part);
  EXPECT_EQ(kernel, nullptr);
}

TEST(PackageTest, RefusesWithoutCodeForThisMachine) {
  package::PackageT described = describeCount();
  expectNotLoaded(described, TDM_UNAVAILABLE,
                  "package 'test': kernel 'count': no image runs on cpu; there "
                  "is none; compile it for " +
                      std::string(thisISA));
  addImage(described, "code", "sm_90");
  described.kernels[0]->images[0]->kind = packedPTX;
  addImage(described, "code", otherISA);
  expectNotLoaded(described, TDM_UNAVAILABLE,
                  "there are some for sm_90, " + std::string(otherISA) + "; ");
  OpenPackage package(describeWithCode(1));
  tdm_kernel *kernel = nullptr;
  expectFailureSaying(
      tdm_package_load(package, nullptr, nullptr, "x86-64-v2", &kernel),
      TDM_UNAVAILABLE,
      "no image for x86-64-v2 runs on cpu; there is one for " +
          std::string(thisISA) + "; ");
}

TEST(PackageTest, RefusesDamagedCode) {
  package::PackageT described = describeWithCode(1);
  described.kernels[0]->images[0]->data[100] ^= 1;
  expectNotLoaded(described, TDM_INVALID_PACKAGE,
                  "the image for " + std::string(thisISA) +
                      " is not what its SHA-256 says; compile it again");
}

TEST(PackageTest, RefusesCodeThatIsNoLibrary) {
  package::PackageT described = describeCount();
  addImage(described, "no ELF at all");
  expectNotLoaded(described, TDM_UNAVAILABLE,
                  "package 'test': kernel 'count': the system's loader refuses "
                  "its code: file too short; see that");
}

TEST(PackageTest, RefusesCodeWithoutAFunction) {
  package::PackageT described = describeWithCode(1);
  described.kernels[0]->phases[0]->entry = "tandem_counts";
  expectNotLoaded(described, TDM_INVALID_PACKAGE,
                  "its code has no function 'tandem_counts'; compile it again");
  described = describeWithCode(1);
  described.kernels[0]->epilogues.push_back(std::make_unique<package::PartT>());
  described.kernels[0]->epilogues[0]->entry = "tandem_count_commit";
  expectNotLoaded(described, TDM_INVALID_PACKAGE,
                  "its code has no function 'tandem_count_commit'");
}

TEST(PackageTest, RefusesBadArguments) {
  OpenPackage package(describeWithCode(1));
  tdm_kernel_info info = {};
  expectFailureSaying(tdm_package_kernel(package, 0, &info),
                      TDM_INVALID_ARGUMENT, "struct_size is 0");
  info.struct_size = sizeof(info);
  expectFailureSaying(tdm_package_kernel(package, 1, &info),
                      TDM_INVALID_ARGUMENT, "has no kernel number 1; it has 1");
  expectFailureSaying(tdm_package_kernel(nullptr, 0, &info),
                      TDM_INVALID_ARGUMENT, "package is NULL");
  expectFailureSaying(tdm_package_kernel(package, 0, nullptr),
                      TDM_INVALID_ARGUMENT, "info is NULL");
  uint32_t index;
  expectFailureSaying(tdm_package_find(nullptr, nullptr, &index),
                      TDM_INVALID_ARGUMENT, "package is NULL");
  expectFailureSaying(tdm_package_find(package, nullptr, nullptr),
                      TDM_INVALID_ARGUMENT, "index is NULL");
  tdm_kernel *kernel;
  expectFailureSaying(
      tdm_package_load(nullptr, nullptr, nullptr, nullptr, &kernel),
      TDM_INVALID_ARGUMENT, "package is NULL");
  expectFailureSaying(
      tdm_package_load(package, nullptr, nullptr, nullptr, nullptr),
      TDM_INVALID_ARGUMENT, "kernel is NULL");
}
