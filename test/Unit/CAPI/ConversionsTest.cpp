//===- ConversionsTest.cpp - Tests of kernels without a graph -------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests conversions, sums of codes and checks of gradients through
// the C API.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Tandem.h"
#include "tandem-runtime/tandem_runtime.h"
#include "llvm/ADT/StringRef.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

//===----------------------------------------------------------------------===//
// A host
//===----------------------------------------------------------------------===//

static constexpr const char *e4m3 = "#tandem.scaled<#scaled.float<f8E4M3FN>, "
                                    "group = tensor, scale = f32>";
static constexpr const char *given =
    "#tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, "
    "recipe = given>";
static constexpr const char *delayed =
    "#tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, "
    "history = 4>";
static constexpr const char *rows =
    "#tandem.scaled<#scaled.float<f8E4M3FN>, group = row, scale = f32>";

namespace {
struct KernelDeleter {
  void operator()(TandemKernel *kernel) { tandemKernelDestroy(kernel); }
};
using Kernel = std::unique_ptr<TandemKernel, KernelDeleter>;

/// A function that takes the addresses of a kernel's planes.
class Launch {
public:
  Launch(const Kernel &kernel, std::vector<void *> planes, int64_t columns,
         int64_t rows = 1) {
    handle = tandemKernelCreateRuntimeKernel(kernel.get(), nullptr);
    tdm_tensor tensor = {rows, columns, 0, 0, 0, planes.data()};
    EXPECT_EQ(tdm_plan_create(handle, &tensor, 1, &plan), TDM_OK)
        << tdm_last_error();
    tdm_launch_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(tdm_plan_launch(plan, nullptr, nullptr, 1, 1, &info), TDM_OK)
        << tdm_last_error();
    flags = info.flags;
  }
  ~Launch() {
    tdm_plan_destroy(plan);
    tdm_kernel_destroy(handle);
  }

  double getMetric() {
    double metric = -1.0;
    EXPECT_EQ(tdm_plan_metrics(plan, 0, &metric, 1), TDM_OK)
        << tdm_last_error();
    return metric;
  }

  uint32_t flags = 0;

private:
  tdm_kernel *handle = nullptr;
  tdm_plan *plan = nullptr;
};

/// A compiled conversion.
struct Conversion {
  Conversion(const char *source, const char *target,
             TandemConversionOptions options = {}) {
    options.source = source;
    options.target = target;
    isDone = tandemCompileConversion(&options, &conversion);
    kernel.reset(conversion.kernel);
    if (!isDone)
      error = tandemGetLastError();
  }

  bool isCopy() const { return isDone && !kernel; }

  bool isDone = false;
  TandemConversion conversion = {nullptr, 0, 0, 0};
  Kernel kernel;
  std::string error;
};
} // namespace

static TandemConversionOptions fresh() {
  TandemConversionOptions options = {};
  options.isFresh = true;
  return options;
}

static TandemConversionOptions matrix() {
  TandemConversionOptions options = {};
  options.isMatrix = true;
  return options;
}

