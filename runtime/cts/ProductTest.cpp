//===- ProductTest.cpp - Matrix products on a GPU -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of matrix products. With a real driver they test
// cuBLASLt itself, so factors are chosen such that all sums are exact.
//
//===----------------------------------------------------------------------===//

#include "FakeCublasLt.h"
#include "TestDevice.h"
#include "TestKernels.h"
#include "TestStream.h"
#include "tandem-runtime/tandem_product.h"

#include <cmath>
#include <cstring>

using namespace tandem::cts;

static constexpr size_t workspaceBytes = size_t(4) << 20;

static uint16_t bf16Of(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof(word));
  return static_cast<uint16_t>(word >> 16);
}

/// Appends the code of an integer of magnitude 4 or less.
static void appendCode(std::vector<uint8_t> &bytes, uint32_t factor,
                       int value) {
  static const uint8_t e4m3[] = {0x00, 0x38, 0x40, 0x44, 0x48};
  static const uint8_t e5m2[] = {0x00, 0x3C, 0x40, 0x42, 0x44};
  int magnitude = std::abs(value);
  if (factor == TDM_FACTOR_BF16) {
    uint16_t half = bf16Of(float(value));
    bytes.push_back(uint8_t(half));
    bytes.push_back(uint8_t(half >> 8));
    return;
  }
  uint8_t code = (factor == TDM_FACTOR_E4M3 ? e4m3 : e5m2)[magnitude];
  bytes.push_back(uint8_t(code | (value < 0 ? 128 : 0)));
}

namespace {
/// A product with its tensors.
class Product : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(tdm_device_open("cuda", 0, &device), TDM_OK) << tdm_last_error();
  }

  void TearDown() override {
    tdm_product_destroy(product);
    arrays.clear();
    floats.clear();
    tdm_device_close(device);
    if (!isFakeDriver())
      return;
    fakecuda::setDevices(1, 90);
    EXPECT_EQ(fakecuda::takeViolations(), "");
    EXPECT_STREQ(fake_cublaslt_violations(), "");
    EXPECT_EQ(fake_cublaslt_living(), 0);
  }

  static int valueOf(int64_t row, int64_t column) {
    return int((row * 7 + column * 3) % 9) - 4;
  }

  void *allocate(const std::vector<uint8_t> &bytes) {
    arrays.emplace_back(device, bytes);
    return arrays.back().data();
  }

  void *makeFactor(uint32_t factor, int64_t rows, int64_t depth) {
    std::vector<uint8_t> bytes;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < depth; ++k)
        appendCode(bytes, factor, valueOf(i, k));
    return allocate(bytes);
  }

  float *makeScale(float scale) {
    floats.emplace_back(device, std::vector<float>{scale});
    return floats.back().data();
  }

  /// Allocates the arguments for the description.
  void prepare() {
    bool isNarrow = desc.x != TDM_FACTOR_BF16;
    args.struct_size = sizeof(args);
    args.x = makeFactor(desc.x, desc.rows, desc.depth);
    args.w = makeFactor(desc.w, desc.columns, desc.depth);
    args.x_scale = isNarrow ? makeScale(0.5f) : nullptr;
    args.w_scale = isNarrow ? makeScale(0.25f) : nullptr;
    std::vector<uint8_t> bias;
    for (int64_t j = 0; desc.bias && j < desc.columns; ++j)
      appendCode(bias, TDM_FACTOR_BF16, int(j % 4));
    args.bias = desc.bias ? allocate(bias) : nullptr;
    args.y = allocate(std::vector<uint8_t>(2 * desc.rows * desc.columns));
    y = arrays.size() - 1;
    args.workspace = allocate(std::vector<uint8_t>(workspaceBytes));
    args.workspace_bytes = workspaceBytes;
  }

  tdm_status create() { return tdm_product_create(device, &desc, &product); }

  void expectProduct() {
    bool isNarrow = desc.x != TDM_FACTOR_BF16;
    std::vector<uint8_t> got = arrays[y].read();
    for (int64_t i = 0; i < desc.rows; ++i)
      for (int64_t j = 0; j < desc.columns; ++j) {
        int sum = 0;
        for (int64_t k = 0; k < desc.depth; ++k)
          sum += valueOf(i, k) * valueOf(j, k);
        float want = float(sum) * (isNarrow ? 0.125f : 1.0f) +
                     (desc.bias ? float(j % 4) : 0.0f);
        uint16_t half;
        std::memcpy(&half, &got[2 * (i * desc.columns + j)], 2);
        uint32_t word = uint32_t(half) << 16;
        float found;
        std::memcpy(&found, &word, sizeof(found));
        ASSERT_LE(std::abs(found - want), std::abs(want) / 256)
            << i << ", " << j;
      }
  }

  tdm_device *device = nullptr;
  tdm_product *product = nullptr;
  tdm_product_desc desc = {sizeof(desc),    32, 48, 64, TDM_FACTOR_E4M3,
                           TDM_FACTOR_E4M3, 1,  0};
  tdm_product_args args = {};
  std::vector<DeviceArray<uint8_t>> arrays;
  std::vector<DeviceArray<float>> floats;
  size_t y = 0;
};

