//===- Products.cpp - Matrix products on a GPU ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the check and the measurement of matrix products of
// 8-bit floats and, for comparison, of bf16.
//
//===----------------------------------------------------------------------===//

#include "GPUCheck.h"
#include "tandem-runtime/tandem_product.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

using namespace gpucheck;

using Clock = std::chrono::steady_clock;

static constexpr size_t workspaceBytes = size_t(32) << 20;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static float bf16ToFloat(uint16_t half) {
  uint32_t word = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

/// Returns a random number with few bits and appends its code to \p bytes.
static double appendNumber(std::vector<uint8_t> &bytes, uint32_t factor,
                           std::mt19937 &random) {
  uint32_t word = random();
  int mantissaBits = factor == TDM_FACTOR_E5M2 ? 2 : 3;
  int mantissa = int(word % (1u << mantissaBits)),
      exponent = int(word >> 8) % 4;
  double value =
      std::ldexp(1.0 + std::ldexp(mantissa, -mantissaBits), exponent - 2);
  bool isNegative = word >> 31;
  if (factor == TDM_FACTOR_BF16) {
    int code = (125 + exponent) << 7 | mantissa << 4 | isNegative << 15;
    bytes.push_back(uint8_t(code));
    bytes.push_back(uint8_t(code >> 8));
  } else {
    int bias = factor == TDM_FACTOR_E5M2 ? 15 : 7;
    bytes.push_back(uint8_t((bias - 2 + exponent) << mantissaBits | mantissa |
                            isNegative << 7));
  }
  return isNegative ? -value : value;
}

namespace {
/// A tensor in the memory of a GPU.
class Memory {
public:
  Memory(tdm_device *device, size_t bytes) : device(device) {
    require(tdm_device_allocate(device, bytes, &data));
  }
  Memory(tdm_device *device, const void *from, size_t bytes)
      : Memory(device, bytes) {
    require(tdm_device_copy(device, data, from, bytes));
  }
  ~Memory() { tdm_device_free(device, data); }
  Memory(const Memory &) = delete;

  void *data = nullptr;

private:
  tdm_device *device;
};

/// A factor: its codes and their values.
struct Factor {
  Factor(uint32_t kind, int64_t count, uint32_t seed) {
    std::mt19937 random(seed);
    for (int64_t i = 0; i < count; ++i)
      values.push_back(appendNumber(bytes, kind, random));
  }
  std::vector<uint8_t> bytes;
  std::vector<double> values;
};
} // namespace

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static const float scales[] = {0.5f, 3.0f};

static tdm_product_desc describe(const ProductRow &row) {
  return {sizeof(tdm_product_desc),
          row.rows,
          row.columns,
          row.depth,
          row.x,
          row.w,
          /*bias=*/0,
          row.isFast};
}

/// Returns the allowed error of an element, relative to the sum of its
/// products' magnitudes. Tensor cores for 8-bit floats (Ada's and Hopper's)
/// align 16 or 32 products and the sum so far to the largest of them and
/// truncate each at 13 bits below it. That sum is added to one in f32 after at
/// most 128 products, or at the end with fast accumulation. A truncation loses
/// less than 2^-13 of the largest, and with random signs most of the loss
/// cancels: mmaemu, a bit-exact model of these sums, loses at most 2^-12.6 with
/// such factors and depths of 64 to 4096, and 2^-12.3 with fast accumulation at
/// the depth below. A third of the elements lose more than f32's 2^-18.
static double lossOf(const ProductRow &row) {
  return row.x == TDM_FACTOR_BF16 ? 0x1p-18 : 0x1p-12;
}

namespace {
/// An element in f64, and the sum of its products' magnitudes.
struct Element {
  Element(const ProductRow &row, const double *x, const double *w) {
    double scale =
        row.x == TDM_FACTOR_BF16 ? 1.0 : double(scales[0]) * scales[1];
    for (int64_t k = 0; k < row.depth; ++k) {
      double product = scale * x[k] * w[k];
      value += product;
      magnitude += std::abs(product);
    }
  }
  double value = 0, magnitude = 0;
};

/// The largest error of an element, relative to the allowed error of its sum
/// and of bf16, and the common relative error of all elements, in which
/// rounding errors cancel.
struct Errors {
  double worst = 0, ofAll = 0;
};
} // namespace

static Errors errorsOf(const ProductRow &row, const Factor &x, const Factor &w,
                       const std::vector<uint16_t> &y) {
  double worst = 0, products = 0, squares = 0;
  for (int64_t i = 0; i < row.rows; ++i)
    for (int64_t j = 0; j < row.columns; ++j) {
      Element element(row, &x.values[i * row.depth], &w.values[j * row.depth]);
      double error = bf16ToFloat(y[i * row.columns + j]) - element.value;
      double allowed =
          std::abs(element.value) * 0x1p-8 + element.magnitude * lossOf(row);
      worst = std::max(worst, std::abs(error) / std::max(allowed, 1e-30));
      products += error * element.value;
      squares += element.value * element.value;
    }
  return {worst, products / squares};
}

static std::string judge(const Errors &errors) {
  if (!(errors.worst <= 1))
    return "an element is off by " + std::to_string(errors.worst) +
           " of what is allowed";
  // No single element may reveal a scale that is off by 2^-9.
  if (!(std::abs(errors.ofAll) <= 0x1p-10))
    return "all elements are off by a factor of " +
           std::to_string(1 + errors.ofAll);
  return "right";
}

static void checkProduct(tdm_device *gpu, ProductRow &row) {
  Factor x(row.x, row.rows * row.depth, 1),
      w(row.w, row.columns * row.depth, 2);
  Memory onX(gpu, x.bytes.data(), x.bytes.size());
  Memory onW(gpu, w.bytes.data(), w.bytes.size());
  Memory onScales(gpu, scales, sizeof(scales));
  std::vector<uint16_t> y(row.rows * row.columns);
  Memory onY(gpu, 2 * y.size()), workspace(gpu, workspaceBytes);
  tdm_product_desc desc = describe(row);
  tdm_product *product = nullptr;
  tdm_status status = tdm_product_create(gpu, &desc, &product);
  if (!status) {
    auto *scale = static_cast<const float *>(onScales.data);
    bool isNarrow = row.x != TDM_FACTOR_BF16;
    tdm_product_args args = {sizeof(args),
                             nullptr,
                             onX.data,
                             onW.data,
                             isNarrow ? scale : nullptr,
                             isNarrow ? scale + 1 : nullptr,
                             nullptr,
                             onY.data,
                             workspace.data,
                             workspaceBytes};
    status = tdm_product_launch(product, &args);
  }
  if (status)
    row.verdict = tdm_last_error();
  tdm_product_destroy(product);
  if (status)
    return;
  require(tdm_device_copy(gpu, y.data(), onY.data, 2 * y.size()));
  row.verdict = judge(errorsOf(row, x, w, y));
}

static void timeProduct(tdm_device *gpu, ProductRow &row) {
  size_t width = row.x == TDM_FACTOR_BF16 ? 2 : 1;
  Memory x(gpu, row.rows * row.depth * width);
  Memory w(gpu, row.columns * row.depth * width);
  Memory onScales(gpu, scales, sizeof(scales));
  Memory y(gpu, 2 * row.rows * row.columns), workspace(gpu, workspaceBytes);
  tdm_product_desc desc = describe(row);
  tdm_product *product = nullptr;
  require(tdm_product_create(gpu, &desc, &product));
  auto *scale = static_cast<const float *>(onScales.data);
  const float *given = width == 1 ? scale : nullptr;
  tdm_product_args args = {sizeof(args),   nullptr,       x.data,  w.data,
                           given,          given,         nullptr, y.data,
                           workspace.data, workspaceBytes};
  auto run = [&](int count) {
    Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i)
      require(tdm_product_launch(product, &args));
    require(tdm_device_synchronize(gpu));
    std::chrono::duration<double> seconds = Clock::now() - start;
    return seconds.count() / count;
  };
  run(2);
  std::vector<double> seconds = {run(10), run(10), run(10)};
  std::sort(seconds.begin(), seconds.end());
  row.milliseconds = seconds[1] * 1e3;
  row.teraflops = 2e-12 * double(row.rows) * double(row.columns) *
                  double(row.depth) / seconds[1];
  tdm_product_destroy(product);
}

void gpucheck::measureProducts(
    tdm_device *gpu, int64_t width,
    const std::function<void(const ProductRow &)> &report) {
  std::vector<ProductRow> rows = {
      {"bf16 by bf16", TDM_FACTOR_BF16, TDM_FACTOR_BF16, false},
      {"E4M3 by E4M3", TDM_FACTOR_E4M3, TDM_FACTOR_E4M3, false},
      {"E4M3 by E4M3, fast sums", TDM_FACTOR_E4M3, TDM_FACTOR_E4M3, true},
      {"E5M2 by E4M3", TDM_FACTOR_E5M2, TDM_FACTOR_E4M3, false}};
  for (ProductRow &row : rows) {
    try {
      row.rows = 96;
      row.columns = 64;
      row.depth = 160;
      checkProduct(gpu, row);
      if (row.verdict == "right") {
        row.rows = 2 * width;
        row.columns = row.depth = width;
        timeProduct(gpu, row);
      }
    } catch (const Error &error) {
      row.verdict +=
          (row.verdict.empty() ? "" : "; ") + std::string(error.what());
    }
    report(row);
  }
}
