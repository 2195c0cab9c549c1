//===- ExpansionParts.cpp - Compiled operations of expansions -------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that run compiled double-word operations: on
// samples of the 16-bit formats, and on all normalized operands of the 8-bit
// formats.
//
//===----------------------------------------------------------------------===//

#include "ExpansionParts.h"
#include "llvm/Support/FormatVariadic.h"

using namespace tandem::verify;

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static const ExpansionInfo operations[] = {
    {Expansion::Grow, "grow", Other::Component, 2, 0, 3},
    {Expansion::Kahan, "kahan", Other::Component, std::nullopt, 0, 0},
    {Expansion::Scale, "scale", Other::Component, 3, 0, 3},
    {Expansion::Mul, "mul", Other::Expansion, 5, 0, 6},
    {Expansion::Add, "add", Other::Expansion, 2, 0, 5},
    {Expansion::Sub, "sub", Other::Expansion, 2, 0, 5},
    {Expansion::Div, "div", Other::Expansion, 15, 56, 7},
    {Expansion::Sqrt, "sqrt", Other::None, 25.0 / 8, 0, 5},
    {Expansion::Renormalize, "renormalize", Other::None, 0, 0, 0}};

llvm::ArrayRef<ExpansionInfo> tandem::verify::getExpansionOperations() {
  return operations;
}

std::string tandem::verify::writeExpansionKernel(llvm::StringRef format,
                                                 llvm::StringRef policy,
                                                 const ExpansionInfo &info) {
  std::string type = ("!mcf.expansion<" + format + " x 2>").str();
  std::string pair = ("#tandem.expansion<" + format + " x 2>").str();
  std::vector<TensorDecl> tensors = {{"x", pair}};
  std::string body, operands = "%x";
  auto load = [&](const char *name) {
    body +=
        llvm::formatv("  %{0}0 = tandem.load_plane %t_{0}[0] : !{0} -> {1}\n"
                      "  %{0}1 = tandem.load_plane %t_{0}[1] : !{0} -> {1}\n"
                      "  %{0} = mcf.pack %{0}0, %{0}1 : {2}\n",
                      name, format, type);
  };
  load("x");
  if (info.other == Other::Component) {
    tensors.push_back({"a", floatStorage(format)});
    body +=
        llvm::formatv("  %a = tandem.load_plane %t_a[0] : !a -> {0}\n", format);
    operands += ", %a";
  }
  if (info.other == Other::Expansion) {
    tensors.push_back({"y", pair});
    load("y");
    operands += ", %y";
  }
  body += llvm::formatv("  %r = mcf.{0} {1} : {2}\n"
                        "  %r0, %r1 = mcf.components %r : {2}\n"
                        "  tandem.store_plane %r0, %t_r[0] : {3}, !r\n"
                        "  tandem.store_plane %r1, %t_r[1] : {3}, !r\n",
                        info.name, operands, type, format);
  return writeKernel(policy, tensors, {{"r", pair}}, body);
}

//===----------------------------------------------------------------------===//
// Samples of the 16-bit formats
//===----------------------------------------------------------------------===//

namespace {
/// Runs an operation on samples. Three units in four have normalized operands
/// in the middle of the range, for which errors are measured. The fourth has
/// arbitrary bits.
template <typename F>
class Samples : public ExpansionPart<F, uint16_t> {
public:
  Samples(llvm::StringRef format, const ExpansionInfo &info)
      : ExpansionPart<F, uint16_t>(
            format, info,
            llvm::formatv(
                "{0} of expansions of two {1}: samples, of which unit "
                "u has those of seed u, biased to hard cases",
                info.name, format)) {
    this->units = 16384;
    this->kernel =
        writeExpansionKernel(format, ("component, " + format).str(), info);
  }

  void fill(Block &block) const override {
    Random random{mix(block.unit)};
    block.size = blockSize;
    uint16_t *planes[4] = {};
    for (size_t i = 0; i < block.inputs.size(); ++i)
      planes[i] = block.inputs[i].template get<uint16_t>();
    bool isTame = isMeasured(block);
    for (size_t i = 0; i < blockSize; ++i)
      if (isTame)
        drawTame(random, planes, i);
      else
        drawWild(random, planes, i);
  }

protected:
  bool isMeasured(const Block &block) const override {
    return block.unit % 4 != 3 && this->info.operation != Expansion::Kahan;
  }

private:
  static constexpr int p = F::precision, mantissaBits = p - 1;
  static constexpr uint16_t sign = 1 << 15;
  static constexpr bool isNarrow = F::minExponent > -20;
  /// The smallest exponent of leading components and the range of their
  /// exponents, and how far below half an ulp trailing components reach.
  static constexpr int lowest = isNarrow ? 4 : -6, count = isNarrow ? 3 : 12,
                       gaps = isNarrow ? 6 : 16;