/// Tests that need the libraries that stand in for the driver and for cuBLASLt.
class StandInProduct : public Product {};
} // namespace

TEST_F(Product, OfAllFactors) {
  const uint32_t pairs[][2] = {{TDM_FACTOR_E4M3, TDM_FACTOR_E4M3},
                               {TDM_FACTOR_E5M2, TDM_FACTOR_E4M3},
                               {TDM_FACTOR_E4M3, TDM_FACTOR_E5M2},
                               {TDM_FACTOR_BF16, TDM_FACTOR_BF16}};
  for (auto [x, w] : pairs)
    for (uint32_t bias : {0, 1}) {
      desc.x = x;
      desc.w = w;
      desc.bias = bias;
      prepare();
      ASSERT_EQ(create(), TDM_OK) << tdm_last_error();
      ASSERT_EQ(tdm_product_launch(product, &args), TDM_OK) << tdm_last_error();
      expectProduct();
      tdm_product_destroy(product);
      product = nullptr;
    }
}

TEST_F(Product, FastSums) {
  desc.fast = 1;
  prepare();
  long before = fake_cublaslt_fast();
  ASSERT_EQ(create(), TDM_OK) << tdm_last_error();
  ASSERT_EQ(tdm_product_launch(product, &args), TDM_OK) << tdm_last_error();
  expectProduct();
  EXPECT_EQ(fake_cublaslt_fast() - before, isFakeDriver() ? 1 : 0);
}

TEST_F(Product, ScalesAndStreamsAreThoseOfTheLaunch) {
  prepare();
  void *stream = createStream();
  args.stream = stream;
  ASSERT_EQ(create(), TDM_OK) << tdm_last_error();
  // Scales are read when the stream reaches the product.
  floats[0].write({100.0f});
  beginCapture(stream);
  ASSERT_EQ(tdm_product_launch(product, &args), TDM_OK) << tdm_last_error();
  int graph = endCapture(stream);
  floats[0].write({0.5f});
  long before = fake_cublaslt_products();
  launchGraph(graph, stream);
  expectProduct();
  EXPECT_EQ(fake_cublaslt_products() - before, isFakeDriver() ? 1 : 0);
  destroyGraph(graph);
  destroyStream(stream);
}

TEST_F(Product, DescriptionsAreChecked) {
  auto expect = [&](const char *part) {
    expectFailureSaying(create(), TDM_INVALID_ARGUMENT, part);
  };
  const tdm_product_desc fine = desc;
  desc.rows = 24;
  expect("rows is 24; cuBLASLt takes multiples of 16");
  desc = fine;
  desc.columns = 0;
  expect("columns is 0; cuBLASLt takes multiples of 16");
  desc = fine;
  desc.x = desc.w = TDM_FACTOR_BF16;
  desc.depth = 12;
  expect("depth is 12; cuBLASLt takes multiples of 8");
  desc = fine;
  desc.x = desc.w = TDM_FACTOR_E5M2;
  expect("x and w are 8-bit floats, not both E5M2, or both bf16");
  desc.x = TDM_FACTOR_BF16;
  expect("x and w are 8-bit floats, not both E5M2, or both bf16");
  desc.x = 3;
  expect("x or w is not a tdm_factor");
  desc.struct_size = 1;
  expect("struct_size is not that of this runtime");
  expectFailureSaying(tdm_product_create(nullptr, &desc, &product),
                      TDM_INVALID_ARGUMENT, "device, desc or product is NULL");
  tdm_device *cpu = nullptr;
  ASSERT_EQ(tdm_device_open("cpu", 0, &cpu), TDM_OK);
  expectFailureSaying(tdm_product_create(cpu, &fine, &product),
                      TDM_INVALID_ARGUMENT, "device is not a GPU; pass one");
  tdm_device_close(cpu);
}

