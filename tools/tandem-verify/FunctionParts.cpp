//===- FunctionParts.cpp - exp, log, tanh and erf -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that apply exp, log, tanh and erf to every
// f32. They check the bits of the sequences in docs/Numerics.md, and measure
// their errors.
//
//===----------------------------------------------------------------------===//

#include "FloatLanes.h"

#include <cfloat>
#include <cmath>

using namespace tandem::verify;

//===----------------------------------------------------------------------===//
// The specification
//===----------------------------------------------------------------------===//

static constexpr double expCoefficients[] = {
    0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558acp-5, 0x1.12397ep-7, 0x1.6a515ap-10};
static constexpr double logCoefficients[] = {
    0x1.555554p-2, -0x1.000226p-2, 0x1.99a01ap-3, -0x1.54728p-3,
    0x1.22d956p-3, -0x1.0d8304p-3, 0x1.055e3ap-3, -0x1.38c406p-4};
static constexpr double tanhCoefficients[] = {-0x1.55549ap-2, 0x1.10e8f8p-3,
                                              -0x1.b48b6ep-5, 0x1.3b71e4p-6,
                                              -0x1.15c772p-8};
static constexpr double erfCoefficients[] = {
    0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2ce6p-4, -0x1.b7f71ap-6,
    0x1.53f224p-8, -0x1.a3515ep-11, 0x1.4771fep-14};
static constexpr double erfTailCoefficients[] = {
    0x1.ffb5bep-1,   0x1.84b7e4p-9,   -0x1.d9c65ep-8, 0x1.609450p-7,
    -0x1.5ea1c8p-7,  0x1.d7e42ep-8,   -0x1.8a4196p-9, 0x1.990c20p-12,
    0x1.bc4942p-12,  -0x1.4b9adcp-12, 0x1.114bf6p-14, 0x1.eea828p-16,
    -0x1.0aa4b6p-16, -0x1.18aeb4p-22, 0x1.e2275cp-21};

static TANDEM_LANES Reals roundToFloat(Reals x) {
  return __builtin_convertvector(__builtin_convertvector(x, Floats), Reals);
}

/// Operations of f32. They are computed in f64 and rounded to f32, which gives
/// the same numbers as one rounding.
static TANDEM_LANES Reals add(Reals a, Reals b) { return roundToFloat(a + b); }
static TANDEM_LANES Reals mul(Reals a, Reals b) { return roundToFloat(a * b); }
static TANDEM_LANES Reals fma(Reals a, Reals b, Reals c) {
  return roundToFloat(addToOdd(a * b, c));
}

template <size_t size>
static TANDEM_LANES Reals evaluate(const double (&coefficients)[size],
                                   Reals x) {
  Reals sum = splat(coefficients[size - 1]);
  for (size_t i = size - 1; i-- > 0;)
    sum = fma(sum, x, splat(coefficients[i]));
  return sum;
}

static TANDEM_LANES Reals copySign(Reals x, Reals sign) {
  return (Reals)(((Words)x & ~signBit) | ((Words)sign & signBit));
}

static TANDEM_LANES Reals exp(Reals x) {
  x = select(x > 89.0, splat(89.0), x);
  x = select(x < -104.0, splat(-104.0), x);
  constexpr double anchor = 0x1.8p52;
  Reals n = (x * 0x1.715476p+0 + anchor) - anchor;
  Reals r = fma(n, splat(-0x1.62e43p-1), x);
  r = fma(n, splat(0x1.05c61p-29), r);
  Reals p = add(splat(1), fma(mul(r, r), evaluate(expCoefficients, r), r));
  Reals power = (Reals)((Words)(n + (anchor + 1023)) << 52);
  return roundToFloat(p * power);
}

static TANDEM_LANES Reals log(Reals x) {
  constexpr uint64_t least = __builtin_bit_cast(uint64_t, 0x1.6A09E6p-1);
  Mask exponent = (Mask)((Words)x - least) >> 52;
  Reals m = (Reals)((Words)x - ((Words)exponent << 52));
  Reals e = __builtin_convertvector(exponent, Reals);
  Reals f = m - 1.0, square = mul(f, f);
  Reals t = mul(mul(f, square), evaluate(logCoefficients, f));
  t = fma(splat(-0.5), square, fma(e, splat(0x1.7f7d1cp-20), t));
  Reals result = fma(e, splat(0x1.62e4p-1), add(f, t));
  result = select(x < infinity, result, x);
  Reals outside = select(x == 0.0, splat(-infinity),
                         splat(std::numeric_limits<double>::quiet_NaN()));
  return select(x > 0.0, result, outside);
}

