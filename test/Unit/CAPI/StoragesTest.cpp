//===- StoragesTest.cpp - Tests of storages in the C API ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what a C host can query about storages and the tensors of a
// kernel.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Tandem.h"
#include "gtest/gtest.h"
#include <memory>
#include <string>

namespace {
struct StorageDeleter {
  void operator()(TandemStorage *storage) { tandemStorageDestroy(storage); }
};
using Storage = std::unique_ptr<TandemStorage, StorageDeleter>;
} // namespace

static Storage parse(const std::string &text) {
  Storage storage(tandemStorageParse(text.c_str()));
  EXPECT_TRUE(storage) << tandemGetLastError();
  return storage;
}

/// Returns "#tandem.scaled<code, group = 128, scale = f32...>".
static std::string scaled(const std::string &code, const std::string &group,
                          const std::string &rest = "scale = f32") {
  return "#tandem.scaled<" + code + ", group = " + group + ", " + rest + ">";
}

static const std::string e4m3 = "#scaled.float<f8E4M3FN>";

TEST(StoragesTest, HasPlanes) {
  Storage storage =
      parse("#tandem.working<bf16, " +
            scaled(e4m3, "tensor", "scale = f32, history = 4") + ">");
  ASSERT_EQ(tandemStorageGetNumPlanes(storage.get()), 5);
  const char *names[] = {".working", "", ".scale", ".next_scale", ".history"};
  for (int i = 0; i < 5; ++i)
    EXPECT_STREQ(tandemStorageGetPlane(storage.get(), i)->name, names[i]);
  const tdm_plane_desc &copy = *tandemStorageGetPlane(storage.get(), 0);
  EXPECT_TRUE(copy.visible);
  EXPECT_EQ(copy.access, TDM_ACCESS_READ | TDM_ACCESS_WRITE);
  EXPECT_STREQ(copy.type, "bf16");
  EXPECT_STREQ(copy.role, "");
  const tdm_plane_desc &history = *tandemStorageGetPlane(storage.get(), 4);
  EXPECT_EQ(history.history, 4u);
  EXPECT_EQ(history.group, TDM_WHOLE_TENSOR);
  EXPECT_TRUE(history.persistent && !history.visible);
  EXPECT_TRUE(history.access & TDM_ACCESS_READ);
}

TEST(StoragesTest, PrintsAsMLIRDoes) {
  Storage storage = parse("#tandem.float< bf16 , nearest >");
  EXPECT_STREQ(tandemStorageGetText(storage.get()), "#tandem.float<bf16>");
}

TEST(StoragesTest, TellsCodesFromNumbers) {
  auto isCoded = [](const std::string &text) {
    return tandemStorageIsCoded(parse(text).get());
  };
  EXPECT_TRUE(isCoded(scaled("#scaled.float<f16>", "32")));
  EXPECT_TRUE(isCoded("#tandem.coded<#scaled.softsign>"));
  EXPECT_TRUE(isCoded("#tandem.float<f8E5M2>"));
  EXPECT_FALSE(isCoded("#tandem.float<bf16>"));
  EXPECT_FALSE(isCoded("#tandem.remainder"));
  EXPECT_FALSE(isCoded("#tandem.working<bf16, " + scaled(e4m3, "32") + ">"));
}

TEST(StoragesTest, TellsPlainFloats) {
  EXPECT_TRUE(tandemStorageIsPlain(parse("#tandem.float<f16, dither>").get()));
  EXPECT_FALSE(tandemStorageIsPlain(parse("#tandem.kahan<f16>").get()));
}

TEST(StoragesTest, KnowsTheF32Policy) {
  auto hasValue = [](const std::string &text) {
    return tandemStorageHasF32Value(parse(text).get());
  };
  EXPECT_TRUE(hasValue("#tandem.expansion<bf16 x 2>"));
  EXPECT_TRUE(hasValue(scaled(e4m3, "128")));
  EXPECT_FALSE(hasValue("#tandem.expansion<f32 x 2>"));
  EXPECT_FALSE(hasValue("#tandem.kahan<bf16>"));
}

