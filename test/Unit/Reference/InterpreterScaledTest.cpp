//===- InterpreterScaledTest.cpp - Tests of scaled numbers ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the reference interpreter on codes, scales, residuals and
// reductions over groups, and its agreement with itself on graphs that use them
// and the kernels lowered from these.
//
//===----------------------------------------------------------------------===//

#include "InterpreterAgreement.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

using Elements = std::vector<uint64_t>;

namespace {

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

class InterpreterScaled : public InterpreterTest {
protected:
  /// Returns the results of one operation of the scaled dialect.
  llvm::SmallVector<ValueBits> run(const std::string &arguments,
                                   const std::string &results,
                                   const std::string &operation,
                                   llvm::ArrayRef<ValueBits> bits) {
    bool isPair = results.find(',') != std::string::npos;
    return runFunction("func.func @f(" + arguments + ") -> (" + results +
                           ") {\n  %r" + (isPair ? ":2 = " : " = ") +
                           operation + "\n  return %r" +
                           (isPair ? "#0, %r#1 : " : " : ") + results + "\n}",
                       bits);
  }

  /// Returns the code of x under an f32 scale.
  uint64_t quantize(const std::string &code, const std::string &type,
                    uint64_t x, uint64_t scale = 0x3F800000) {
    return run("%x: f32, %s: f32", type,
               "scaled.quantize " + code + ", %x by %s : f32, f32 -> " + type,
               {{x}, {scale}})[0][0];
  }

  uint64_t dequantize(const std::string &code, const std::string &type,
                      uint64_t q, uint64_t scale = 0x3F800000) {
    return run("%q: " + type + ", %s: f32", "f32",
               "scaled.dequantize " + code + ", %q by %s : (" + type +
                   "), f32 -> f32",
               {{q}, {scale}})[0][0];
  }