/// Converts bf16 bits to a float.
static float widen(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

TEST(ConversionsTest, CopiesWhatIsStoredAlike) {
  EXPECT_TRUE(Conversion(e4m3, e4m3).isCopy());
  // Sums of planes of one format may differ in length.
  EXPECT_TRUE(
      Conversion("#tandem.expansion<bf16 x 2>", "#tandem.expansion<bf16 x 3>")
          .isCopy());
  EXPECT_TRUE(
      Conversion("#tandem.kahan<bf16>", "#tandem.float<bf16>").isCopy());
}

TEST(ConversionsTest, RoundsToNearest) {
  // A storage that rounds by random bits is converted like one that rounds to
  // nearest.
  const char *pairs[][2] = {
      {"#tandem.float<bf16, dither>", "#tandem.float<bf16>"},
      {"#tandem.residual<bf16, i8, stochastic>", "#tandem.residual<bf16, i8>"},
      {"#tandem.coded<#scaled.float<f8E4M3FN, dither>>",
       "#tandem.coded<#scaled.float<f8E4M3FN>>"},
      {"#tandem.coded<#scaled.pair<f8E5M2, dither>>",
       "#tandem.coded<#scaled.pair<f8E5M2>>"},
      {"#tandem.coded<#scaled.minifloat<exponent = 4, mantissa = 2, rounding = "
       "stochastic>>",
       "#tandem.coded<#scaled.minifloat<exponent = 4, mantissa = 2>>"},
      {"#tandem.coded<#scaled.softsign<dither>>",
       "#tandem.coded<#scaled.softsign>"},
      {"#tandem.coded<#scaled.root<stochastic>>",
       "#tandem.coded<#scaled.root>"},
      {"#tandem.coded<#scaled.dynamic<signed, dither>>",
       "#tandem.coded<#scaled.dynamic<signed>>"},
      {"#tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range "
       "= 229376.0>, group = 128, scale = f32>",
       "#tandem.scaled<#scaled.expanded<f8E4M3FN, range = 229376.0>, group = "
       "128, scale = f32>"},
      {"#tandem.working<bf16, #tandem.coded<#scaled.softsign<dither>>>",
       "#tandem.working<bf16, #tandem.coded<#scaled.softsign>>"}};
  for (auto &[drawing, nearest] : pairs) {
    EXPECT_TRUE(Conversion(drawing, nearest).isCopy()) << drawing;
    EXPECT_TRUE(Conversion(nearest, drawing).isCopy()) << drawing;
  }
  // A storage that rounds toward zero uses no random bits and keeps its
  // rounding.
  const char *truncated = "#tandem.coded<#scaled.minifloat<exponent = 4, "
                          "mantissa = 2, rounding = toward_zero>>";
  EXPECT_FALSE(Conversion(truncated, pairs[4][1]).isCopy());
  EXPECT_TRUE(Conversion(truncated, truncated).isCopy());
}

TEST(ConversionsTest, CarriesSumsExactly) {
  Conversion conversion("#tandem.float<f32>", "#tandem.expansion<bf16 x 3>");
  ASSERT_TRUE(conversion.isDone) << conversion.error;
  EXPECT_EQ(conversion.conversion.numWritten, 3);
  EXPECT_EQ(conversion.conversion.numRead, 1);
  EXPECT_EQ(conversion.conversion.numLaunches, 1);
  float infinity = std::numeric_limits<float>::infinity();
  float from[3] = {0x1.abcdeep3f, -0x1.fffffep-3f, infinity};
  uint16_t to[3][3] = {};
  Launch(conversion.kernel, {to[0], to[1], to[2], from}, 3);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(widen(to[0][i]) + (widen(to[1][i]) + widen(to[2][i])), from[i]);
  // The planes that follow an infinity are zero.
  EXPECT_EQ(widen(to[0][2]), infinity);
  EXPECT_EQ(to[1][2], 0);
  EXPECT_EQ(to[2][2], 0);
}

TEST(ConversionsTest, ReadsThePlanesOfTheF32Value) {
  Conversion wide("#tandem.expansion<f32 x 2>", e4m3);
  EXPECT_EQ(wide.conversion.numRead, 1);
  EXPECT_EQ(wide.conversion.numWritten, 2);
  Conversion back(e4m3, "#tandem.expansion<f32 x 2>");
  EXPECT_EQ(back.conversion.numWritten, 1);
  Conversion kahan("#tandem.kahan<bf16>", e4m3);
  EXPECT_EQ(kahan.conversion.numRead, 2);
}

TEST(ConversionsTest, Adds) {
  TandemConversionOptions options = {};
  options.adds = true;
  Conversion conversion("#tandem.float<f32>", "#tandem.float<f32>", options);
  ASSERT_TRUE(conversion.isDone) << conversion.error;
  float from[2] = {1.0f, 0x1p-24f}, to[2] = {2.0f, 1.0f};
  Launch(conversion.kernel, {to, from}, 2);
  EXPECT_EQ(to[0], 3.0f);
  EXPECT_EQ(to[1], 1.0f); // // a tie goes to the even number
}

TEST(ConversionsTest, KeepsSecondMomentsPositive) {
  TandemConversionOptions options = {};
  float from[1] = {0x1p-149f};
  for (bool hasFloor : {false, true}) {
    options.hasFloor = hasFloor;
    Conversion conversion("#tandem.float<f32>", "#tandem.float<bf16>", options);
    ASSERT_TRUE(conversion.isDone) << conversion.error;
    uint16_t to[1] = {7};
    Launch(conversion.kernel, {to, from}, 1);
    EXPECT_EQ(to[0], hasFloor ? 1 : 0);
  }
}

TEST(ConversionsTest, MakesScalesOfNewMemory) {
  auto writesScale = [](const Conversion &conversion) {
    const tdm_plane_desc &plane =
        tandemKernelGetInfo(conversion.kernel.get())->desc->planes[1];
    EXPECT_STREQ(plane.name, "to0.scale");
    return (plane.access & TDM_ACCESS_WRITE) != 0;
  };
  EXPECT_FALSE(writesScale(Conversion("#tandem.float<f32>", given)));
  EXPECT_TRUE(writesScale(Conversion("#tandem.float<f32>", given, fresh())));
}

TEST(ConversionsTest, MakesHistoriesOfNewMemory) {
  Conversion old("#tandem.float<f32>", delayed);
  EXPECT_EQ(old.conversion.numLaunches, 1);
  Conversion made("#tandem.float<f32>", delayed, fresh());
  ASSERT_EQ(made.conversion.numLaunches, 2);
  EXPECT_EQ(made.conversion.numWritten, 4);
  float from[2] = {448.0f * 8, -2.0f}, scale = 0, next = 0, history[4] = {};
  uint8_t to[2] = {};
  for (int i = 0; i < made.conversion.numLaunches; ++i)
    Launch(made.kernel, {to, &scale, &next, history, from}, 2);
  EXPECT_EQ(scale, 8.0f);
  EXPECT_EQ(to[0], 0x7E); // 448
}

TEST(ConversionsTest, TakesMatrices) {
  Conversion conversion("#tandem.float<f32>", rows, matrix());
  ASSERT_TRUE(conversion.isDone) << conversion.error;
  EXPECT_TRUE(tandemKernelGetInfo(conversion.kernel.get())->desc->matrix);
  float from[4] = {448.0f, 1.0f, 896.0f, 2.0f}, scales[2] = {};
  uint8_t to[4] = {};
  Launch(conversion.kernel, {to, scales, from}, 2, 2);
  EXPECT_EQ(scales[0], 1.0f);
  EXPECT_EQ(scales[1], 2.0f);
  EXPECT_EQ(to[0], to[2]);
  // Without groups, the kernel treats all elements alike.
  Conversion sums("#tandem.float<f32>", "#tandem.float<bf16>", matrix());
  EXPECT_FALSE(tandemKernelGetInfo(sums.kernel.get())->desc->matrix);
}

TEST(ConversionsTest, CompilesForChips) {
  TandemConversionOptions options = {};
  options.chip = "sm_90";
  Conversion conversion("#tandem.float<f32>", e4m3, options);
  ASSERT_TRUE(conversion.isDone) << conversion.error;
  const tdm_image *image = tandemKernelGetImage(conversion.kernel.get());
  ASSERT_NE(image, nullptr);
  llvm::StringRef ptx(static_cast<const char *>(image->data), image->size);
  EXPECT_TRUE(ptx.contains(".entry tandem_convert"));
}

//===----------------------------------------------------------------------===//
// Errors of conversions
//===----------------------------------------------------------------------===//

TEST(ConversionsTest, RefusesWhatIsNoStorage) {
  const char *f32 = "#tandem.float<f32>";
  EXPECT_EQ(Conversion("1 : i32", f32).error,
            "cannot read storage '1 : i32': it is not a storage; storages are "
            "attributes such as #tandem.float<bf16>, got 1 : i32");
  EXPECT_EQ(Conversion(f32, nullptr).error,
            "cannot read storage '': expected attribute value");
  EXPECT_EQ(Conversion(f32, "#tandem.float<i8>").error,
            "cannot read storage '#tandem.float<i8>': a stored float is bf16, "
            "f16, f32, f8E4M3FN or f8E5M2, got 'i8'");
  EXPECT_TRUE(llvm::StringRef(Conversion(f32, "#tandem.float<f32> x").error)
                  .starts_with("cannot read storage '#tandem.float<f32> x': "));
  std::string nested = std::string(1000, '<');
  EXPECT_EQ(Conversion(nested.c_str(), f32).error,
            "cannot read storage '" + nested +
                "': expected no more than 256 brackets within each other");
}

TEST(ConversionsTest, LeavesTheResultOfAFailure) {
  TandemConversionOptions options = {};
  options.source = options.target = "nothing";
  TandemConversion conversion = {nullptr, 5, 6, 7};
  EXPECT_FALSE(tandemCompileConversion(&options, &conversion));
  EXPECT_EQ(conversion.numWritten, 5);
  EXPECT_EQ(conversion.numLaunches, 7);
}

TEST(ConversionsTest, RefusesRowsOfFlatTensors) {
  EXPECT_EQ(Conversion("#tandem.float<f32>", rows).error,
            std::string(rows) +
                " has a scale for each row or block of a matrix; convert the "
                "tensors as matrices");
}

TEST(ConversionsTest, RefusesBlocksOfTwoSizes) {
  EXPECT_EQ(
      Conversion("#tandem.scaled<#scaled.softsign, group = 64x64, scale = f32>",
                 "#tandem.scaled<#scaled.root, group = 128x128, scale = f32>",
                 matrix())
          .error,
      "#tandem.scaled<#scaled.softsign, group = 64x64, scale = f32> has blocks "
      "of 64 rows beside blocks of 128; convert to #tandem.float<f32> between "
      "them");
}

TEST(ConversionsTest, RefusesTransposedCopies) {
  const char *copied = "#tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor,"
                       " scale = f32, transposed = true>";
  EXPECT_EQ(Conversion("#tandem.float<f32>", copied, matrix()).error,
            std::string(copied) +
                " has a transposed copy, which only a layer's pass writes; "
                "leave out transposed = true");
}

TEST(ConversionsTest, RefusesUnknownChips) {
  TandemConversionOptions options = {};
  options.chip = "sm_1";
  EXPECT_TRUE(
      llvm::StringRef(Conversion(e4m3, "#tandem.float<f32>", options).error)
          .starts_with("unknown target 'sm_1'; expected cpu; x86-64"));
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

static Kernel compileSum(std::vector<const char *> sources, const char *target,
                         const char *chip = nullptr) {
  return Kernel(tandemCompileSum(sources.data(), sources.size(), target, chip));
}

/// Returns the error message for a sum that cannot be compiled.
static std::string getError(std::vector<const char *> sources,
                            const char *target, const char *chip = nullptr) {
  EXPECT_FALSE(compileSum(std::move(sources), target, chip));
  return tandemGetLastError();
}

TEST(SumsTest, AddsUpAndCountsSaturation) {
  Kernel kernel = compileSum({given, "#tandem.float<f32>"}, given);
  ASSERT_TRUE(kernel) << tandemGetLastError();
  float scale = 1.0f, theirs = 2.0f, added[3] = {1.0f, 447.0f, 0.0f};
  uint8_t to[3] = {}, from[3] = {0x38, 0x38, 0x38}; // 1, times 2
  Launch launch(kernel, {to, &scale, from, &theirs, added}, 3);
  EXPECT_EQ(to[0], 0x44); // 3
  EXPECT_EQ(to[1], 0x7E); // 448, not 449
  EXPECT_EQ(to[2], 0x40); // 2
  EXPECT_EQ(launch.getMetric(), 1.0);
}

TEST(SumsTest, RefusesWhatIsNoSum) {
  EXPECT_EQ(getError({}, given),
            "a sum has no sources; give the storage of one at least");
  EXPECT_EQ(getError({given}, "#tandem.float<f32>"),
            "'tandem.saturation' op #tandem.float<f32> has no codes that could "
            "saturate; use #tandem.scaled or #tandem.coded");
  EXPECT_EQ(getError({"x"}, given),
            "cannot read storage 'x': expected attribute value");
  EXPECT_EQ(getError({given}, "x"),
            "cannot read storage 'x': expected attribute value");
  EXPECT_EQ(getError({rows}, given),
            std::string(rows) +
                " has a scale for each row or block of a matrix; convert the "
                "tensors as matrices");
  EXPECT_TRUE(llvm::StringRef(getError({given}, given, "gpu"))
                  .starts_with("unknown target 'gpu'"));
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static Kernel compile(const char *graph, const char *strategy) {
  TandemCompileOptions options = {};
  options.graph = graph;
  options.strategy = strategy;
  return Kernel(tandemCompile(&options));
}

TEST(ChecksTest, FindsGradientsThatAreNotFinite) {
  Kernel kernel = compile("sgd", "bf16");
  ASSERT_EQ(tandemKernelGetNumCheckedPlanes(kernel.get()), 1);
  intptr_t checked = tandemKernelGetCheckedPlane(kernel.get(), 0);
  const tdm_kernel_desc &desc = *tandemKernelGetInfo(kernel.get())->desc;
  EXPECT_STREQ(desc.planes[checked].name, "grad");
  Kernel check(tandemKernelCompileFiniteCheck(kernel.get()));
  ASSERT_TRUE(check) << tandemGetLastError();
  uint16_t grad[3] = {0x3F80, 0x7F7F, 0x8000};
  EXPECT_EQ(Launch(check, {grad}, 3).flags, 0u);
  for (uint16_t bits : {0x7F80, 0xFF80, 0x7FC0}) {
    grad[1] = bits;
    EXPECT_EQ(Launch(check, {grad}, 3).flags, TDM_FLAG_NON_FINITE);
  }
}

TEST(ChecksTest, RefusesIntegerCodes) {
  Kernel kernel = compile(
      "tandem.kernel @codes compute(<f32, f32>) tensors [#tandem.role<state "
      "\"s\">, #tandem.role<grad \"g\">] scalars [] prologue {\n"
      "  tandem.yield\n} body {\n"
      "^bb0(%s: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %g: "
      "!tandem.stored<tensor<?xf32>, #tandem.coded<#scaled.softsign>>):\n"
      "  %x = tandem.load %g : !tandem.stored<tensor<?xf32>, "
      "#tandem.coded<#scaled.softsign>> -> f32\n"
      "  tandem.store %x, %s : f32, !tandem.stored<tensor<?xf32>, "
      "#tandem.float<f32>>\n"
      "  tandem.yield\n}\n",
      nullptr);
  ASSERT_TRUE(kernel) << tandemGetLastError();
  EXPECT_EQ(tandemKernelGetNumCheckedPlanes(kernel.get()), 0);
  EXPECT_FALSE(Kernel(tandemKernelCompileFiniteCheck(kernel.get())));
  EXPECT_STREQ(tandemGetLastError(),
               "codes has no gradients in floats, the only ones that can hold "
               "NaN; run it without a check");
}
