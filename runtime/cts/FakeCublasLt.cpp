//===- FakeCublasLt.cpp - cuBLASLt without a GPU --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the functions of cuBLASLt that the runtime uses, on the
// streams of the stand-in driver. They check how they are called, and compute
// on the host in f64 from the bits of 8-bit floats. The device's memory is
// inaccessible except while a stream's work runs.
//
//===----------------------------------------------------------------------===//

#include "FakeCublasLt.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

// NOLINTBEGIN(readability-identifier-naming): the library's names.

#define EXPORT extern "C" FAKE_CUDA_API

namespace {
enum Status { success = 0, invalidValue = 7, notSupported = 15 };
enum Type { f32 = 0, bf16 = 14, e4m3 = 28, e5m2 = 29 };
enum Attribute {
  transA = 3,
  transB = 4,
  epilogue = 7,
  biasPointer = 8,
  aScale = 17,
  bScale = 18,
  fastAccumulation = 25,
  biasType = 26
};

struct Desc {
  int compute, scale;
  std::map<int, uint64_t> attributes;
  uint64_t get(int attribute) const {
    auto found = attributes.find(attribute);
    return found == attributes.end() ? 0 : found->second;
  }
};

/// A column-major matrix.
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t stride;
};

struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspaceBytes;
  int state;
  float wavesCount;
  int reserved[4];
};

/// A product that is computed when its stream reaches it.
struct Job {
  Layout a, b, d;
  const uint8_t *aData, *bData;
  const float *aScale, *bScale;
  const uint16_t *bias;
  uint16_t *dData;
  uint8_t *workspace;
};

constexpr uint64_t magic = 0x7461'6E64'656D;
constexpr size_t needed = 4096;
} // namespace

static std::mutex mutex;
static size_t version = 120500;
static long living = 0, products = 0, fast = 0;
static std::deque<Job> jobs;
static std::string violations;