  uint64_t scale(const std::string &code, const std::string &recipe,
                 const std::string &type, uint64_t amax) {
    return run("%a: i32", type,
               "scaled.scale " + code + ", %a by " + recipe + " : " + type,
               {{amax}})[0][0];
  }
};

constexpr uint64_t kInf = 0x7F800000, kNaN = 0x7FFFFFFF;

TEST_F(InterpreterScaled, FloatCodes) {
  std::string e4m3 = "#scaled.float<f8E4M3FN>", e5m2 = "#scaled.float<f8E5M2>";
  // 449 and larger finite values saturate; infinities do not.
  EXPECT_EQ(quantize(e4m3, "f8E4M3FN", 0x43E08000), 0x7Eu);
  EXPECT_EQ(quantize(e4m3, "f8E4M3FN", 0xFF7FFFFF), 0xFEu);
  EXPECT_EQ(quantize(e4m3, "f8E4M3FN", kInf), 0x7Fu);
  EXPECT_EQ(quantize(e5m2, "f8E5M2", kInf), 0x7Cu);
  EXPECT_EQ(quantize(e5m2, "f8E5M2", kInf | 1), 0x7Fu);
  EXPECT_EQ(quantize(e4m3, "f8E4M3FN", 0x80000000), 0x80u);
  // 1.0625 is a tie between 1 and 1.125; 3 / 2.
  EXPECT_EQ(quantize(e4m3, "f8E4M3FN", 0x3F880000), 0x38u);
  EXPECT_EQ(quantize(e4m3, "f8E4M3FN", 0x40400000, 0x40000000), 0x3Cu);
  EXPECT_EQ(dequantize(e4m3, "f8E4M3FN", 0x3C, 0x40000000), 0x40400000u);
  EXPECT_EQ(dequantize(e4m3, "f8E4M3FN", 0x7F), kNaN);
}

/// Encodes 1.1 = 1.125 - 0.025, of which f8E4M3FN keeps -13 * 2^-9.
TEST_F(InterpreterScaled, PairCodes) {
  auto results = run("%x: f32, %s: f32", "f8E4M3FN, f8E4M3FN",
                     "scaled.quantize #scaled.pair<f8E4M3FN>, %x by %s : "
                     "f32, f32 -> f8E4M3FN, f8E4M3FN",
                     {{0x3F8CCCCD}, {0x3F800000}});
  EXPECT_EQ(results[0], ValueBits{0x39});
  EXPECT_EQ(results[1], ValueBits{0x8D});
  results = run("%x: f32, %s: f32", "f8E5M2, f8E5M2",
                "scaled.quantize #scaled.pair<f8E5M2>, %x by %s : f32, f32 "
                "-> f8E5M2, f8E5M2",
                {{kInf | 0x80000000}, {0x3F800000}});
  EXPECT_EQ(results[0], ValueBits{0xFC});
  EXPECT_EQ(results[1], ValueBits{0});
  EXPECT_EQ(run("%q: f8E4M3FN, %l: f8E4M3FN, %s: f32", "f32",
                "scaled.dequantize #scaled.pair<f8E4M3FN>, %q, %l by %s : "
                "(f8E4M3FN, f8E4M3FN), f32 -> f32",
                {{0x39}, {0x8D}, {0x40000000}})[0],
            ValueBits{0x400CC000});
}

TEST_F(InterpreterScaled, CompandedCodes) {
  std::string softsign = "#scaled.softsign", root = "#scaled.root";
  EXPECT_EQ(quantize(softsign, "i8", 0x3F800000), 127u);
  EXPECT_EQ(quantize(softsign, "i8", 0xC0000000), 0x81u);
  EXPECT_EQ(quantize(softsign, "i8", 0x80000000), 0u);
  EXPECT_EQ(quantize(softsign, "i8", kInf), 0x80u);
  // 2 * 0.5 / 1.5 * 127 = 84.67.
  EXPECT_EQ(quantize(softsign, "i8", 0x3F000000), 85u);
  EXPECT_EQ(dequantize(softsign, "i8", 0x81, 0x40000000), 0xC0000000u);
  EXPECT_EQ(dequantize(softsign, "i8", 0x80), kNaN);
  // 254 * sqrt(1/4), then of a negative number, -0, infinity and 2.
  EXPECT_EQ(quantize(root, "i8", 0x3E800000), 127u);
  EXPECT_EQ(quantize(root, "i8", 0xBE800000), 0xFFu);
  EXPECT_EQ(quantize(root, "i8", 0x80000000), 0u);
  EXPECT_EQ(quantize(root, "i8", kInf), 0xFFu);
  EXPECT_EQ(quantize(root, "i8", 0x40000000), 254u);
  EXPECT_EQ(dequantize(root, "i8", 127, 0x40000000), 0x3F800000u);
  EXPECT_EQ(dequantize(root, "i8", 0xFF), kNaN);
}

/// Bytes from 127 up are 0, 0.55e-6, ..., 0.50078 (219), ..., 1.
TEST_F(InterpreterScaled, DynamicCodes) {
  std::string code = "#scaled.dynamic<signed>";
  EXPECT_EQ(quantize(code, "i8", 0x3F000000), 219u);
  EXPECT_EQ(quantize(code, "i8", 0x40000000), 255u);
  EXPECT_EQ(quantize(code, "i8", 0xC0000000), 0u);
  EXPECT_EQ(quantize(code, "i8", 0x80000000), 127u);
  EXPECT_EQ(quantize(code, "i8", kInf), 1u);
  EXPECT_EQ(dequantize(code, "i8", 219), 0x3F003333u);
  EXPECT_EQ(dequantize(code, "i8", 255, 0x40000000), 0x40000000u);
  EXPECT_EQ(dequantize(code, "i8", 127), 0u);
  EXPECT_EQ(dequantize(code, "i8", 1), kNaN);
  // The smallest values: 0.55e-6 above zero and below it.
  EXPECT_EQ(quantize(code, "i8", 0x350637BD), 128u);
  EXPECT_EQ(quantize(code, "i8", 0xB50637BD), 126u);
  // -0.979, whose code is used for NaN, and the preceding number.
  EXPECT_EQ(quantize(code, "i8", 0xBF7A9999), 2u);
  EXPECT_EQ(quantize(code, "i8", 0xBF7A999A), 0u);
  EXPECT_EQ(dequantize(code, "i8", 125), 0xB65A1A92u);
  code = "#scaled.dynamic<unsigned>";
  EXPECT_EQ(quantize(code, "i8", 0x3F000000), 183u);
  EXPECT_EQ(quantize(code, "i8", 0xBF000000), 254u);
  EXPECT_EQ(quantize(code, "i8", 0x80000000), 0u);
  EXPECT_EQ(dequantize(code, "i8", 183), 0x3EFE9999u);
}

/// 0.5 is encoded as 0.5^2.
TEST_F(InterpreterScaled, ExpandedDynamicCodes) {
  auto encode = [&](const std::string &signedness, uint64_t x) {
    return run("%x: f32, %s: f32, %j: i8", "i8",
               "scaled.quantize #scaled.expanded<#scaled.dynamic<" +
                   signedness +
                   ">, range = 1.0e6>, %x by %s, %j : f32, f32 "
                   "-> i8",
               {{x}, {0x3F800000}, {16}})[0][0];
  };
  EXPECT_EQ(encode("signed", 0x3F000000), 201u);
  EXPECT_EQ(encode("signed", 0xBF000000), 53u);
  EXPECT_EQ(encode("signed", 0x80000000), 127u);
  EXPECT_EQ(encode("unsigned", 0x80000000), 0u);
  EXPECT_EQ(encode("unsigned", 0xBF000000), 254u);
}

/// Bits decide which of the two neighbouring codes is written: dither bits are
/// complemented for negative numbers.
TEST_F(InterpreterScaled, CodesByBits) {
  auto encode = [&](const std::string &code, uint64_t x, uint64_t random) {
    return run("%x: f32, %s: f32, %d: i32", "i8",
               "scaled.quantize " + code +
                   ", %x by %s random %d : f32, f32, i32 -> i8",
               {{x}, {0x3F800000}, {random}})[0][0];
  };
  // 127 * 2/3 = 84.67 and 254 * sqrt(0.3) = 139.12.
  EXPECT_EQ(encode("#scaled.softsign<dither>", 0x3F000000, 0x5554), 84u);
  EXPECT_EQ(encode("#scaled.softsign<dither>", 0x3F000000, 0x5555), 85u);
  EXPECT_EQ(encode("#scaled.softsign<dither>", 0xBF000000, 0xAAAA), 0xABu);
  EXPECT_EQ(encode("#scaled.softsign<dither>", 0xBF000000, 0xAAAB), 0xACu);
  EXPECT_EQ(encode("#scaled.softsign<stochastic>", 0xBF000000, 0x5555), 0xABu);
  EXPECT_EQ(encode("#scaled.root<dither>", 0x3E99999A, 0), 139u);
  EXPECT_EQ(encode("#scaled.root<dither>", 0x3E99999A, 0xFFFF), 140u);
  // 0.997 is halfway from -0.993 to 1 for positive numbers, and beyond the last
  // negative one.
  EXPECT_EQ(encode("#scaled.dynamic<signed, dither>", 0x3F7F1A00, 0x7F00),
            254u);
  EXPECT_EQ(encode("#scaled.dynamic<signed, dither>", 0x3F7F1A00, 0x8100),
            255u);
  EXPECT_EQ(encode("#scaled.dynamic<signed, dither>", 0xBF7F1A00, 0), 0u);
  // 1.0625, halfway from 1 to 1.125.
  EXPECT_EQ(encode("#scaled.minifloat<exponent = 4, mantissa = 3, rounding = "
                   "dither>",
                   0x3F880000, 0x8000),
            57u);
  EXPECT_EQ(encode("#scaled.minifloat<exponent = 4, mantissa = 3, rounding = "
                   "dither>",
                   0xBF880000, 0x8000),
            184u);
}

/// Positive numbers are not encoded as zero.
TEST_F(InterpreterScaled, Floors) {
  for (auto [code, smallest] :
       {std::pair("#scaled.root", 1u), std::pair("#scaled.softsign", 1u),
        std::pair("#scaled.dynamic<signed>", 128u),
        std::pair("#scaled.dynamic<unsigned>", 1u)}) {
    auto encode = [&, code = code](uint64_t x) {
      return run("%x: f32, %s: f32", "i8",
                 std::string("scaled.quantize ") + code +
                     ", %x by %s floor : f32, f32 -> i8",
                 {{x}, {0x3F800000}})[0][0];
    };
    EXPECT_EQ(encode(1), smallest) << code;
    EXPECT_EQ(encode(0), encode(0x80000000)) << code;
    EXPECT_EQ(encode(0), smallest - 1) << code;
  }
}

/// E2M1 has 0, 0.5, 1, 1.5, 2, 3, 4, 6.
TEST_F(InterpreterScaled, MinifloatCodes) {
  auto minifloat = [](const std::string &parameters) {
    return "#scaled.minifloat<exponent = 2, mantissa = 1, " + parameters + ">";
  };
  std::string code = minifloat("specials = none");
  // 2.5 and 5 are ties, 100 saturates, and there is no NaN code.
  EXPECT_EQ(quantize(code, "i8", 0x40200000), 4u);
  EXPECT_EQ(quantize(code, "i8", 0x40A00000), 6u);
  EXPECT_EQ(quantize(code, "i8", 0xC2C80000), 15u);
  EXPECT_EQ(quantize(code, "i8", kInf | 0x80000001), 7u);
  EXPECT_EQ(quantize(code, "i8", kInf | 0x80000000), 15u);
  EXPECT_EQ(quantize(code, "i8", 0x80000000), 8u);
  EXPECT_EQ(dequantize(code, "i8", 15), 0xC0C00000u);
  EXPECT_EQ(dequantize(code, "i8", 0xF1), 0x3F000000u);
  code = minifloat("specials = negative_zero");
  EXPECT_EQ(quantize(code, "i8", kInf), 8u);
  EXPECT_EQ(quantize(code, "i8", 0x80000000), 0u);
  EXPECT_EQ(dequantize(code, "i8", 8), kNaN);
  // With infinities, the largest number is 3 = 2^1 * 1.5; -2.9 is truncated.
  code = minifloat("specials = ieee, rounding = toward_zero");
  EXPECT_EQ(quantize(code, "i8", 0x40A00000), 5u);
  EXPECT_EQ(quantize(code, "i8", 0xC0399999), 12u);
  EXPECT_EQ(quantize(code, "i8", kInf), 6u);
  EXPECT_EQ(dequantize(code, "i8", 14), kInf | 0x80000000);
  // Magnitudes have exponents 0 and 1: 5 saturates at 3, and 0.5 is kept, since
  // 0 is the format's own smallest exponent.
  code = minifloat("specials = none, exponents = [0, 1]");
  EXPECT_EQ(quantize(code, "i8", 0x00000001), 0u);
  EXPECT_EQ(quantize(code, "i8", 0x3F000000), 1u);
  EXPECT_EQ(quantize(code, "i8", 0x40A00000), 5u);
  // Magnitudes have exponent 1: nonzero numbers below 2 count as 2.
  code = minifloat("specials = none, exponents = [1, 1]");
  EXPECT_EQ(quantize(code, "i8", 0x00000001), 4u);
  EXPECT_EQ(quantize(code, "i8", 0x00000000), 0u);
  EXPECT_EQ(quantize(code, "i8", 0x40A00000), 5u);
}

/// 1.25 is halfway between 1 and 1.5.
TEST_F(InterpreterScaled, StochasticCodes) {
  for (uint64_t random : {0, 0x7FFF, 0x8000, 0xFFFF}) {
    auto results =
        run("%x: f32, %s: f32, %d: i32", "i8",
            "scaled.quantize #scaled.minifloat<exponent = 2, mantissa = 1, "
            "rounding = stochastic>, %x by %s random %d : f32, f32, i32 -> i8",
            {{0xBFA00000}, {0x3F800000}, {random}});
    EXPECT_EQ(results[0][0], random < 0x8000 ? 10u : 11u) << random;
  }
}

TEST_F(InterpreterScaled, Scales) {
  std::string e4m3 = "#scaled.float<f8E4M3FN>", softsign = "#scaled.softsign";
  // 449 / 448 in each type and recipe; only zeros give the scale 1.
  EXPECT_EQ(scale(e4m3, "current", "f32", 0x43E08000), 0x3F804925u);
  EXPECT_EQ(scale(e4m3, "current", "bf16", 0x43E08000), 0x3F80u);
  EXPECT_EQ(scale(e4m3, "current", "f16", 0x43E08000), 0x3C02u);
  // For codes that round by bits, the scale is the next larger one.
  std::string dither = "#scaled.float<f8E4M3FN, dither>";
  EXPECT_EQ(scale(dither, "current", "bf16", 0x43E08000), 0x3F81u);
  EXPECT_EQ(scale(dither, "current", "f16", 0x43E08000), 0x3C03u);
  EXPECT_EQ(scale(e4m3, "pow2", "f32", 0x43E08000), 0x40000000u);
  EXPECT_EQ(scale(e4m3, "pow2", "f8E8M0FNU", 0x43E08000), 128u);
  EXPECT_EQ(scale(e4m3, "mx_floor", "f8E8M0FNU", 0x43E08000), 127u);
  EXPECT_EQ(scale(e4m3, "pow2", "bf16", 0x43E00000), 0x3F80u);
  EXPECT_EQ(scale(e4m3, "current", "f16", 0), 0x3C00u);
  EXPECT_EQ(scale(e4m3, "mx_floor", "f8E8M0FNU", 0), 127u);
  // The ends of the range.
  EXPECT_EQ(scale(e4m3, "current", "f32", 1), 0x00800000u);
  EXPECT_EQ(scale(e4m3, "mx_floor", "f8E8M0FNU", 1), 1u);
  EXPECT_EQ(scale(softsign, "current", "f16", 1), 1u);
  EXPECT_EQ(scale(softsign, "current", "f16", 0x7F7FFFFF), 0x7BFFu);
  EXPECT_EQ(scale(softsign, "pow2", "f16", 0x7F7FFFFF), 0x7800u);
  EXPECT_EQ(scale(softsign, "pow2", "f8E8M0FNU", 0x7F7FFFFF), 254u);
  EXPECT_EQ(scale(e4m3, "pow2", "f8E8M0FNU", 0x7F7FFFFF), 246u);
}

TEST_F(InterpreterScaled, Magnitudes) {
  auto magnitude = [&](const std::string &code, uint64_t x) {
    return run("%x: f32", "i32",
               "scaled.magnitude " + code + ", %x : f32 -> i32", {{x}})[0];
  };
  EXPECT_EQ(magnitude("#scaled.softsign", 0xC0000000), ValueBits{0x40000000});
  EXPECT_EQ(magnitude("#scaled.softsign", kInf), ValueBits{0});
  EXPECT_EQ(magnitude("#scaled.root", 0x40800000), ValueBits{0x40000000});
  EXPECT_EQ(magnitude("#scaled.root", 0xC0800000), ValueBits{0});
  EXPECT_EQ(magnitude("#scaled.root", 0x80000000), ValueBits{0});
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Returns a kernel that copies p and stores a reduction of p in q.
std::string reduction(const std::string &operation, unsigned width) {
  std::string stored = "!tandem.stored<tensor<?xf32>, #tandem.float<f32>>";
  std::string lanes =
      width == 1 ? "f32" : "vector<" + std::to_string(width) + "xf32>";
  std::string bits =
      width == 1 ? "i32" : "vector<" + std::to_string(width) + "xi32>";
  std::string spread = width == 1 ? "arith.addi %r, %zero : i32"
                                  : "vector.broadcast %r : i32 to " + bits;
  return "tandem.step @k compute(<f32, f32>) tensors [#tandem.role<param "
         "\"p\">, #tandem.role<state \"q\">] scalars [] prologue {\n  "
         "tandem.yield\n} launches {\n  tandem.launch main width(" +
         std::to_string(width) + ") body {\n^bb0(%p: " + stored +
         ", %q: " + stored + "):\n" + "  %zero = arith.constant 0 : i32\n" +
         "  %x = tandem.load_plane %p[0] : " + stored + " -> " + lanes + "\n" +
         "  %b = arith.bitcast %x : " + lanes + " to " + bits + "\n" +
         "  %r = " + operation + " : " + bits + "\n  %s = " + spread + "\n" +
         "  %y = arith.bitcast %s : " + bits + " to " + lanes + "\n" +
         "  tandem.store_plane %x, %p[0] : " + lanes + ", " + stored + "\n" +
         "  tandem.store_plane %y, %q[0] : " + lanes + ", " + stored + "\n" +
         "  tandem.yield\n}}";
}

/// Eleven elements in groups of four: the last group has three.
TEST_F(InterpreterScaled, Reductions) {
  for (unsigned width : {1, 2, 4}) {
    MachineState state;
    state.first = 8;
    state.planes = {{"p", words({1, 7, 3, 2, 9, 9, 8, 9, 0xFFFFFFFF, 6, 5})},
                    {"q", words(Elements(11))}};
    MachineState other = state;
    ASSERT_EQ(
        runKernel(reduction("tandem.reduce max %b group(4)", width), state),
        "");
    EXPECT_EQ(
        state.planes["q"].elements,
        (Elements{7, 7, 7, 7, 9, 9, 9, 9, 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF}))
        << width;
    ASSERT_EQ(
        runKernel(reduction("tandem.reduce min %b group(4)", width), other),
        "");
    EXPECT_EQ(other.planes["q"].elements,
              (Elements{1, 1, 1, 1, 8, 8, 8, 8, 5, 5, 5}))
        << width;
    other.first = 6;
    EXPECT_EQ(
        runKernel(reduction("tandem.reduce min %b group(4)", width), other),
        "'tandem.reduce' counts in groups of 4 elements, but element 0 "
        "is number 6 of the unsharded tensor; begin at a multiple of 4");
  }
}

/// A kernel that stores a scaled p unchanged.
constexpr const char *kScaledCopy = R"mlir(
tandem.kernel @k compute(<f32, f32>) tensors [#tandem.role<param "p">]
    scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.softsign, group = 16, scale = f16>>):
  %x = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.softsign, group = 16, scale = f16>> -> f32
  tandem.store %x, %p : f32, !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.softsign, group = 16, scale = f16>>
  tandem.yield
})mlir";

