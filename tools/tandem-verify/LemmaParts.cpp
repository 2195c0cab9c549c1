//===- LemmaParts.cpp - Facts about all pairs -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that check facts for all operands. The
// compiler relies on these facts to shorten code, and verification/ has the
// formulas. Facts about pairs need no compiled code; consequences in a chain of
// sums are compiled.
//
//===----------------------------------------------------------------------===//

#include "Listings.h"
#include "llvm/Support/FormatVariadic.h"
#include <array>

using namespace tandem::verify;

namespace {
/// The bounds on the error of a sum that a transform returns.
enum class Bound { FastTwoSum, OrderedFastTwoSum, TwoSum };

struct BoundInfo {
  Bound bound;
  const char *name, *description;
};
} // namespace

static const BoundInfo bounds[] = {
    {Bound::FastTwoSum, "trail-error",
     "the error of a Fast2Sum is at most an ulp of the sum"},
    {Bound::OrderedFastTwoSum, "trail-order",
     "that of one in order is at most half an ulp"},
    {Bound::TwoSum, "trail-two-sum",
     "that of a TwoSum is at most half an ulp"}};

/// Returns the sum, and sets `limit` to the largest error that is allowed.
template <typename F, Bound bound>
static TANDEM_LANES RealPair addWithin(Reals a, Reals b, Reals &limit) {
  RealPair sum = bound == Bound::TwoSum ? Listings<F>::twoSum(a, b)
                                        : Listings<F>::fastTwoSum(a, b);
  Reals ulp = F::binade(sum.x) * powerOfTwo(1 - F::precision);
  Mask isMeant = isFinite(sum.x) & isFinite(sum.y);
  if constexpr (bound == Bound::OrderedFastTwoSum)
    isMeant &= isMultipleOfUlp<F>(a, b);
  limit = bound == Bound::FastTwoSum ? ulp : ulp * 0.5;
  limit = select(isMeant, limit, splat(infinity));
  return sum;
}

namespace {
/// The base class of parts that check a fact for all pairs of a format. Each
/// result has `count` codes.
template <typename F, typename Code, size_t count>
class PairPart : public Part {
public:
  PairPart(llvm::StringRef name, llvm::StringRef description,
           const std::array<const char *, count> &names)
      : Part(name.str(), description.str()) {
    inputs = {{"a", sizeof(Code)}, {"b", sizeof(Code)}};
    for (const char *result : names)
      results.push_back({result, sizeof(Code)});
    units = numPairUnits<Code>;
  }

  void fill(Block &block) const override { fillPairs<Code>(block); }

protected:
  using Codes = std::array<Words, count>;

  /// Stores the codes that \p evaluate returns for each pair.
  template <typename Evaluate>
  static void forPairs(Block &block, std::vector<Array> &to,
                       const Evaluate &evaluate) {
    const auto *a = block.inputs[0].get<Code>(),
               *b = block.inputs[1].get<Code>();
    Code *out[count];
    for (size_t k = 0; k < count; ++k)
      out[k] = to[k].get<Code>();
    forLanes(block.size, [=](size_t i) {
      Codes codes =
          evaluate(F::decode(loadCodes(a + i)), F::decode(loadCodes(b + i)));
      for (size_t k = 0; k < count; ++k)
        storeCodes(out[k] + i, codes[k]);
    });
  }
};

/// Checks the errors of sums. The results are the errors; those within their
/// limits are expected.
template <typename F, typename Code, Bound bound>
class BoundPart : public PairPart<F, Code, 1> {
public:
  BoundPart(llvm::StringRef format, const BoundInfo &info)
      : PairPart<F, Code, 1>(
            (format + "-" + info.name).str(),
            llvm::formatv("{0}, of all pairs of {1}", info.description, format)
                .str(),
            {"error"}) {}

  void compute(Block &block) const override {
    evaluate(block, block.results,
             [](Reals error, Reals) { return F::encode(error); });
  }

  void expect(Block &block) const override {
    evaluate(block, block.expected, [](Reals error, Reals limit) {
      Words bits = F::encode(error);
      return select(magnitude(error) > limit, ~bits, bits);
    });
  }

private:
  template <typename Encode>
  void evaluate(Block &block, std::vector<Array> &to,
                const Encode &encode) const {
    this->forPairs(block, to, [&](Reals a, Reals b) {
      Reals limit;
      RealPair sum = addWithin<F, bound>(a, b, limit);
      return std::array<Words, 1>{encode(sum.y, limit)};
    });
  }
};

/// Checks that lanes of f32 may omit roundings in an ordered sum. The results
/// are the codes of the two differences and of the error; those that are exact
/// are expected.
template <typename F, typename Code>
class UnroundedPart : public PairPart<F, Code, 3> {
public:
  explicit UnroundedPart(llvm::StringRef format)
      : PairPart<F, Code, 3>(
            (format + "-unrounded").str(),
            llvm::formatv("x - a, a - x and (a - x) + b are numbers of {0} "
                          "where a is a multiple of b's ulp, of all pairs",
                          format)
                .str(),
            {"x-a", "a-x", "error"}) {}

  void compute(Block &block) const override {
    evaluate(block, block.results,
             [](Reals value, Mask) { return F::encode(value); });
  }

