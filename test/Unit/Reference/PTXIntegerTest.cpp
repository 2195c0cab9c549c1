//===- PTXIntegerTest.cpp - Tests of PTX integer instructions -------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the evaluator's integer and bit instructions.
//
//===----------------------------------------------------------------------===//

#include "PTXTestUtils.h"

using namespace tandem::reference;

namespace {

uint64_t on16(llvm::StringRef opcode, uint64_t a, uint64_t b) {
  return evaluate(opcode, 'h', {{'h', a}, {'h', b}});
}
uint64_t on32(llvm::StringRef opcode, uint64_t a, uint64_t b) {
  return evaluate(opcode, 'w', {{'w', a}, {'w', b}});
}
uint64_t on64(llvm::StringRef opcode, uint64_t a, uint64_t b) {
  return evaluate(opcode, 'd', {{'d', a}, {'d', b}});
}

TEST(PTXInteger, AddAndSubWrap) {
  EXPECT_EQ(on16("add.s16", 0xFFFF, 2), 1u);
  EXPECT_EQ(on32("add.s32", 0xFFFFFFFF, 2), 1u);
  EXPECT_EQ(on64("sub.s64", 0, 1), ~0ull);
  EXPECT_EQ(on32("add.s16x2", 0x0001FFFF, 0x00010001), 0x00020000u);
}

TEST(PTXInteger, Products) {
  EXPECT_EQ(on32("mul.lo.s32", 0x10001, 0x10001), 0x20001u);
  EXPECT_EQ(on32("mul.hi.u32", 0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFEu);
  EXPECT_EQ(on32("mul.hi.s32", 0xFFFFFFFF, 0xFFFFFFFF), 0u);
  EXPECT_EQ(on64("mul.hi.u64", ~0ull, ~0ull), ~0ull - 1);
  EXPECT_EQ(on64("mul.hi.s64", ~0ull, 2), ~0ull);
  EXPECT_EQ(on16("mul.hi.s16", 0x8000, 0x8000), 0x4000u);
  EXPECT_EQ(
      evaluate("mul.wide.u32", 'd', {{'w', 0xFFFFFFFF}, {'w', 0xFFFFFFFF}}),
      0xFFFFFFFE00000001u);
  EXPECT_EQ(evaluate("mul.wide.s32", 'd', {{'w', 0xFFFFFFFF}, {'w', 7}}),
            uint64_t(-7));
  EXPECT_EQ(evaluate("mul.wide.s16", 'w', {{'h', 0xFFFF}, {'h', 7}}),
            0xFFFFFFF9u);
  EXPECT_EQ(evaluate("mad.lo.s64", 'd', {{'d', 24}, {'d', 2}, {'d', 1}}), 49u);
  EXPECT_EQ(
      evaluate("mad.wide.u32", 'd', {{'w', 0xFFFFFFFF}, {'w', 2}, {'d', 3}}),
      0x200000001u);
}

TEST(PTXInteger, Divisions) {
  EXPECT_EQ(on32("div.s32", uint32_t(-7), 2), uint32_t(-3));
  EXPECT_EQ(on32("rem.s32", uint32_t(-7), 2), uint32_t(-1));
  EXPECT_EQ(on32("div.u32", uint32_t(-7), 2), 0x7FFFFFFCu);
  EXPECT_EQ(on64("div.s64", 1ull << 63, ~0ull), 1ull << 63);
  EXPECT_EQ(on64("rem.s64", 1ull << 63, ~0ull), 0u);
}

TEST(PTXInteger, MinMaxNegAbs) {
  EXPECT_EQ(on32("min.s32", uint32_t(-1), 1), uint32_t(-1));
  EXPECT_EQ(on32("min.u32", uint32_t(-1), 1), 1u);
  EXPECT_EQ(on16("max.s16", 0x8000, 0x7FFF), 0x7FFFu);
  EXPECT_EQ(on32("max.s16x2", 0xFFFF0001, 0x0001FFFF), 0x00010001u);
  EXPECT_EQ(on32("min.u16x2", 0xFFFF0001, 0x0001FFFF), 0x00010001u);
  EXPECT_EQ(evaluate("neg.s16", 'h', {{'h', 5}}), 0xFFFBu);
  EXPECT_EQ(evaluate("abs.s64", 'd', {{'d', uint64_t(-5)}}), 5u);
}

TEST(PTXInteger, LogicAndShifts) {
  EXPECT_EQ(on16("and.b16", 0xF0F0, 0xFF00), 0xF000u);
  EXPECT_EQ(on64("xor.b64", 5, 1), 4u);
  EXPECT_EQ(evaluate("not.b16", 'h', {{'h', 0x00FF}}), 0xFF00u);
  EXPECT_EQ(on32("shl.b32", 1, 31), 0x80000000u);
  EXPECT_EQ(on32("shl.b32", 1, 32), 0u);
  EXPECT_EQ(on32("shr.u32", 0x80000000, 99), 0u);
  EXPECT_EQ(on32("shr.s32", 0x80000000, 99), 0xFFFFFFFFu);
  EXPECT_EQ(evaluate("shr.s16", 'h', {{'h', 0x8000}, {'w', 3}}), 0xF000u);
}

TEST(PTXInteger, FunnelShifts) {
  auto shf = [](llvm::StringRef opcode, uint64_t amount) {
    return evaluate(opcode, 'w',
                    {{'w', 0x89ABCDEF}, {'w', 0x01234567}, {'w', amount}});
  };
  EXPECT_EQ(shf("shf.l.wrap.b32", 8), 0x23456789u);
  EXPECT_EQ(shf("shf.l.wrap.b32", 40), 0x23456789u);
  EXPECT_EQ(shf("shf.r.wrap.b32", 8), 0x6789ABCDu);
  EXPECT_EQ(shf("shf.l.clamp.b32", 40), 0x89ABCDEFu);
  EXPECT_EQ(shf("shf.r.clamp.b32", 40), 0x01234567u);
}

TEST(PTXInteger, BitFields) {
  auto bfe = [](llvm::StringRef opcode, uint64_t position, uint64_t length) {
    return evaluate(opcode, 'w',
                    {{'w', 0x0000A500}, {'w', position}, {'w', length}});
  };
  EXPECT_EQ(bfe("bfe.u32", 8, 8), 0xA5u);
  EXPECT_EQ(bfe("bfe.s32", 8, 8), 0xFFFFFFA5u);
  EXPECT_EQ(bfe("bfe.s32", 8, 0), 0u);
  EXPECT_EQ(bfe("bfe.u32", 12, 255), 0xAu);
  // As documented, only the low eight bits of position and length count; GPUs
  // reportedly differ for 64-bit fields.
  EXPECT_EQ(bfe("bfe.u32", 0x108, 0x108), 0xA5u);
  EXPECT_EQ(
      evaluate("bfe.u64", 'd', {{'d', 0xA500}, {'w', 0x108}, {'w', 0x108}}),
      0xA5u);
  EXPECT_EQ(evaluate("bfi.b32", 'w',
                     {{'w', 0xFF}, {'w', 0x12345678}, {'w', 4}, {'w', 4}}),
            0x123456F8u);
}

TEST(PTXInteger, Permute) {
  auto prmt = [](uint64_t selector) {
    return evaluate("prmt.b32", 'w',
                    {{'w', 0x33221180}, {'w', 0x77665544}, {'w', selector}});
  };
  EXPECT_EQ(prmt(0x5410), 0x55441180u);
  EXPECT_EQ(prmt(0x7632), 0x77663322u);
  EXPECT_EQ(prmt(0x8888), 0xFFFFFFFFu);
  EXPECT_EQ(prmt(0x9000), 0x00808080u);
}

TEST(PTXInteger, Counts) {
  EXPECT_EQ(evaluate("popc.b64", 'w', {{'d', 0xFF00FF}}), 16u);
  EXPECT_EQ(evaluate("clz.b32", 'w', {{'w', 1}}), 31u);
  EXPECT_EQ(evaluate("clz.b64", 'w', {{'d', 0}}), 64u);
  EXPECT_EQ(evaluate("brev.b32", 'w', {{'w', 1}}), 0x80000000u);
}

TEST(PTXInteger, Comparisons) {
  auto compare = [](llvm::StringRef opcode, uint64_t a, uint64_t b) {
    return evaluate(opcode, 'p', {{'w', a}, {'w', b}});
  };
  uint64_t minusOne = 0xFFFFFFFF;
  EXPECT_EQ(compare("setp.lt.s32", minusOne, 0), 1u);
  EXPECT_EQ(compare("setp.lt.u32", minusOne, 0), 0u);
  EXPECT_EQ(compare("setp.hi.u32", minusOne, 0), 1u);
  EXPECT_EQ(compare("setp.ge.s32", 3, 3), 1u);
  EXPECT_EQ(compare("setp.le.s32", 4, 3), 0u);
  EXPECT_EQ(compare("setp.ne.b32", 4, 3), 1u);
  EXPECT_EQ(compare("setp.eq.b32", 4, 3), 0u);
}

TEST(PTXInteger, MovesPackAndUnpack) {
  RunResult result = runBody(
      "ld.global.b32 %w1, [%rd20];\n"
      "mov.b32 {%h1, %h2}, %w1;\nmov.b32 %w2, {%h2, %h1};\n"
      "mov.b32 {_, %h3}, %w1;\nmov.b64 %d1, {%h3, %h3, %h1, 7};\n"
      "mov.b32 %w3, 0f3F800000;\nmov.b64 %d2, 0d3FF0000000000000;\n"
      "st.global.b32 [%rd21], %w2;\nst.global.b64 [%rd21+8], %d1;\n"
      "st.global.v2.b32 [%rd21+16], {%w3, -1};\nst.global.b64 [%rd21+24], %d2;",
      {0x12345678});
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0x56781234u);
  EXPECT_EQ(result.out[1], 0x0007567812341234u);
  EXPECT_EQ(result.out[2], 0xFFFFFFFF3F800000u);
  EXPECT_EQ(result.out[3], 0x3FF0000000000000u);
}

TEST(PTXInteger, PredicatesGuardAndCombine) {
  RunResult result = runBody(
      "ld.global.b32 %w1, [%rd20];\nsetp.lt.s32 %p1|%p2, %w1, 5;\n"
      "xor.pred %p3, %p1, %p2;\nnot.pred %p4, %p3;\nmov.pred %p5, -1;\n"
      "@%p1 mov.b32 %w2, 1;\n@!%p1 mov.b32 %w2, 2;\n@%p4 mov.b32 %w2, 3;\n"
      "@%p5 st.global.b32 [%rd21], %w2;",
      {9});
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 2u);
}

TEST(PTXInteger, ScopesHideRegisters) {
  RunResult result = runBody("mov.b32 %w1, 1;\n{ .reg .b32 %w1; mov.b32 %w1, 2;"
                             " }\nst.global.b32 [%rd21], %w1;",
                             {});
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 1u);
}

TEST(PTXInteger, Atomics) {
  RunResult result = runBody(
      "mov.b32 %w1, 12;\nst.global.b32 [%rd21], %w1;\n"
      "atom.global.or.b32 %w2, [%rd21], 3;\nred.global.add.u32 [%rd21], 5;\n"
      "atom.relaxed.gpu.global.max.s32 %w3, [%rd21], 100;\n"
      "atom.global.cas.b32 %w4, [%rd21], 100, 7;\n"
      "st.global.v4.b32 [%rd21+16], {%w2, %w3, %w4, 0};",
      {});
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 7u);
  EXPECT_EQ(result.out[2], (uint64_t(20) << 32) | 12);
  EXPECT_EQ(result.out[3], 100u);
}

} // namespace