/// Each group's scale comes from its own elements: 63 represents 63 / 191,
/// rounded to nearest.
TEST_F(InterpreterScaled, Groups) {
  MachineState state;
  Elements codes(18, 0);
  codes[0] = 127, codes[16] = 63, codes[17] = 0x80;
  state.planes = {{"p", {8, codes}}, {"p.scale", halves({0x4000, 0x3C00})}};
  ASSERT_EQ(runKernel(kScaledCopy, state), "");
  codes[16] = 127;
  EXPECT_EQ(state.planes["p"].elements, codes);
  EXPECT_EQ(state.planes["p.scale"].elements, (Elements{0x4000, 0x3547}));
}

TEST_F(InterpreterScaled, Mistakes) {
  MachineState state;
  state.planes = {{"p", {8, Elements(18, 0)}}, {"p.scale", halves({0})}};
  EXPECT_EQ(runKernel(kScaledCopy, state),
            "plane 'p.scale' has 1 elements, but 'p' has 18; an entry for each "
            "16 of them makes 2");
  state.planes["p.scale"] = halves({0, 0});
  state.first = 8;
  EXPECT_EQ(runKernel(kScaledCopy, state),
            "plane 'p.scale' counts in groups of 16 elements, but element 0 is "
            "number 8 of the unsharded tensor; begin at a multiple of 16");
  state.first = 0;
  state.planes.erase("p.scale");
  EXPECT_NE(runKernel(kScaledCopy, state).find("there is no plane 'p.scale'"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Graphs and the kernels made from them
//===----------------------------------------------------------------------===//

constexpr const char *kStrategies[] = {
    R"mlir(
tandem.strategy @residual compute(<f32, f32>) {
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign param = #tandem.residual<bf16, i8>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root, group = 32, scale = f16>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f16>
})mlir",
    R"mlir(
tandem.strategy @pairs compute(<f32, f32>) {
  tandem.assign grad = #tandem.float<f8E5M2>
  tandem.assign param = #tandem.scaled<#scaled.pair<f8E4M3FN>, group = 16, scale = f8E8M0FNU, recipe = mx_floor>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64, scale = f8E8M0FNU, recipe = pow2>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E5M2>, group = 16, scale = bf16>
})mlir",
    R"mlir(
tandem.strategy @expanded compute(<f32, f32>) {
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign param = #tandem.scaled<#scaled.expanded<f8E5M2, range = 3758096384.0>, group = 16, scale = f8E8M0FNU, recipe = mx_floor>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 28672.0>, group = 32, scale = f16>
  tandem.assign state = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 229376.0>, group = 16, scale = bf16>
})mlir",
    R"mlir(
tandem.strategy @dynamic compute(<f32, f32>) {
  tandem.assign grad = #tandem.coded<#scaled.dynamic<signed>>
  tandem.assign param = #tandem.scaled<#scaled.dynamic<signed>, group = 16, scale = bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.dynamic<unsigned>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.dynamic<signed>, range = 1.0e6>, group = 16, scale = f16>
})mlir",
    R"mlir(
