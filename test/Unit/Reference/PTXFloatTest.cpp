//===- PTXFloatTest.cpp - Tests of PTX floating-point instructions --------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the evaluator's arithmetic, comparisons and cvt.
//
//===----------------------------------------------------------------------===//

#include "PTXTestUtils.h"

using namespace tandem::reference;

namespace {

uint64_t on32(llvm::StringRef opcode, uint64_t a, uint64_t b) {
  return evaluate(opcode, 'w', {{'w', a}, {'w', b}});
}

constexpr uint64_t kOne = 0x3F800000, kTwo = 0x40000000, kNaN = 0x7FC00001,
                   kMinusZero = 0x80000000, kInf = 0x7F800000;

TEST(PTXFloat, Arithmetic) {
  EXPECT_EQ(on32("add.rn.f32", kOne, kOne), kTwo);
  EXPECT_EQ(on32("sub.rn.f32", kOne, kOne), 0u);
  EXPECT_EQ(on32("mul.rn.f32", 1, 0x3F000000), 0u); // half the least: a tie
  EXPECT_EQ(on32("mul.rn.f32", 3, 0x3F000000), 2u); // subnormals are kept
  EXPECT_EQ(on32("div.rn.f32", kOne, 0x40400000), 0x3EAAAAABu);
  EXPECT_EQ(on32("add.rn.f32", kNaN, kOne), 0x7FFFFFFFu);
  EXPECT_EQ(evaluate("sqrt.rn.f32", 'w', {{'w', kTwo}}), 0x3FB504F3u);
  EXPECT_EQ(evaluate("rcp.rn.f64", 'd', {{'d', 0x4008000000000000}}),
            0x3FD5555555555555u);
  EXPECT_EQ(evaluate("sqrt.rn.f64", 'd', {{'d', 0xBFF0000000000000}}),
            0x7FF8000000000000u);
}

TEST(PTXFloat, PackedLanesAreIndependent) {
  // bf16 1 + 2^-8 is a tie to the even 1; 2 + 2 = 4.
  EXPECT_EQ(on32("add.rn.bf16x2", 0x40003F80, 0x40003B80), 0x40803F80u);
  EXPECT_EQ(on32("mul.rn.f16x2", 0x40003C00, 0x40004200), 0x44004200u);
  EXPECT_EQ(evaluate("mul.rn.f32x2", 'd',
                     {{'d', 0x400000003F800000}, {'d', 0x4000000040400000}}),
            0x4080000040400000u);
  EXPECT_EQ(evaluate("neg.bf16x2", 'w', {{'w', 0x3F80BF80}}), 0xBF803F80u);
  EXPECT_EQ(evaluate("abs.f16x2", 'w', {{'w', 0xBC003C00}}), 0x3C003C00u);
}

TEST(PTXFloat, FmaRoundsOnce) {
  EXPECT_EQ(evaluate("fma.rn.bf16", 'h',
                     {{'h', 0x3F81}, {'h', 0x3FC0}, {'h', 0x8001}}),
            0x3FC1u);
  EXPECT_EQ(evaluate("fma.rn.bf16x2", 'w',
                     {{'w', 0x3F813F81}, {'w', 0x3FC03FC0}, {'w', 0x80010000}}),
            0x3FC13FC2u);
}

TEST(PTXFloat, MixedFormsComputeInF32) {
  // 2^-8 is lost relative to 1 in bf16, but not in f32.
  EXPECT_EQ(evaluate("add.rn.f32.bf16", 'w', {{'h', 0x3B80}, {'w', kOne}}),
            0x3F808000u);
  EXPECT_EQ(evaluate("sub.rn.f32.f16", 'w', {{'h', 0x3C00}, {'w', kTwo}}),
            0xBF800000u);
  EXPECT_EQ(evaluate("fma.rn.f32.bf16", 'w',
                     {{'h', 0x3B80}, {'h', 0x4000}, {'w', kOne}}),
            0x3F810000u);
}

TEST(PTXFloat, MinMaxCopySign) {
  EXPECT_EQ(on32("min.f32", kNaN, kOne), kOne);
  EXPECT_EQ(on32("min.NaN.f32", kNaN, kOne), 0x7FFFFFFFu);
  EXPECT_EQ(on32("min.f32", 0, kMinusZero), kMinusZero);
  EXPECT_EQ(on32("max.f32", kMinusZero, 0), 0u);
  EXPECT_EQ(on32("max.NaN.bf16x2", 0x7FC03F80, 0x3F804000), 0x7FFF4000u);
  EXPECT_EQ(evaluate("max.NaN.f32", 'w', {{'w', kOne}, {'w', kTwo}, {'w', 5}}),
            kTwo);
  EXPECT_EQ(on32("copysign.f32", kMinusZero, kOne), kOne | kMinusZero);
}

TEST(PTXFloat, Comparisons) {
  auto compare = [](llvm::StringRef condition, uint64_t a, uint64_t b) {
    return evaluate(("setp." + condition + ".f32").str(), 'p',
                    {{'w', a}, {'w', b}});
  };
  struct {
    const char *name;
    bool less, equal, greater, unordered;
  } const table[] = {
      {"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},
      {"le", 1, 1, 0, 0},  {"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},
      {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1}, {"ltu", 1, 0, 0, 1},
      {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
      {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
  for (const auto &row : table) {
    EXPECT_EQ(compare(row.name, kOne, kTwo), row.less) << row.name;
    EXPECT_EQ(compare(row.name, 0, kMinusZero), row.equal) << row.name;
    EXPECT_EQ(compare(row.name, kTwo, kOne), row.greater) << row.name;
    EXPECT_EQ(compare(row.name, kNaN, kOne), row.unordered) << row.name;
  }
}

TEST(PTXFloat, PackedComparisonHasTwoPredicates) {
  RunResult result =
      runBody("ld.global.b32 %w1, [%rd20];\nld.global.b32 %w2, [%rd20+8];\n"
              "setp.lt.bf16x2 %p1|%p2, %w1, %w2;\nselp.b32 %w3, 1, 0, %p1;\n"
              "selp.b32 %w4, 1, 0, %p2;\nst.global.v2.b32 [%rd21], {%w3, %w4};",
              {0x40003F80, 0x3F804000});
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 1u);
}

uint64_t convert(llvm::StringRef types, char to, char from, uint64_t value) {
  return evaluate(("cvt." + types).str(), to, {{from, value}});
}

TEST(PTXConvert, Integers) {
  EXPECT_EQ(convert("u64.u32", 'd', 'w', 0xFFFFFFFF), 0xFFFFFFFFu);
  EXPECT_EQ(convert("s64.s32", 'd', 'w', 0xFFFFFFFF), ~0ull);
  EXPECT_EQ(convert("u16.u32", 'h', 'w', 0x12345678), 0x5678u);
  EXPECT_EQ(convert("s8.s32", 'h', 'w', 0x180), 0xFF80u);
  EXPECT_EQ(convert("s16.s8", 'h', 'h', 0x12FF), 0xFFFFu);
  EXPECT_EQ(convert("u16.u8", 'h', 'h', 0x12FF), 0x00FFu);
  EXPECT_EQ(convert("sat.u8.s32", 'w', 'w', uint32_t(-5)), 0u);
  EXPECT_EQ(convert("sat.s16.u32", 'h', 'w', 0xFFFFFFFF), 0x7FFFu);
}

TEST(PTXConvert, IntegersAndFloats) {
  EXPECT_EQ(convert("rn.f64.s64", 'd', 'd', ~0ull), 0xBFF0000000000000u);
  EXPECT_EQ(convert("rn.f32.u64", 'w', 'd', ~0ull), 0x5F800000u);
  EXPECT_EQ(convert("rn.bf16.s16", 'h', 'h', 0x8000), 0xC700u);
  EXPECT_EQ(convert("rzi.s32.f32", 'w', 'w', 0xBFC00000), 0xFFFFFFFFu);
  EXPECT_EQ(convert("rni.s32.f32", 'w', 'w', 0x40200000), 2u);
  EXPECT_EQ(convert("rpi.s32.f32", 'w', 'w', 0x40200000), 3u);
  EXPECT_EQ(convert("rzi.u32.f32", 'w', 'w', 0xBFC00000), 0u);
  EXPECT_EQ(convert("rzi.s32.f32", 'w', 'w', kInf), 0x7FFFFFFFu);
  EXPECT_EQ(convert("rzi.s32.f32", 'w', 'w', kNaN), 0u);
  EXPECT_EQ(convert("rzi.s64.f32", 'd', 'w', kNaN), 1ull << 63);
}

TEST(PTXConvert, Floats) {
  EXPECT_EQ(convert("rn.bf16.f32", 'h', 'w', 0x3F808000), 0x3F80u);
  EXPECT_EQ(convert("rz.bf16.f32", 'h', 'w', 0x3F80FFFF), 0x3F80u);
  EXPECT_EQ(convert("rn.bf16.f32", 'h', 'w', kNaN), 0x7FFFu);
  EXPECT_EQ(convert("f32.bf16", 'w', 'h', 0x0001), 0x00010000u);
  EXPECT_EQ(convert("f32.bf16", 'w', 'h', 0xFFC0), 0x7FFFFFFFu);
  EXPECT_EQ(convert("rn.f16.f32", 'h', 'w', 0x477FF000), 0x7C00u);
  EXPECT_EQ(convert("rn.f32.f64", 'w', 'd', 0x36A0000000000000), 1u);
  EXPECT_EQ(convert("rni.f32.f32", 'w', 'w', 0xBF000000), kMinusZero);
  EXPECT_EQ(convert("sat.f32.f32", 'w', 'w', 0xBF000000), 0u);
  EXPECT_EQ(convert("sat.f32.f32", 'w', 'w', kTwo), kOne);
}

/// The first source becomes the upper half.
TEST(PTXConvert, Packs) {
  auto pack = [](llvm::StringRef types, char to, uint64_t a, uint64_t b) {
    return evaluate(("cvt." + types).str(), to, {{'w', a}, {'w', b}});
  };
  EXPECT_EQ(pack("rn.bf16x2.f32", 'w', kOne, kTwo), 0x3F804000u);
  EXPECT_EQ(pack("rn.f16x2.f32", 'w', kOne, kTwo), 0x3C004000u);
  EXPECT_EQ(pack("rn.satfinite.e4m3x2.f32", 'h', kOne, kInf), 0x387Eu);
  EXPECT_EQ(pack("rn.satfinite.e4m3x2.f32", 'h', kNaN, 0xFF800000), 0xFFFEu);
  EXPECT_EQ(pack("rn.satfinite.e5m2x2.f32", 'h', 0xFF800000, kNaN), 0xFBFDu);
  EXPECT_EQ(pack("rn.satfinite.e5m2x2.f32", 'h', kInf, kMinusZero), 0x7B80u);
  EXPECT_EQ(convert("rn.f16x2.e4m3x2", 'w', 'h', 0x387E), 0x3C005F00u);
  EXPECT_EQ(convert("rn.f16x2.e5m2x2", 'w', 'h', 0x7C7F), 0x7C007FFFu);
  EXPECT_EQ(convert("rn.satfinite.e4m3x2.f16x2", 'h', 'w', 0x3C005F00),
            0x387Eu);
}

} // namespace