  static uint16_t encode(int exponent, uint64_t mantissa, uint64_t isNegative) {
    return uint16_t((isNegative & 1) << 15 |
                    uint64_t(exponent + F::bias) << mantissaBits | mantissa);
  }
  static int getExponent(uint16_t code) {
    return ((code & ~sign) >> mantissaBits) - F::bias;
  }

  /// Draws a mantissa with few or many bits set, at the ends of the binade, or
  /// arbitrary.
  static uint64_t drawMantissa(Random &random) {
    constexpr uint64_t all = (uint64_t(1) << mantissaBits) - 1;
    uint64_t bits = random(), any = bits >> 32 & all;
    switch (bits & 7) {
    case 0:
      return 0;
    case 1:
      return all;
    case 2:
      return bits >> 8 & 3;
    case 3:
      return all - (bits >> 8 & 3);
    case 4:
      return (all << ((bits >> 8) % mantissaBits)) & all;
    default:
      return any;
    }
  }

  static uint16_t drawLeading(Random &random) {
    return encode(lowest + int(random.below(count + 1)), drawMantissa(random),
                  random());
  }

  /// Draws a trailing component of at most half an ulp of the leading one, and
  /// often exactly that, or zero.
  static uint16_t drawTrailing(Random &random, uint16_t leading) {
    int half = getExponent(leading) - p;
    uint64_t kind = random.below(16);
    if (kind == 0)
      return uint16_t(random()) & sign;
    if (kind < 4)
      return encode(half, 0, random());
    int gap = kind < 10 ? 1 : 1 + int(random.below(gaps));
    return encode(half - gap, drawMantissa(random), random());
  }

  /// Draws an arbitrary number, or one that nearly cancels `leading`.
  static uint16_t drawOther(Random &random, uint16_t leading) {
    uint64_t kind = random.below(8);
    if (kind > 2)
      return drawLeading(random);
    int step = int(random.below(7)) - 3;
    uint16_t near = uint16_t((leading & ~sign) + step);
    int exponent = getExponent(near);
    if (exponent < lowest || exponent > lowest + count)
      near = leading & ~sign;
    return near |
           (kind == 0 ? uint16_t(random()) & sign : uint16_t(~leading) & sign);
  }

  void drawTame(Random &random, uint16_t *const *planes, size_t i) const {
    uint16_t x = drawLeading(random);
    if (this->info.operation == Expansion::Sqrt)
      x &= ~sign;
    planes[0][i] = x;
    planes[1][i] = drawTrailing(random, x);
    if (!planes[2])
      return;
    uint16_t y = drawOther(random, x);
    // The operation grow requires a component that is no larger than x.
    if (this->info.operation == Expansion::Grow && (y & ~sign) > (x & ~sign)) {
      std::swap(x, y);
      planes[0][i] = x;
      planes[1][i] = drawTrailing(random, x);
    }
    planes[2][i] = y;
    if (planes[3])
      planes[3][i] = drawTrailing(random, y);
  }

  /// Draws arbitrary bits, a number close to the ends of the range, or a
  /// special one.
  static uint16_t drawAny(Random &random) {
    constexpr uint16_t special[] = {0,
                                    1,
                                    F::infinityCode,
                                    F::nanCode,
                                    F::infinityCode - 1,
                                    1 << mantissaBits};
    uint64_t bits = random();
    auto any = uint16_t(bits >> 16), end = uint16_t(bits >> 32 & 0x3FF);
    auto signs = uint16_t(bits >> 48 & sign);
    switch (bits & 7) {
    case 0:
      return special[(bits >> 8) % 6] | signs;
    case 1:
      return end | signs;
    case 2:
      return uint16_t(F::infinityCode - 1 - end) | signs;
    default:
      return any;
    }
  }