tandem.strategy @minifloat compute(<f32, f32>) {
  tandem.assign grad = #tandem.coded<#scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero, exponents = [-62, 63]>>
  tandem.assign param = #tandem.scaled<#scaled.minifloat<exponent = 5, mantissa = 4, rounding = stochastic>, group = 16, scale = f8E8M0FNU, recipe = mx_floor>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.minifloat<exponent = 3, mantissa = 2, specials = negative_zero>, group = 32, scale = f32>
  tandem.assign state = #tandem.coded<#scaled.minifloat<exponent = 6, mantissa = 1, specials = none, rounding = stochastic>>
})mlir",
    R"mlir(
tandem.strategy @masked compute(<f32, f32>) {
  tandem.assign grad = #tandem.masked<bf16, #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero, exponents = [-62, 63]>>
  tandem.assign param = #tandem.masked<f32, #scaled.minifloat<exponent = 8, mantissa = 10, specials = ieee>>
  tandem.assign state moment(second) = #tandem.masked<f32, #scaled.minifloat<exponent = 8, mantissa = 17, specials = ieee, rounding = stochastic>>
  tandem.assign state = #tandem.masked<f16, #scaled.minifloat<exponent = 5, mantissa = 4, specials = ieee, rounding = dither>>
})mlir",
    R"mlir(