TEST(StoragesTest, FindsDynamicCodes) {
  auto getCode = [](const std::string &text) {
    return tandemStorageGetDynamicCode(parse(text).get());
  };
  EXPECT_EQ(getCode(scaled("#scaled.dynamic<signed>", "256")),
            TandemDynamicSigned);
  EXPECT_EQ(getCode("#tandem.working<f16, "
                    "#tandem.coded<#scaled.dynamic<unsigned, dither>>>"),
            TandemDynamicUnsigned);
  EXPECT_EQ(getCode(scaled("#scaled.expanded<#scaled.dynamic<signed>, range = "
                           "1.0e+07>",
                           "128")),
            TandemDynamicSigned);
  EXPECT_EQ(getCode(scaled(e4m3, "256")), TandemDynamicNone);
}

TEST(StoragesTest, FindsPlainGroups) {
  auto getGroup = [](const std::string &text) {
    return tandemStorageGetPlainGroup(parse(text).get());
  };
  EXPECT_EQ(getGroup(scaled("#scaled.dynamic<signed, dither>", "256")), 256);
  EXPECT_EQ(getGroup(scaled(e4m3, "32")), 32);
  EXPECT_EQ(getGroup(scaled(e4m3, "tensor")), 0);
  EXPECT_EQ(getGroup(scaled(e4m3, "row")), 0);
  EXPECT_EQ(getGroup(scaled(e4m3, "64x64")), 0);
  EXPECT_EQ(getGroup(scaled(e4m3, "32", "scale = bf16")), 0);
  EXPECT_EQ(getGroup(scaled(e4m3, "32", "scale = f32, recipe = pow2")), 0);
  EXPECT_EQ(getGroup(scaled("#scaled.expanded<f8E4M3FN, range = 4.0>", "32")),
            0);
  EXPECT_EQ(getGroup("#tandem.float<bf16>"), 0);
}

TEST(StoragesTest, GivesScales) {
  auto getGiven = [](const std::string &text) -> std::string {
    return tandemStorageWithGivenScales(parse(text).get());
  };
  std::string given = scaled(e4m3, "tensor", "scale = f32, recipe = given");
  EXPECT_EQ(getGiven(scaled(e4m3, "tensor")), given);
  EXPECT_EQ(getGiven(scaled(e4m3, "tensor",
                            "scale = f32, recipe = pow2, history = 4, margin = "
                            "1")),
            given);
  EXPECT_EQ(getGiven(scaled(e4m3, "tensor", "scale = bf16")), given);
  EXPECT_EQ(getGiven(scaled(e4m3, "tensor", "scale = f32, transposed = true")),
            "");
  EXPECT_EQ(getGiven(scaled("#scaled.expanded<f8E4M3FN, range = 4.0>", "32")),
            "");
  EXPECT_EQ(getGiven("#tandem.float<bf16>"), "");
}

TEST(StoragesTest, LeavesOut) {
  Storage storage = parse(scaled(
      e4m3, "tensor", "scale = f32, recipe = pow2, history = 4, margin = 1"));
  EXPECT_EQ(tandemStorageWithoutHistory(storage.get()),
            scaled(e4m3, "tensor", "scale = f32, recipe = pow2"));
  Storage copied =
      parse(scaled(e4m3, "tensor", "scale = f32, transposed = true"));
  EXPECT_EQ(tandemStorageWithoutTranspose(copied.get()),
            scaled(e4m3, "tensor"));
  EXPECT_STREQ(tandemStorageWithoutHistory(copied.get()),
               tandemStorageGetText(copied.get()));
  Storage working = parse(
      "#tandem.working<bf16, " +
      scaled(e4m3, "tensor", "scale = f32, history = 4, margin = 1") + ">");
  EXPECT_EQ(tandemStorageWithoutHistory(working.get()),
            "#tandem.working<bf16, " + scaled(e4m3, "tensor") + ">");
}

