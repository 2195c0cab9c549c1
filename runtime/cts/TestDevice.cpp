//===- TestDevice.cpp - Devices for tests ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the devices that tests run on.
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"

#include "FakeCUDA.h"
#include "tandem-runtime/tandem_launch.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace tandem::cts;

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// Unless the environment names a driver, tests use the stand-in library. The
/// cache on disk is disabled.
static const bool driverIsSet =
    setenv("TANDEM_CUDA_DRIVER", TANDEM_FAKE_CUDA, /*replace=*/0) == 0 &&
    setenv("TANDEM_CACHE_DIR", "", /*replace=*/1) == 0 &&
    (!isFakeDriver() ||
     setenv("TANDEM_CUBLASLT", TANDEM_FAKE_CUBLASLT, /*replace=*/1) == 0);

bool tandem::cts::isFakeDriver() {
  return std::strcmp(std::getenv("TANDEM_CUDA_DRIVER"), TANDEM_FAKE_CUDA) == 0;
}

void DeviceTest::SetUp() {
  ASSERT_TRUE(driverIsSet);
  ASSERT_EQ(tdm_device_open(GetParam(), 0, &device), TDM_OK)
      << tdm_last_error();
}

void DeviceTest::TearDown() {
  tdm_device_close(device);
  if (!isFakeDriver())
    return;
  fakecuda::failNothing();
  EXPECT_EQ(fakecuda::takeViolations(), "");
  EXPECT_EQ(fakecuda::living(), "");
}

std::string
tandem::cts::nameOfDriver(const testing::TestParamInfo<const char *> &info) {
  return std::string(info.param) == "cuda" ? "CUDA" : "CPU";
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Returns the file with the PTX of KernelCode.cu, or "" if there is none.
static std::string realPTXPath() {
  if (const char *named = std::getenv("TANDEM_TEST_PTX"))
    return named;
#ifdef TANDEM_TEST_KERNELS
  return TANDEM_TEST_KERNELS;
#else
  return "";
#endif
}

static const std::string &getRealPTX() {
  static const std::string text = [] {
    std::ifstream file(realPTXPath());
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return text;
}

void TestCode::checkRealPTX(const std::string &name) {
  if (isFakeDriver() && getRealPTX().empty())
    return;
  EXPECT_NE(getRealPTX().find(".entry " + name + "("), std::string::npos)
      << "the PTX of KernelCode.cu, '" << realPTXPath() << "', lacks " << name;
}

const char *TestCode::add(const std::string &name, tdm_cpu_entry entry) {
  checkRealPTX(name);
  ptx += ".visible .entry " + name + "(\n)\n.maxntid 256, 1, 1\n{\n}\n";
  if (entry && isFakeDriver())
    fakecuda::registerEntry(name, entry);
  names.push_back(name);
  return names.back().c_str();
}

TestCode::TestCode(const tdm_kernel_desc &desc, const Totals &totals) {
  // Reserve memory, so that pointers to names stay valid.
  names.reserve(100);
  std::string base = std::string("tandem_") + desc.name;
  ptx = ".version 8.0\n.target sm_80\n.address_size 64\n";
  auto fusedWithPrevious = [&](uint32_t phase) {
    return desc.fused_with_previous ? desc.fused_with_previous[phase] : 0;
  };
  for (uint32_t i = 0; i < desc.num_reduction_entries; ++i) {
    uint32_t per =
        desc.reduction_granularities ? desc.reduction_granularities[i] : 0;
    phases.push_back(
        {add(base + "_phase" + std::to_string(i), desc.reduction_entries[i]),
         static_cast<tdm_granularity>(per), fusedWithPrevious(i)});
  }
  phases.push_back({add(base, desc.entry), TDM_PER_ELEMENT,
                    fusedWithPrevious(desc.num_reduction_entries)});
  if (desc.epilogue_rows)
    epilogues.push_back(
        {add(base + TDM_LAUNCH_EPILOGUE "_rows", desc.epilogue_rows),
         TDM_PER_ROW});
  if (desc.epilogue_columns)
    epilogues.push_back(
        {add(base + TDM_LAUNCH_EPILOGUE "_columns", desc.epilogue_columns),
         TDM_PER_COLUMN});
  if (desc.epilogue)
    epilogues.push_back(
        {add(base + TDM_LAUNCH_EPILOGUE, desc.epilogue), TDM_PER_ELEMENT});
  for (const auto &[suffix, entry] : totals)
    add(base + suffix, entry);
  if (desc.prologue) {
    std::string name = base + TDM_LAUNCH_PROLOGUE;
    checkRealPTX(name);
    ptx += ".visible .entry " + name + "(\n)\n.maxntid 1, 1, 1\n{\n}\n";
    if (isFakeDriver())
      fakecuda::registerPrologue(name, desc.prologue);
    names.push_back(name);
    info.prologue = names.back().c_str();
  }
  if (!isFakeDriver())
    ptx = getRealPTX();
  images.push_back(
      {"PTX", "sm_80", ptx.data(), ptx.size(), /*sha256=*/nullptr});
  info.struct_size = sizeof(info);
  info.name = info.graph = desc.name;
  info.desc = &desc;
  info.phases = phases.data();
  info.num_phases = static_cast<uint32_t>(phases.size());
  info.epilogues = epilogues.data();
  info.num_epilogues = static_cast<uint32_t>(epilogues.size());
  info.images = images.data();
  info.num_images = 1;
  info.flags = TDM_FLAG_NON_FINITE;
}

DeviceKernel::DeviceKernel(const tdm_device *device, const char *driver,
                           const tdm_kernel_desc &desc, const Totals &totals) {
  TestCode test(desc, totals);
  tdm_status status = std::string(driver) == "cuda"
                          ? tdm_kernel_load(device, &test.info, &kernel)
                          : tdm_kernel_create(&desc, &kernel);
  EXPECT_EQ(status, TDM_OK) << tdm_last_error();
}
