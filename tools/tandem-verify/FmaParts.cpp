//===- FmaParts.cpp - Fused multiply-adds ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts with triples of operands: all triples of the
// 8-bit formats; for bf16 and f16 all significands of the factors and all
// addends, with products at every exponent where something may go wrong.
//
//===----------------------------------------------------------------------===//

#include "Listings.h"
#include "llvm/Support/FormatVariadic.h"

using namespace tandem::verify;

namespace {
template <typename F, typename Code>
class FmaPart : public Part {
public:
  FmaPart(llvm::StringRef format, const std::string &description)
      : Part((format + "-fma").str(), description) {
    inputs = {{"a", sizeof(Code)}, {"b", sizeof(Code)}, {"c", sizeof(Code)}};
    results = {{"r", sizeof(Code)}};
    std::string policy =
        sizeof(Code) == 2 ? ("component, " + format).str() : "f32, f32";
    std::string storage = floatStorage(format);
    kernel = writeKernel(
        policy, {{"a", storage}, {"b", storage}, {"c", storage}},
        {{"r", storage}},
        llvm::formatv("  %a = tandem.load_plane %t_a[0] : !a -> {0}\n"
                      "  %b = tandem.load_plane %t_b[0] : !b -> {0}\n"
                      "  %c = tandem.load_plane %t_c[0] : !c -> {0}\n"
                      "  %r = math.fma %a, %b, %c : {0}\n"
                      "  tandem.store_plane %r, %t_r[0] : {0}, !r\n",
                      format)
            .str());
  }

  void expect(Block &block) const override {
    const auto *a = block.inputs[0].get<Code>(),
               *b = block.inputs[1].get<Code>(),
               *c = block.inputs[2].get<Code>();
    auto *r = block.expected[0].get<Code>();
    forLanes(block.size, [=](size_t i) {
      Reals result =
          F::fma(F::decode(loadCodes(a + i)), F::decode(loadCodes(b + i)),
                 F::decode(loadCodes(c + i)));
      storeCodes(r + i, F::encode(result));
    });
  }
};

/// Runs fma on every triple of an 8-bit format.
template <typename F>
class AllTriples : public FmaPart<F, uint8_t> {
public:
  explicit AllTriples(llvm::StringRef format)
      : FmaPart<F, uint8_t>(format, ("fma of all triples of " + format).str()) {
    this->units = numTripleUnits;
  }

  void fill(Block &block) const override { fillTriples(block); }
};

/// Runs fma on two factors and all addends in each unit. The unit number counts
/// significands fastest, then places of the product.
template <typename F>
class StructuredTriples : public FmaPart<F, uint16_t> {
public:
  /// Takes one in `step` of the second factor's significands.
  StructuredTriples(llvm::StringRef format, unsigned step)
      : FmaPart<F, uint16_t>(format, describe(format, step)), step(step) {
    addPlaces();
    this->units = places.size() * numFirst * numSecond();
  }

  void fill(Block &block) const override {
    uint64_t unit = block.unit;
    uint64_t second = unit % numSecond() * step;
    unit /= numSecond();
    uint64_t first = unit % numFirst, place = unit / numFirst;
    // The significands start at another offset for each first factor.
    second = (second + mix(first) % step) % numFirst;
    auto [firstField, secondField] = places[place];
    uint64_t sign = (first + second + place) & 1;
    auto *a = block.inputs[0].get<uint16_t>(),
         *b = block.inputs[1].get<uint16_t>(),
         *c = block.inputs[2].get<uint16_t>();
    block.size = blockSize;
    auto firstCode = uint16_t(sign << 15 | firstField << mantissaBits | first);
    auto secondCode = uint16_t(secondField << mantissaBits | second);
    for (size_t i = 0; i < blockSize; ++i) {
      a[i] = firstCode;
      b[i] = secondCode;
      c[i] = uint16_t(i);
    }
  }

private:
  static constexpr unsigned mantissaBits = F::precision - 1;
  static constexpr uint64_t numFirst = uint64_t(1) << mantissaBits;
  static constexpr int maxField = F::maxExponent + F::bias;

  static std::string describe(llvm::StringRef format, unsigned step) {
    std::string text = ("fma of " + format + ": ").str();
    if (step == 1)
      text += "all significands of both factors";
    else
      text += llvm::formatv("all significands of one factor, one in {0} of the "
                            "other",
                            step);
    return text + ", 40 places of the product, all addends";
  }

  uint64_t numSecond() const { return numFirst / step; }

  /// Adds a product with an exponent, which is split between the factors in
  /// different ways.
  void add(int exponent) {
    int sum = exponent + 2 * F::bias;
    int first = sum / 2 + int(places.size() % 5) - 2;
    first = std::clamp(first, std::max(1, sum - maxField),
                       std::min(maxField, sum - 1));
    places.push_back({unsigned(first), unsigned(sum - first)});
  }

  /// Adds 19 places around the smallest numbers, 10 around the largest, 6 in
  /// between, and 5 with a subnormal factor.
  void addPlaces() {
    int smallest = F::minExponent - F::precision + 1;
    for (int i = -3; i < 16; ++i)
      add(std::max(smallest + i, 2 * F::minExponent));
    for (int i = -5; i < 5; ++i)
      add(F::maxExponent + i);
    for (int exponent : {-5, -1, 0, 1, 5, F::maxExponent / 2})
      add(exponent);
    for (int exponent : {-1, 0, F::precision / 2, F::precision, F::maxExponent})
      places.push_back({0, unsigned(exponent + F::bias)});
  }

  std::vector<std::pair<unsigned, unsigned>> places;
  unsigned step;
};
} // namespace

void tandem::verify::addFmaParts(Parts &parts) {
  parts.push_back(std::make_unique<AllTriples<E4M3>>("f8E4M3FN"));
  parts.push_back(std::make_unique<AllTriples<E5M2>>("f8E5M2"));
  parts.push_back(std::make_unique<StructuredTriples<BF16>>("bf16", 1));
  parts.push_back(std::make_unique<StructuredTriples<F16>>("f16", 64));
}