TEST(StoragesTest, RoundsToNearest) {
  std::string nearest = "#scaled.minifloat<exponent = 2, mantissa = 1>";
  Storage storage = parse(scaled(
      "#scaled.minifloat<exponent = 2, mantissa = 1, rounding = dither>", "16"));
  EXPECT_EQ(tandemStorageToNearest(storage.get()), scaled(nearest, "16"));
  Storage plain = parse("#tandem.float<bf16, stochastic>");
  EXPECT_STREQ(tandemStorageToNearest(plain.get()), "#tandem.float<bf16>");
  Storage same = parse(scaled(nearest, "16"));
  EXPECT_STREQ(tandemStorageToNearest(same.get()),
               tandemStorageGetText(same.get()));
}

TEST(StoragesTest, IsMade) {
  auto getText = [](TandemStorage *made) -> std::string {
    Storage storage(made);
    return made ? tandemStorageGetText(made) : tandemGetLastError();
  };
  EXPECT_EQ(getText(tandemStorageCreateFloats("bf16")), "#tandem.float<bf16>");
  EXPECT_EQ(getText(tandemStorageCreateSums("f32")), "#tandem.remainder");
  EXPECT_EQ(getText(tandemStorageCreateSums("bf16x2")),
            "#tandem.expansion<bf16 x 2>");
  EXPECT_EQ(getText(tandemStorageCreateSums("bf16+i8")),
            "#tandem.residual<bf16, i8>");
  std::string codes = scaled(e4m3, "32");
  EXPECT_EQ(getText(tandemStorageCreateWorking("f16", codes.c_str())),
            "#tandem.working<f16, " + codes + ">");
  EXPECT_EQ(getText(tandemStorageCreateMatrixCodes("f8E4M3FN", false)),
            scaled(e4m3, "tensor"));
  EXPECT_EQ(getText(tandemStorageCreateMatrixCodes("f8E5M2", true)),
            scaled("#scaled.float<f8E5M2>", "tensor",
                   "scale = f32, transposed = true"));
  auto getMasked = [&](const char *number, const char *clamp) {
    return getText(
        tandemStorageCreateMasked("f32", number, "toward_zero", clamp));
  };
  EXPECT_EQ(getMasked("E8M3", "both"),
            "#tandem.masked<f32, #scaled.minifloat<exponent = 8, mantissa = 3, "
            "specials = ieee, rounding = toward_zero>>");
  EXPECT_EQ(getMasked("E7M7", "both"),
            "#tandem.masked<f32, #scaled.minifloat<exponent = 8, mantissa = 7, "
            "specials = ieee, rounding = toward_zero, exponents = [-62, 63]>>");
  EXPECT_EQ(getMasked("E7M0", "inside"),
            "#tandem.masked<f32, #scaled.minifloat<exponent = 8, mantissa = 0, "
            "rounding = toward_zero, exponents = [-62, 127]>>");
  EXPECT_EQ(getMasked("E4M3", "outside"),
            "#tandem.masked<f32, #scaled.minifloat<exponent = 8, mantissa = 3, "
            "specials = ieee, rounding = toward_zero, exponents = [-126, 7]>>");
}

/// Returns the error message for a storage that could not be read or made.
static std::string getError(TandemStorage *storage) {
  EXPECT_EQ(storage, nullptr);
  return tandemGetLastError();
}