static TANDEM_LANES Reals tanh(Reals x) {
  Reals a = magnitude(x), square = mul(a, a);
  Reals small = fma(mul(a, square), evaluate(tanhCoefficients, square), a);
  Reals divisor = add(exp(add(a, a)), splat(1));
  Reals large = add(splat(1), -roundToFloat(2.0 / divisor));
  return copySign(select(a < 0.625, small, large), x);
}

static TANDEM_LANES Reals erf(Reals x) {
  Reals a = magnitude(x);
  Reals small = fma(a, evaluate(erfCoefficients, mul(a, a)), a);
  Reals within = select(a > 4.0, splat(4.0), a);
  Reals large = evaluate(erfTailCoefficients, add(within, splat(-2.4375)));
  return copySign(select(a < 1.0, small, large), x);
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Returns |got - want| in units of the last place of f32 at `want`, or -1 if
/// either is not a finite f32.
static double countUlps(float got, double want) {
  if (!std::isfinite(got) || !(std::fabs(want) <= FLT_MAX))
    return -1;
  int exponent = std::max(std::ilogb(want), FLT_MIN_EXP - 1);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 23);
}

namespace {
struct Exp {
  static constexpr const char *name = "exp";
  static constexpr double bound = 1.013;
  static TANDEM_LANES Reals apply(Reals x) { return exp(x); }
  static double exact(double x) { return std::exp(x); }
};

struct Log {
  static constexpr const char *name = "log";
  static constexpr double bound = 0.853;
  static TANDEM_LANES Reals apply(Reals x) { return log(x); }
  static double exact(double x) { return std::log(x); }
};

struct Tanh {
  static constexpr const char *name = "tanh";
  static constexpr double bound = 1.333;
  static TANDEM_LANES Reals apply(Reals x) { return tanh(x); }
  static double exact(double x) { return std::tanh(x); }
};

struct Erf {
  static constexpr const char *name = "erf";
  static constexpr double bound = 0.986;
  static TANDEM_LANES Reals apply(Reals x) { return erf(x); }
  static double exact(double x) { return std::erf(x); }
};

template <typename Function>
class FunctionPart : public Part {
public:
  FunctionPart()
      : Part(std::string("f32-") + Function::name,
             std::string(Function::name) + " of every f32") {
    inputs = {{"x", 4}};
    results = {{"r", 4}};
    units = 0x10000;
    std::string plain = floatStorage("f32");
    kernel = writeKernel("f32, f32", {{"x", plain}}, {{"r", plain}},
                         "  %x = tandem.load %t_x : !x -> f32\n"
                         "  %y = math." +
                             std::string(Function::name) +
                             " %x : f32\n"
                             "  tandem.store %y, %t_r : f32, !r\n");
  }

  void fill(Block &block) const override { fillFloats(block); }

  void expect(Block &block) const override {
    const auto *x = block.inputs[0].get<uint32_t>();
    auto *r = block.expected[0].get<uint32_t>();
    forLanes(block.size, [=](size_t i) {
      storeFloats(r + i, Function::apply(loadFloats(x + i)));
    });
  }

  void measure(const Block &block, Findings &findings) const override {
    const auto *x = block.inputs[0].get<float>(),
               *r = block.results[0].get<float>();
    std::vector<double> ulps(block.size);
    for (size_t i = 0; i < block.size; ++i)
      ulps[i] = countUlps(r[i], Function::exact(x[i]));
    observeLargest(block, "error in ulps", ulps, Function::bound, findings);
  }
};
} // namespace

void tandem::verify::addFunctionParts(Parts &parts) {
  parts.push_back(std::make_unique<FunctionPart<Exp>>());
  parts.push_back(std::make_unique<FunctionPart<Log>>());
  parts.push_back(std::make_unique<FunctionPart<Tanh>>());
  parts.push_back(std::make_unique<FunctionPart<Erf>>());
}
