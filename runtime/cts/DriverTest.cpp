//===- DriverTest.cpp - Drivers from outside of the runtime ---------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests drivers that a program registers. Images of the test's driver
// name functions of the test.
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"
#include "TestPackages.h"
#include "tandem-runtime/tandem_driver.h"

#include <cstring>

using namespace tandem::cts;

namespace {
/// The number of images that the driver has loaded and not unloaded.
int loaded = 0;

/// A driver of two devices. Its images have the kind "named" and their own
/// target, and contain the name of the only function.
struct NamedDriver {
  static tdm_status count(void *, int32_t *count) {
    *count = 2;
    return TDM_OK;
  }
  static tdm_status query(void *, int32_t ordinal, tdm_device_info *info) {
    EXPECT_STREQ(info->driver, "named");
    EXPECT_EQ(info->ordinal, ordinal);
    std::strcpy(info->name, "functions of a test");
    std::strcpy(info->target, "named-1");
    info->multiprocessors = 3;
    return TDM_OK;
  }
  static int64_t rank(void *, int32_t, const tdm_image *image) {
    if (std::strcmp(image->kind, "named"))
      return 0;
    return std::strcmp(image->target, "named-1") ? 1 : 2;
  }
  static tdm_status load(void *, int32_t, const tdm_image *image, void **code) {
    std::string name(static_cast<const char *>(image->data), image->size);
    if (name == "?")
      return tdm_driver_fail(TDM_UNAVAILABLE, "it is a question");
    *code = new std::string(name);
    ++loaded;
    return TDM_OK;
  }
  static void *find(void *context, void *code, const char *name) {
    return *static_cast<std::string *>(code) == name ? context : nullptr;
  }
  static void unload(void *, void *code) {
    delete static_cast<std::string *>(code);
    --loaded;
  }

  static tdm_driver table() {
    static tdm_kernel_desc desc = countDesc();
    return {sizeof(tdm_driver),
            "named",
            reinterpret_cast<void *>(desc.entry),
            count,
            query,
            rank,
            load,
            find,
            unload};
  }
};

/// Tests that use the driver, which is registered once.
class DriverTest : public testing::Test {
protected:
  void SetUp() override {
    static tdm_status registered = [] {
      tdm_driver table = NamedDriver::table();
      return tdm_driver_register(&table);
    }();
    ASSERT_EQ(registered, TDM_OK) << tdm_last_error();
  }
  void TearDown() override { EXPECT_EQ(loaded, 0); }
};
} // namespace

static void addNamedImage(tandem::package::PackageT &package,
                          const std::string &function,
                          const std::string &target = "named-1") {
  addImage(package, function, target);
  package.kernels[0]->images.back()->kind = packedByName;
  package.kernels[0]->images.back()->kind_name = "named";
}

TEST_F(DriverTest, DevicesAreFoundByItsName) {
  int32_t count = 0;
  ASSERT_EQ(tdm_device_count("named", &count), TDM_OK);
  EXPECT_EQ(count, 2);
  tdm_device *device = nullptr;
  ASSERT_EQ(tdm_device_open("named", 1, &device), TDM_OK);
  tdm_device_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(tdm_device_query(device, &info), TDM_OK);
  EXPECT_STREQ(info.driver, "named");
  EXPECT_EQ(info.ordinal, 1);
  EXPECT_STREQ(info.target, "named-1");
  tdm_device_close(device);
  expectFailure(tdm_device_open("named", 2, &device), TDM_UNAVAILABLE,
                "driver 'named' has no device 2; it has 2");
}

TEST_F(DriverTest, PackagesHoldImagesOfItsKind) {
  tandem::package::PackageT described = describeCount();
  std::string entry = described.kernels[0]->phases[0]->entry;
  addNamedImage(described, "?", "named-0");
  addNamedImage(described, entry);
  addImage(described, "no ELF at all");
  OpenPackage package(described);
  ASSERT_EQ(package.status, TDM_OK) << tdm_last_error();
  OpenDevice device("named");
  tdm_kernel *kernel = nullptr;
  ASSERT_EQ(tdm_package_load(package, nullptr, device, nullptr, &kernel),
            TDM_OK)
      << tdm_last_error();
  EXPECT_EQ(loaded, 1);
  DeviceArray<uint8_t> counts(device, std::vector<uint8_t>(10000));
  TensorList tensors;
  tensors.add(10000, {counts.data()});
  OwnedPlan plan(kernel, tensors);
  tdm_kernel_destroy(kernel);
  double lr = 0.5;
  int64_t step = 1;
  ASSERT_EQ(tdm_plan_launch(plan, &lr, &step, 1, 2, nullptr), TDM_OK)
      << tdm_last_error();
  EXPECT_EQ(counts.read(), std::vector<uint8_t>(10000, 1));
}

TEST_F(DriverTest, FailuresNameTheKernel) {
  OpenDevice device("named");
  auto expect = [&](const tandem::package::PackageT &described,
                    tdm_status status, const std::string &message) {
    OpenPackage package(described);
    ASSERT_EQ(package.status, TDM_OK) << tdm_last_error();
    tdm_kernel *kernel = nullptr;
    expectFailure(tdm_package_load(package, nullptr, device, nullptr, &kernel),
                  status, "package 'test': kernel 'count': " + message);
  };
  tandem::package::PackageT described = describeCount();
  addImage(described, "code", "x86-64");
  expect(described, TDM_UNAVAILABLE,
         "no image runs on named-1; there is one for x86-64; compile it for "
         "this device");
  addNamedImage(described, "?");
  expect(described, TDM_UNAVAILABLE, "it is a question");
  described = describeCount();
  addNamedImage(described, "another");
  expect(described, TDM_INVALID_PACKAGE,
         "its code has no function 'tandem_count'; compile it again");
  described.kernels[0]->images[0]->data[0] ^= 1;
  expect(described, TDM_INVALID_PACKAGE,
         "the image for named-1 is not what its SHA-256 says; compile it "
         "again");
}

TEST_F(DriverTest, TablesThatAreNotWholeAreRefused) {
  expectFailure(tdm_driver_register(nullptr), TDM_INVALID_ARGUMENT,
                "tdm_driver_register: driver is NULL; pass a tdm_driver");
  tdm_driver table = NamedDriver::table();
  expectFailure(tdm_driver_register(&table), TDM_INVALID_STATE,
                "tdm_driver_register: there is a driver 'named' already; "
                "register it once, or by another name");
  table.load = nullptr;
  expectFailure(tdm_driver_register(&table), TDM_INVALID_ARGUMENT,
                "tdm_driver_register: the driver has no load; set "
                "tdm_driver.load");
  table.name = "";
  expectFailure(tdm_driver_register(&table), TDM_INVALID_ARGUMENT,
                "tdm_driver_register: the driver has no name; set "
                "tdm_driver.name");
  table.struct_size = 8;
  expectFailure(tdm_driver_register(&table), TDM_INVALID_ARGUMENT,
                "tdm_driver_register: struct_size is 8 but this runtime's is " +
                    std::to_string(sizeof(table)) +
                    "; set it to sizeof(tdm_driver) of the matching header");
  expectFailure(tdm_driver_fail(TDM_DEVICE_ERROR, nullptr), TDM_DEVICE_ERROR,
                "the driver does not say why");
}