static int refuse(const char *what) {
  std::lock_guard<std::mutex> lock(mutex);
  violations += std::string(what) + "\n";
  return invalidValue;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static double decode8(uint8_t code, int mantissaBits, int bias) {
  int magnitude = code & 127, exponent = magnitude >> mantissaBits;
  int mantissa = magnitude & ((1 << mantissaBits) - 1);
  bool isTop = exponent == (127 >> mantissaBits);
  double value;
  if (mantissaBits == 2 && isTop)
    value = mantissa ? NAN : INFINITY;
  else if (mantissaBits == 3 && magnitude == 127)
    value = NAN;
  else
    value = std::ldexp(mantissa + (exponent ? 1 << mantissaBits : 0),
                       std::max(exponent, 1) - bias - mantissaBits);
  return code & 128 ? -value : value;
}

static double decodeBF16(uint16_t half) {
  uint32_t word = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

static double element(const uint8_t *data, const Layout &layout, uint64_t row,
                      uint64_t column) {
  uint64_t at = column * uint64_t(layout.stride) + row;
  if (layout.type == e4m3)
    return decode8(data[at], 3, 7);
  if (layout.type == e5m2)
    return decode8(data[at], 2, 15);
  uint16_t half;
  std::memcpy(&half, data + 2 * at, sizeof(half));
  return decodeBF16(half);
}

static uint16_t roundToBF16(double value) {
  float narrow = static_cast<float>(value);
  uint32_t word;
  std::memcpy(&word, &narrow, sizeof(word));
  if (std::isnan(narrow))
    return 0x7FC0;
  return static_cast<uint16_t>((word + 0x7FFF + (word >> 16 & 1)) >> 16);
}

static void compute(const Job &job) {
  std::memset(job.workspace, 0xEE, needed);
  double scale = job.aScale ? double(*job.aScale) * *job.bScale : 1.0;
  for (uint64_t i = 0; i < job.d.rows; ++i)
    for (uint64_t j = 0; j < job.d.columns; ++j) {
      double sum = 0;
      for (uint64_t k = 0; k < job.a.rows; ++k)
        sum +=
            element(job.aData, job.a, k, i) * element(job.bData, job.b, k, j);
      sum = sum * scale + (job.bias ? decodeBF16(job.bias[i]) : 0.0);
      job.dData[j * uint64_t(job.d.stride) + i] = roundToBF16(sum);
    }
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static int widthOf(int type) { return type == bf16 ? 2 : 1; }

static bool isMatrix(const Layout &layout, const void *data) {
  return layout.stride >= int64_t(layout.rows) &&
         layout.stride * widthOf(layout.type) % 16 == 0 && data &&
         reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

/// Checks that cuBLASLt supports a product of these types.
static const char *checkKinds(const Desc &desc, const Layout &a,
                              const Layout &b, const Layout &d) {
  bool isNarrow = a.type != bf16;
  if (desc.compute != 68 || desc.scale != f32)
    return "sums and scales are not f32";
  if (isNarrow && (desc.get(transA) != 1 || desc.get(transB) != 0))
    return "8-bit floats take the first factor transposed, alone";
  if ((a.type == bf16) != (b.type == bf16) || d.type != bf16)
    return "types do not go together";
  if (a.rows != b.rows || d.rows != a.columns || d.columns != b.columns)
    return "sizes do not go together";
  if (isNarrow && (a.rows % 16 || d.rows % 16))
    return "sizes are not multiples of 16";
  if (desc.get(fastAccumulation) && !isNarrow)
    return "fast sums are of 8-bit floats";
  return nullptr;
}

static const char *checkPointers(const Desc &desc, const Layout &a) {
  bool isNarrow = a.type != bf16;
  for (int attribute : {aScale, bScale}) {
    auto *scale = reinterpret_cast<const float *>(desc.get(attribute));
    if (isNarrow != (scale != nullptr))
      return "a scale is missing, or too many";
  }
  bool hasBias = desc.get(epilogue) == 4;
  if (!hasBias)
    return desc.get(biasPointer) ? "a bias is not asked for" : nullptr;
  if (desc.get(biasType) != bf16)
    return "the bias is not bf16";
  return desc.get(biasPointer) ? nullptr : "the bias is missing";
}

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

EXPORT size_t cublasLtGetVersion() { return version; }
EXPORT const char *cublasLtGetStatusString(int status) {
  return status == notSupported   ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == invalidValue ? "CUBLAS_STATUS_INVALID_VALUE"
                                  : nullptr;
}

template <typename T>
static int make(T **made, T value) {
  std::lock_guard<std::mutex> lock(mutex);
  ++living;
  *made = new T(std::move(value));
  return success;
}

template <typename T>
static int unmake(T *made) {
  std::lock_guard<std::mutex> lock(mutex);
  --living;
  delete made;
  return success;
}

EXPORT int cublasLtCreate(int **handle) { return make(handle, 0); }
EXPORT int cublasLtDestroy(int *handle) { return unmake(handle); }

EXPORT int cublasLtMatmulDescCreate(Desc **desc, int compute, int scale) {
  return make(desc, Desc{compute, scale, {}});
}
EXPORT int cublasLtMatmulDescDestroy(Desc *desc) { return unmake(desc); }

EXPORT int cublasLtMatmulDescSetAttribute(Desc *desc, int attribute,
                                          const void *value, size_t bytes) {
  bool isPointer =
      attribute == biasPointer || attribute == aScale || attribute == bScale;
  size_t size = isPointer ? 8 : attribute == fastAccumulation ? 1 : 4;
  if (bytes != size)
    return refuse("an attribute has another size");
  uint64_t word = 0;
  std::memcpy(&word, value, bytes);
  desc->attributes[attribute] = word;
  return success;
}

EXPORT int cublasLtMatrixLayoutCreate(Layout **layout, int type, uint64_t rows,
                                      uint64_t columns, int64_t stride) {
  return make(layout, Layout{type, rows, columns, stride});
}
EXPORT int cublasLtMatrixLayoutDestroy(Layout *layout) {
  return unmake(layout);
}

using Preference = std::map<int, uint64_t>;
EXPORT int cublasLtMatmulPreferenceCreate(Preference **preference) {
  return make(preference, Preference());
}
EXPORT int cublasLtMatmulPreferenceDestroy(Preference *preference) {
  return unmake(preference);
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(Preference *preference,
                                                int attribute,
                                                const void *value,
                                                size_t bytes) {
  if (bytes != (attribute == 1 ? 8 : 4))
    return refuse("a preference has another size");
  uint64_t word = 0;
  std::memcpy(&word, value, bytes);
  (*preference)[attribute] = word;
  return success;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(int *, Desc *desc, Layout *a,
                                          Layout *b, Layout *, Layout *d,
                                          Preference *preference, int wanted,
                                          HeuristicResult *results,
                                          int *count) {
  *count = 0;
  bool isBothRange = a->type == e5m2 && b->type == e5m2;
  if (isBothRange || (*preference)[1] < needed)
    return notSupported;
  for (int alignment : {5, 6, 7, 8})
    if ((*preference)[alignment] > 16)
      return refuse("tensors are not that aligned");
  if (const char *problem = checkKinds(*desc, *a, *b, *d))
    return refuse(problem);
  if (wanted < 1)
    return refuse("no algorithm is asked for");
  results[0] = {};
  results[0].algorithm.data[0] = magic;
  results[0].algorithm.data[7] = uint64_t(a->type) << 32 | uint64_t(b->type);
  results[0].workspaceBytes = needed;
  *count = 1;
  return success;
}

static void run(int64_t number) {
  const Job *job;
  {
    std::lock_guard<std::mutex> lock(mutex);
    job = &jobs[size_t(number)];
    ++products;
  }
  compute(*job);
}

static const char *checkCall(const Algorithm &algorithm, const Layout &a,
                             const Layout &b, const void *workspace,
                             size_t bytes) {
  if (algorithm.data[0] != magic ||
      algorithm.data[7] != (uint64_t(a.type) << 32 | uint64_t(b.type)))
    return "the algorithm is another product's";
  if (bytes < needed || !workspace ||
      reinterpret_cast<uintptr_t>(workspace) % 256)
    return "there is too little workspace";
  return nullptr;
}

EXPORT int cublasLtMatmul(int *handle, Desc *desc, const float *alpha,
                          const void *aData, Layout *a, const void *bData,
                          Layout *b, const float *beta, const void *cData,
                          Layout *, void *dData, Layout *d,
                          const Algorithm *algorithm, void *workspace,
                          size_t bytes, void *stream) {
  if (!handle || *alpha != 1.0f || *beta != 0.0f || cData != dData)
    return refuse("it is not a plain product");
  for (const char *problem :
       {checkKinds(*desc, *a, *b, *d), checkPointers(*desc, *a),
        checkCall(*algorithm, *a, *b, workspace, bytes)})
    if (problem)
      return refuse(problem);
  if (!isMatrix(*a, aData) || !isMatrix(*b, bData) || !isMatrix(*d, dData))
    return refuse("a matrix is not aligned");
  int64_t number;
  {
    std::lock_guard<std::mutex> lock(mutex);
    fast += desc->get(fastAccumulation) != 0;
    number = int64_t(jobs.size());
    jobs.push_back({*a, *b, *d, static_cast<const uint8_t *>(aData),
                    static_cast<const uint8_t *>(bData),
                    reinterpret_cast<const float *>(desc->get(aScale)),
                    reinterpret_cast<const float *>(desc->get(bScale)),
                    reinterpret_cast<const uint16_t *>(desc->get(biasPointer)),
                    static_cast<uint16_t *>(dData),
                    static_cast<uint8_t *>(workspace)});
  }
  fake_cuda_enqueue(stream, run, number);
  return success;
}

// NOLINTEND(readability-identifier-naming)

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void fake_cublaslt_set_version(size_t number) { version = number; }
const char *fake_cublaslt_violations() {
  static thread_local std::string answer;
  std::lock_guard<std::mutex> lock(mutex);
  answer = std::move(violations);
  violations.clear();
  return answer.c_str();
}
long fake_cublaslt_living() { return living; }
long fake_cublaslt_products() { return products; }
long fake_cublaslt_fast() { return fast; }