  void expect(Block &block) const override {
    evaluate(block, block.expected, [](Reals value, Mask isMeant) {
      Words bits = F::encode(value);
      Mask isRounded = ~isNaN(value) & (F::decode(bits) != value);
      return select(isMeant & isRounded, ~bits, bits);
    });
  }

private:
  /// Encodes the values for each pair. If a is a multiple of b's ulp, the
  /// values are, too, and are at most a few times as large as b, so that f64
  /// represents them exactly.
  template <typename Encode>
  void evaluate(Block &block, std::vector<Array> &to,
                const Encode &encode) const {
    this->forPairs(block, to, [&](Reals a, Reals b) {
      Mask isMeant = isMultipleOfUlp<F>(a, b) | ~isFinite(a) | ~isFinite(b);
      Reals x = F::add(a, b);
      return std::array<Words, 3>{encode(x - a, isMeant),
                                  encode(a - x, isMeant),
                                  encode((a - x) + b, isMeant)};
    });
  }
};

/// Computes sums, differences and products with fma, as chips without bf16
/// addition do.
class FmaSumsPart : public PairPart<BF16, uint16_t, 3> {
public:
  FmaSumsPart()
      : PairPart("bf16-fma-sums",
                 "sums, differences and products of all pairs of bf16 as fma",
                 {"sum", "difference", "product"}) {}

  void compute(Block &block) const override {
    forPairs(block, block.results, [](Reals a, Reals b) {
      return Codes{BF16::encode(BF16::fma(a, splat(1.0), b)),
                   BF16::encode(BF16::fma(b, splat(-1.0), a)),
                   BF16::encode(BF16::fma(a, b, -Reals{}))};
    });
  }

  void expect(Block &block) const override {
    forPairs(block, block.expected, [](Reals a, Reals b) {
      return Codes{BF16::encode(BF16::add(a, b)), BF16::encode(BF16::sub(a, b)),
                   BF16::encode(BF16::mul(a, b))};
    });
  }
};

/// Runs grow after another Fast2Sum, where range analysis proves the condition
/// of the last sum from several facts.
template <typename F>
class GrownPart : public Part {
public:
  explicit GrownPart(llvm::StringRef format)
      : Part((format + "-grown").str(),
             llvm::formatv("grow of every Fast2Sum of {0} by every number",
                           format)) {
    inputs = {{"a", 1}, {"b", 1}, {"c", 1}};
    results = {{"r", 1}, {"r.lo", 1}};
    units = numTripleUnits;
    std::string plain = floatStorage(format);
    std::string pair = ("#tandem.expansion<" + format + " x 2>").str();
    kernel = writeKernel(
        "f32, f32", {{"a", plain}, {"b", plain}, {"c", plain}}, {{"r", pair}},
        llvm::formatv(
            "  %a = tandem.load_plane %t_a[0] : !a -> {0}\n"
            "  %b = tandem.load_plane %t_b[0] : !b -> {0}\n"
            "  %c = tandem.load_plane %t_c[0] : !c -> {0}\n"
            "  %s = mcf.fast_two_sum %a, %b granted : !mcf.expansion<{0} x 2>\n"
            "  %r = mcf.grow %s, %c : !mcf.expansion<{0} x 2>\n"
            "  %x, %y = mcf.components %r : !mcf.expansion<{0} x 2>\n"
            "  tandem.store_plane %x, %t_r[0] : {0}, !r\n"
            "  tandem.store_plane %y, %t_r[1] : {0}, !r\n",
            format)
            .str());
  }

  void fill(Block &block) const override { fillTriples(block); }

  void expect(Block &block) const override {
    const auto *a = block.inputs[0].get<uint8_t>(),
               *b = block.inputs[1].get<uint8_t>(),
               *c = block.inputs[2].get<uint8_t>();
    auto *x = block.expected[0].get<uint8_t>(),
         *y = block.expected[1].get<uint8_t>();
    forLanes(block.size, [=](size_t i) {
      RealPair sum = Listings<F>::fastTwoSum(F::decode(loadCodes(a + i)),
                                             F::decode(loadCodes(b + i)));
      RealPair grown = Listings<F>::grow(sum, F::decode(loadCodes(c + i)));
      storeCodes(x + i, F::encode(grown.x));
      storeCodes(y + i, F::encode(grown.y));
    });
  }
};
} // namespace

static void addUnroundedParts(Parts &parts) {
  parts.push_back(std::make_unique<UnroundedPart<BF16, uint16_t>>("bf16"));
  parts.push_back(std::make_unique<UnroundedPart<F16, uint16_t>>("f16"));
  parts.push_back(std::make_unique<UnroundedPart<E4M3, uint8_t>>("f8E4M3FN"));
  parts.push_back(std::make_unique<UnroundedPart<E5M2, uint8_t>>("f8E5M2"));
}

template <Bound bound>
static void addBoundParts(Parts &parts) {
  const BoundInfo &info = bounds[size_t(bound)];
  parts.push_back(
      std::make_unique<BoundPart<BF16, uint16_t, bound>>("bf16", info));
  parts.push_back(
      std::make_unique<BoundPart<F16, uint16_t, bound>>("f16", info));
  parts.push_back(
      std::make_unique<BoundPart<E4M3, uint8_t, bound>>("f8E4M3FN", info));
  parts.push_back(
      std::make_unique<BoundPart<E5M2, uint8_t, bound>>("f8E5M2", info));
}

void tandem::verify::addLemmaParts(Parts &parts) {
  addBoundParts<Bound::FastTwoSum>(parts);
  addBoundParts<Bound::OrderedFastTwoSum>(parts);
  addBoundParts<Bound::TwoSum>(parts);
  addUnroundedParts(parts);
  parts.push_back(std::make_unique<FmaSumsPart>());
  parts.push_back(std::make_unique<GrownPart<E4M3>>("f8E4M3FN"));
  parts.push_back(std::make_unique<GrownPart<E5M2>>("f8E5M2"));
}