tandem.strategy @wide compute(<f32, f32>) {
  tandem.assign grad = #tandem.float<f32>
  tandem.assign param = #tandem.residual<f16, i16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16>, group = 16, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.pair<f8E5M2>, group = 32, scale = f32, recipe = pow2>
})mlir",
    R"mlir(
tandem.strategy @tensor compute(<f32, f32>) {
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign param = #tandem.scaled<#scaled.pair<f8E5M2>, group = tensor, scale = bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 28672.0>, group = tensor, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f16>
})mlir",
    R"mlir(
tandem.strategy @delayed compute(<f32, f32>) {
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = given>
  tandem.assign param = #tandem.scaled<#scaled.pair<f8E5M2>, group = tensor, scale = bf16, history = 3>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16>, group = tensor, scale = f8E8M0FNU, recipe = mx_floor, history = 1, margin = 2>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f16, recipe = given>
})mlir"};

constexpr const char *kStages[] = {
    "func.func(tandem-recognize-updates),tandem-apply-strategy{strategy=%},"
    "tandem-form-kernel,tandem.kernel(tandem-apply-policy)",
    "func.func(tandem-recognize-updates),tandem-apply-strategy{strategy=%},"
    "tandem-form-kernel,tandem.kernel(tandem-apply-policy,tandem-lower-"
    "storage)",
    "tandem-to-kernel{strategy=%}",
    "tandem-to-kernel{strategy=%},tandem-split-phases",
    "tandem-to-kernel{strategy=%},tandem-split-phases,"
    "tandem.step(tandem-emulate-floats{formats=bf16,f16,f8E4M3FN,f8E5M2}),"
    "canonicalize,cse,"
    "tandem.step(tandem-widen{width=16}),canonicalize,cse",
    "tandem-to-kernel{strategy=%},tandem-split-phases,"
    "tandem.step(tandem-emulate-floats{formats=f8E4M3FN,f8E5M2},tandem-widen{"
    "width=2})",
};

TEST_F(InterpreterAgreement, ScaledStrategies) {
  start.first = int64_t(1) << 35;
  for (const LibraryFile &graph : getFlatGraphs())
    for (llvm::StringRef strategy : kStrategies)
      for (bool tame : {false, true}) {
        SCOPED_TRACE((graph.name + (tame ? " " : " any ") + strategy).str());
        isTame = tame;
        expectAgreement(graph.text, strategy, kStages, 41);
      }
}

} // namespace