TEST_F(Product, ArgumentsAreChecked) {
  prepare();
  ASSERT_EQ(create(), TDM_OK) << tdm_last_error();
  const tdm_product_args fine = args;
  auto expect = [&](const char *part) {
    expectFailureSaying(tdm_product_launch(product, &args),
                        TDM_INVALID_ARGUMENT, part);
    args = fine;
  };
  args.x = nullptr;
  expect("x is at 0x0, which is not a multiple of 16");
  args.y = static_cast<char *>(fine.y) + 8;
  expect("which is not a multiple of 16");
  args.bias = nullptr;
  expect("bias is at 0x0");
  args.w_scale = nullptr;
  expect("w_scale is at 0x0");
  args.workspace = static_cast<char *>(fine.workspace) + 16;
  expect("which is not a multiple of 256");
  args.struct_size = 1;
  expect("struct_size is not that of this runtime");
  expectFailureSaying(tdm_product_launch(nullptr, &args), TDM_INVALID_ARGUMENT,
                      "product or args is NULL");
  desc.x = desc.w = TDM_FACTOR_BF16;
  tdm_product_destroy(product);
  ASSERT_EQ(create(), TDM_OK) << tdm_last_error();
  expect("there is a scale or a bias that the product's description does not");
}

TEST_F(StandInProduct, WorkspaceIsThatOfTheFirstLaunch) {
  prepare();
  ASSERT_EQ(create(), TDM_OK) << tdm_last_error();
  args.workspace_bytes = 256;
  expectFailureSaying(tdm_product_launch(product, &args), TDM_UNAVAILABLE,
                      "cublasLtMatmulAlgoGetHeuristic failed: "
                      "CUBLAS_STATUS_NOT_SUPPORTED");
  args.workspace_bytes = workspaceBytes;
  ASSERT_EQ(tdm_product_launch(product, &args), TDM_OK) << tdm_last_error();
  args.workspace_bytes = 256;
  expectFailureSaying(tdm_product_launch(product, &args), TDM_INVALID_ARGUMENT,
                      "workspace_bytes is 256, and the first launch's way "
                      "takes 4096; pass as many as before");
}

TEST_F(StandInProduct, WhatIsNotThere) {
  const std::string library = std::getenv("TANDEM_CUBLASLT");
  setenv("TANDEM_CUBLASLT", "/nowhere/libcublasLt.so", 1);
  expectFailureSaying(create(), TDM_UNAVAILABLE, "there is no cuBLASLt: ");
  setenv("TANDEM_CUBLASLT", std::getenv("TANDEM_CUDA_DRIVER"), 1);
  expectFailureSaying(create(), TDM_UNAVAILABLE, "cuBLASLt has no cublasLt");
  // Use a new name for the same library.
  size_t slash = library.rfind('/');
  std::string again = library.substr(0, slash) + "/." + library.substr(slash);
  setenv("TANDEM_CUBLASLT", again.c_str(), 1);
  fake_cublaslt_set_version(110000);
  expectFailureSaying(create(), TDM_UNAVAILABLE,
                      "cuBLASLt has version 110000, and products of 8-bit "
                      "floats begin with 111103; update it");
  fake_cublaslt_set_version(120500);
  setenv("TANDEM_CUBLASLT", library.c_str(), 1);
}

TEST_F(StandInProduct, OlderGPUs) {
  tdm_device_close(device);
  fakecuda::setDevices(1, 80);
  SetUp();
  expectFailureSaying(create(), TDM_UNAVAILABLE,
                      "the GPU is an sm_80, and such products begin with "
                      "sm_89; use a framework's product");
  desc.x = desc.w = TDM_FACTOR_BF16;
  EXPECT_EQ(create(), TDM_OK) << tdm_last_error();
}
