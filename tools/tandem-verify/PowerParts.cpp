//===- PowerParts.cpp - Logarithms and powers of two ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that apply log2 and exp2 to every f32. They
// check the bits of the sequences in docs/Numerics.md, and measure their
// errors.
//
//===----------------------------------------------------------------------===//

#include "FloatLanes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Dialect/Scaled/IR/Powers.h"
#include "tandem/InitAllDialects.h"

#include <cmath>

using namespace tandem::verify;
using mlir::ModuleOp;
using mlir::Value;
using tandem::SequenceBuilder;

typedef int32_t Integers __attribute__((vector_size(32)));

//===----------------------------------------------------------------------===//
// The specification
//===----------------------------------------------------------------------===//

static constexpr double log2Coefficients[] = {
    0x1.715476p+0,  -0x1.715470p-1, 0x1.ec73d6p-2,
    -0x1.715c4ep-2, 0x1.26d382p-2,  -0x1.e95c0ap-3,
    0x1.b9c962p-3,  -0x1.a87c2ep-3, 0x1.01b502p-3};
static constexpr double exp2Coefficients[] = {
    0x1p+0,        0x1.62e430p-1,  0x1.ebfbd8p-3, 0x1.c6af76p-5,
    0x1.3b30a0p-7, 0x1.5f0b82p-10, 0x1.3fa208p-13};

static TANDEM_LANES Reals roundToFloat(Reals x) {
  return __builtin_convertvector(__builtin_convertvector(x, Floats), Reals);
}

/// Evaluates a polynomial from the highest coefficient down, with an fma of f32
/// in each step.
template <size_t size>
static TANDEM_LANES Reals evaluate(const double (&coefficients)[size],
                                   Reals f) {
  Reals sum = splat(coefficients[size - 1]);
  for (size_t i = size - 1; i-- > 0;)
    sum = roundToFloat(addToOdd(sum * f, splat(coefficients[i])));
  return sum;
}

static TANDEM_LANES Reals log2(Floats x) {
  Integers bits = (Integers)x;
  Integers exponent = (bits - 0x3F3504F3) >> 23;
  Floats mantissa = (Floats)(bits - (exponent << 23));
  Reals f = __builtin_convertvector(mantissa, Reals) - 1.0;
  Reals product = roundToFloat(f * evaluate(log2Coefficients, f));
  return roundToFloat(__builtin_convertvector(exponent, Reals) + product);
}

static TANDEM_LANES Reals exp2(Reals x) {
  x = select(x > -100.0, x, splat(-100.0));
  constexpr double anchor = 0x1.8p52;
  Reals whole = (x + anchor) - anchor;
  Reals power = (Reals)((Words)(whole + (anchor + 1023)) << 52);
  return roundToFloat(evaluate(exp2Coefficients, x - whole) * power);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

using Build = Value (*)(SequenceBuilder &, Value);

/// Returns the text of a kernel that applies the sequence that `build` emits.
static std::string writePowerKernel(Build build) {
  std::string plain = floatStorage("f32");
  std::string text = writeKernel("f32, f32", {{"x", plain}}, {{"r", plain}},
                                 "  %x = tandem.load %t_x : !x -> f32\n"
                                 "  %y = math.absf %x : f32\n"
                                 "  tandem.store %y, %t_r : f32, !r\n");
  mlir::DialectRegistry registry;
  tandem::registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<ModuleOp>(text, &context);
  module->walk([&](mlir::math::AbsFOp op) {
    mlir::OpBuilder builder(op);
    SequenceBuilder sequence(builder, op.getLoc());
    op.replaceAllUsesWith(build(sequence, op.getOperand()));
    op.erase();
  });
  text.clear();
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Returns |got - want| in units of the last place of f32 at `want`.
static double countUlps(double got, double want) {
  return std::fabs(got - want) / std::ldexp(1.0, std::ilogb(want) - 23);
}

namespace {
class Log2Part : public Part {
public:
  Log2Part() : Part("f32-log2", "log2 of every f32 that is finite, from 0 on") {
    inputs = {{"x", 4}};
    results = {{"r", 4}};
    units = 0x7F80;
    kernel = writePowerKernel(tandem::scaled::buildLog2);
  }

  void fill(Block &block) const override { fillFloats(block); }

  void expect(Block &block) const override {
    const auto *x = block.inputs[0].get<uint32_t>();
    auto *r = block.expected[0].get<uint32_t>();
    forLanes(block.size,
             [=](size_t i) { storeFloats(r + i, log2(loadFloatBits(x + i))); });
  }

  /// Measures the error for normal numbers. For 1, whose logarithm is 0, any
  /// other result counts as an error of one ulp.
  void measure(const Block &block, Findings &findings) const override {
    if (block.unit < 0x80)
      return;
    const auto *x = block.inputs[0].get<float>(),
               *r = block.results[0].get<float>();
    static thread_local double ulps[blockSize];
    for (size_t i = 0; i < block.size; ++i) {
      double want = std::log2(double(x[i]));
      ulps[i] = want == 0 ? double(r[i] != 0) : countUlps(r[i], want);
    }
    observeLargest(block, "error in ulps", ulps, std::nullopt, findings);
  }
};

class Exp2Part : public Part {
public:
  Exp2Part()
      : Part("f32-exp2",
             "exp2 of every f32 below 128, and of NaN with a sign") {
    inputs = {{"x", 4}};
    results = {{"r", 4}};
    units = 0x8000 + positiveUnits;
    kernel = writePowerKernel(tandem::scaled::buildExp2);
  }

  void fill(Block &block) const override {
    fillFloats(block);
    uint32_t high = block.unit < positiveUnits
                        ? block.unit
                        : 0x8000 + block.unit - positiveUnits;
    auto *x = block.inputs[0].get<uint32_t>();
    for (uint32_t i = 0; i < blockSize; ++i)
      x[i] = high << 16 | i;
  }

  void expect(Block &block) const override {
    const auto *x = block.inputs[0].get<uint32_t>();
    auto *r = block.expected[0].get<uint32_t>();
    forLanes(block.size,
             [=](size_t i) { storeFloats(r + i, exp2(loadFloats(x + i))); });
  }

  /// Measures only operands that are not replaced by -100.
  void measure(const Block &block, Findings &findings) const override {
    const auto *x = block.inputs[0].get<float>(),
               *r = block.results[0].get<float>();
    static thread_local double ulps[blockSize];
    for (size_t i = 0; i < block.size; ++i)
      ulps[i] = x[i] >= -100 ? countUlps(r[i], std::exp2(double(x[i]))) : -1;
    observeLargest(block, "error in ulps", ulps, std::nullopt, findings);
  }

private:
  static constexpr uint32_t positiveUnits = 0x4300;
};
} // namespace

void tandem::verify::addPowerParts(Parts &parts) {
  parts.push_back(std::make_unique<Log2Part>());
  parts.push_back(std::make_unique<Exp2Part>());
}