TEST(StoragesTest, RefusesWhatIsNone) {
  EXPECT_EQ(getError(tandemStorageParse("bf16")),
            "cannot read storage 'bf16': it is not a storage; storages are "
            "attributes such as #tandem.float<bf16>, got bf16");
  EXPECT_EQ(getError(tandemStorageParse(nullptr)),
            "cannot read storage '': expected attribute value");
  std::string noFormat = "' is not a float format; formats are f32, bf16, f16, "
                         "f8E4M3FN and f8E5M2";
  EXPECT_EQ(getError(tandemStorageCreateFloats("i8")), "'i8" + noFormat);
  EXPECT_EQ(getError(tandemStorageCreateFloats(nullptr)), "'" + noFormat);
  // MLIR's parser would recurse for each of the brackets.
  std::string deep;
  for (int i = 0; i < 100000; ++i)
    deep += "tuple<";
  EXPECT_EQ(getError(tandemStorageCreateFloats(deep.c_str())),
            "'" + deep + noFormat);
  EXPECT_EQ(getError(tandemStorageCreateFloats("f64")),
            "a stored float is bf16, f16, f32, f8E4M3FN or f8E5M2, got 'f64'");
  EXPECT_EQ(getError(tandemStorageCreateSums("bf16")),
            "gradients add up in 'f32', 'bf16x2' or 'bf16+i8', got 'bf16'");
  EXPECT_EQ(getError(tandemStorageCreateWorking("f32", "#tandem.remainder")),
            "a working copy must be bf16 or f16, got 'f32'");
  EXPECT_EQ(getError(tandemStorageCreateWorking("bf16", "x")),
            "cannot read storage 'x': expected attribute value");
  EXPECT_EQ(getError(tandemStorageCreateWorking("x", "#tandem.remainder")),
            "'x" + noFormat);
  EXPECT_EQ(getError(tandemStorageCreateMatrixCodes("f32", false)),
            "a float code is f8E4M3FN, f8E5M2 or f16, got 'f32'; "
            "#scaled.minifloat writes other formats");
  EXPECT_EQ(getError(tandemStorageCreateMatrixCodes("x", false)),
            "'x" + noFormat);
}

TEST(StoragesTest, RefusesMasks) {
  auto getMaskError = [](const char *format, const char *number,
                         const char *rounding = "nearest",
                         const char *clamp = "both") {
    return getError(tandemStorageCreateMasked(format, number, rounding, clamp));
  };
  std::string noFloat = "'; write ExMy with 2 to 8 exponent and 0 to 23 "
                        "mantissa bits, such as E8M3";
  for (std::string number :
       {"", "bf16", "E8", "E9M3", "E1M3", "E8M24", "E8M3x", "e8m3", "E8M-3"})
    EXPECT_EQ(getMaskError("f32", number.c_str()),
              "there is no float '" + number + noFloat);
  EXPECT_EQ(getMaskError("bf16", "E8M10"),
            "bf16 cannot hold the numbers of E8M10, it is E8M7; take fewer "
            "bits, or tensors of a wider type");
  EXPECT_EQ(getMaskError("f8E5M2", "E4M2"),
            "a masked float is f32, bf16 or f16, got 'f8E5M2'");
  EXPECT_EQ(getMaskError("f32", "E8M3", "dither"),
            "rounding is 'toward_zero', 'nearest' or 'stochastic', got "
            "'dither'");
  EXPECT_EQ(getMaskError("f32", "E8M3", "nearest", "left"),
            "clamp is 'inside', 'outside', 'both' or 'none', got 'left'");
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

TEST(TensorsTest, HaveStorages) {
  TandemCompileOptions options = {};
  options.graph = "adamw";
  options.strategy = "fp32-optim";
  TandemKernel *kernel = tandemCompile(&options);
  ASSERT_TRUE(kernel) << tandemGetLastError();
  ASSERT_EQ(tandemKernelGetNumTensors(kernel), 4);
  TandemTensor param = tandemKernelGetTensor(kernel, 0);
  EXPECT_STREQ(param.role, tandemKernelGetInfo(kernel)->desc->planes[0].role);
  EXPECT_STREQ(param.storage, "#tandem.float<bf16>");
  EXPECT_FALSE(param.isSecondMoment);
  TandemTensor second = tandemKernelGetTensor(kernel, 3);
  EXPECT_STREQ(second.role, "exp_avg_sq");
  EXPECT_STREQ(second.storage, "#tandem.float<f32>");
  EXPECT_TRUE(second.isSecondMoment);
  EXPECT_STREQ(tandemKernelGetInfo(kernel)->desc->planes[3].doc,
               "second moment of the gradients, stored as #tandem.float<f32>");
  EXPECT_FALSE(tandemKernelGetTensor(kernel, 2).isSecondMoment);
  tandemKernelDestroy(kernel);
}