  static void drawWild(Random &random, uint16_t *const *planes, size_t i) {
    for (unsigned plane = 0; plane < 4 && planes[plane]; ++plane)
      planes[plane][i] = drawAny(random);
    // Half of the trailing components are p binades below the leading ones.
    uint64_t bits = random();
    if (bits & 1)
      planes[1][i] =
          uint16_t(planes[0][i] - (p << mantissaBits)) ^ uint16_t(bits & sign);
    if (planes[2] && (bits & 6) == 0)
      planes[2][i] = uint16_t(planes[0][i] + (bits >> 8 & 3)) ^ sign;
  }
};

//===----------------------------------------------------------------------===//
// All operands of the 8-bit formats
//===----------------------------------------------------------------------===//

/// Runs an operation on every normalized expansion with hi >= +0 and, for
/// operations with two operands, every component or every normalized expansion
/// of either sign. Operations with one operand are run on all pairs of bytes.
template <typename F>
class AllOperands : public ExpansionPart<F, uint8_t> {
public:
  AllOperands(llvm::StringRef format, const ExpansionInfo &info)
      : ExpansionPart<F, uint8_t>(
            format, info,
            llvm::formatv("{0} of all normalized expansions of two {1}",
                          info.name, format)) {
    this->kernel = writeExpansionKernel(format, "f32, f32", info);
    addNormalized();
    size_t positive =
        llvm::count_if(normalized, [](auto pair) { return pair.first < 0x80; });
    this->units = info.other == Other::None        ? 1
                  : info.other == Other::Component ? (positive + 255) / 256
                                                   : positive;
  }

  void fill(Block &block) const override {
    uint8_t *planes[4] = {};
    for (size_t i = 0; i < block.inputs.size(); ++i)
      planes[i] = block.inputs[i].template get<uint8_t>();
    if (this->info.other == Other::Expansion)
      return fillPairs(block, planes);
    block.size = blockSize;
    for (size_t i = 0; i < blockSize; ++i) {
      auto [high, low] = this->info.other == Other::None
                             ? std::pair<uint8_t, uint8_t>(i >> 8, i)
                             : getPositive(block.unit * 256 + (i >> 8));
      planes[0][i] = high;
      planes[1][i] = low;
      if (planes[2])
        planes[2][i] = uint8_t(i);
    }
  }

protected:
  /// Returns false, since the ranges are too small for products without
  /// underflow. The tests in test/Python check the bounds.
  bool isMeasured(const Block &block) const override { return false; }

private:
  void addNormalized() {
    alignas(64) uint8_t codes[256];
    alignas(64) double values[256], halves[256];
    for (unsigned i = 0; i < 256; ++i)
      codes[i] = uint8_t(i);
    forLanes(256, [&](size_t i) {
      Reals value = F::decode(loadCodes(codes + i));
      storeReals(values + i, value);
      storeReals(halves + i, F::binade(value) * powerOfTwo(-F::precision));
    });
    for (unsigned high = 0; high < 256; ++high)
      for (unsigned low = 0; low < 256; ++low)
        if (values[high] - values[high] == 0 &&
            (values[low] == 0 ||
             (values[high] != 0 && std::abs(values[low]) <= halves[high])))
          normalized.push_back({uint8_t(high), uint8_t(low)});
  }

  /// Returns the pair of a unit. Pairs with hi >= +0 come first, and only these
  /// have units.
  std::pair<uint8_t, uint8_t> getPositive(size_t index) const {
    return normalized[std::min(index, normalized.size() - 1)];
  }

  void fillPairs(Block &block, uint8_t *const *planes) const {
    block.size = normalized.size();
    for (size_t i = 0; i < block.size; ++i) {
      planes[0][i] = normalized[block.unit].first;
      planes[1][i] = normalized[block.unit].second;
      planes[2][i] = normalized[i].first;
      planes[3][i] = normalized[i].second;
    }
  }

  std::vector<std::pair<uint8_t, uint8_t>> normalized;
};
} // namespace

void tandem::verify::addExpansionParts(Parts &parts) {
  for (const ExpansionInfo &info : operations) {
    parts.push_back(std::make_unique<Samples<BF16>>("bf16", info));
    parts.push_back(std::make_unique<Samples<F16>>("f16", info));
    parts.push_back(std::make_unique<AllOperands<E4M3>>("f8E4M3FN", info));
    parts.push_back(std::make_unique<AllOperands<E5M2>>("f8E5M2", info));
  }
}
