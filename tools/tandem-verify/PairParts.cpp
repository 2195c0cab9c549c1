//===- PairParts.cpp - All pairs of operands ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts with all pairs of numbers of a format:
// arithmetic, and error-free transforms with the conditions under which they
// are exact.
//
//===----------------------------------------------------------------------===//

#include "Listings.h"
#include "Part.h"
#include "llvm/Support/FormatVariadic.h"

using namespace tandem::verify;

namespace {
enum class Operation {
  Add,
  Sub,
  Mul,
  Div,
  FastTwoSum,
  TwoSum,
  OrderedTwoSum,
  TwoProd,
  TwoProdDekker
};

struct OperationInfo {
  Operation operation;
  const char *name;
  /// The MLIR text that computes %r, with {0} for the format.
  const char *text;
  bool isTransform;
};

/// Facts about a pair and its result.
enum Fact : int64_t {
  /// The operands and the leading result are finite.
  Counted = 1,
  /// The documented condition for exactness holds.
  Granted = 2,
  /// The sum of the results is not exact.
  Inexact = 4,
  /// A documented property does not hold.
  Broken = 8
};
} // namespace

static const OperationInfo operations[] = {
    {Operation::Add, "add", "%r = arith.addf %a, %b : {0}", false},
    {Operation::Sub, "sub", "%r = arith.subf %a, %b : {0}", false},
    {Operation::Mul, "mul", "%r = arith.mulf %a, %b : {0}", false},
    {Operation::Div, "div", "%r = arith.divf %a, %b : {0}", false},
    {Operation::FastTwoSum, "fast_two_sum",
     "%r = mcf.fast_two_sum %a, %b granted : !mcf.expansion<{0} x 2>", true},
    {Operation::TwoSum, "two_sum",
     "%r = mcf.two_sum %a, %b : !mcf.expansion<{0} x 2>", true},
    {Operation::OrderedTwoSum, "ordered_two_sum",
     "%x0 = arith.addf %a, %b : {0}\n"
     "  %d = arith.subf %a, %x0 : {0}\n"
     "  %y0 = arith.addf %d, %b : {0}\n"
     "  %r = mcf.pack %x0, %y0 : !mcf.expansion<{0} x 2>",
     true},
    {Operation::TwoProd, "two_prod",
     "%r = mcf.two_prod %a, %b : !mcf.expansion<{0} x 2>", true},
    {Operation::TwoProdDekker, "two_prod_dekker",
     "%r = mcf.two_prod_dekker %a, %b : !mcf.expansion<{0} x 2>", true}};

/// Returns the sum that -tandem-analyze-ranges replaces a two_sum by. It must
/// have the same bits where a is a multiple of b's ulp and x is finite.
template <typename F>
static TANDEM_LANES RealPair addOrdered(Reals a, Reals b) {
  RealPair sum = Listings<F>::orderedTwoSum(a, b);
  RealPair wanted = Listings<F>::twoSum(a, b);
  Mask isGranted =
      isMultipleOfUlp<F>(a, b) & isFinite(a) & isFinite(b) & isFinite(sum.x);
  return {sum.x, select(isGranted, wanted.y, sum.y)};
}

template <typename F, Operation op>
static TANDEM_LANES RealPair apply(Reals a, Reals b) {
  using L = Listings<F>;
  if constexpr (op == Operation::Add)
    return {F::add(a, b), Reals{}};
  else if constexpr (op == Operation::Sub)
    return {F::sub(a, b), Reals{}};
  else if constexpr (op == Operation::Mul)
    return {F::mul(a, b), Reals{}};
  else if constexpr (op == Operation::Div)
    return {F::div(a, b), Reals{}};
  else if constexpr (op == Operation::FastTwoSum)
    return L::fastTwoSum(a, b);
  else if constexpr (op == Operation::TwoSum)
    return L::twoSum(a, b);
  else if constexpr (op == Operation::OrderedTwoSum)
    return addOrdered<F>(a, b);
  else if constexpr (op == Operation::TwoProd)
    return L::twoProd(a, b);
  else
    return L::twoProdDekker(a, b);
}

/// Checks the promises of docs/MCF.md for an operation: it is exact under a
/// condition, and products lose no more than half of the smallest number.
template <typename F, Operation op>
static TANDEM_LANES Words findFacts(Reals a, Reals b, RealPair got) {
  constexpr bool isSum = op == Operation::FastTwoSum ||
                         op == Operation::TwoSum ||
                         op == Operation::OrderedTwoSum;
  ExactSum want = isSum ? addExactly(a, b) : ExactSum{a * b, Reals{}};
  ExactSum sum = addExactly(got.x, got.y);
  Mask isCounted = isFinite(a) & isFinite(b) & isFinite(got.x);
  Mask isExact = (sum.sum == want.sum) & (sum.error == want.error);
  Mask isGranted = isCounted;
  Mask isBroken = Mask{};
  if constexpr (op == Operation::FastTwoSum)
    isGranted &= (magnitude(a) >= magnitude(b)) | (a == 0);
  if constexpr (op == Operation::TwoSum)
    isGranted &= isFinite(got.y);
  if constexpr (op == Operation::OrderedTwoSum)
    isGranted &= isMultipleOfUlp<F>(a, b);
  if constexpr (!isSum)
    isGranted &= F::binade(a) * F::binade(b) >=
                 powerOfTwo(F::minExponent + F::precision - 1);
  if constexpr (op == Operation::TwoProdDekker)
    isGranted &= isFinite(got.y);
  if constexpr (op == Operation::TwoProd) {
    Reals lost = magnitude((want.sum - got.x) - got.y);
    isBroken = isCounted & ~(lost <= powerOfTwo(F::minExponent - F::precision));
  }
  // Dekker's product has no documented condition.
  if constexpr (op != Operation::TwoProdDekker)
    isBroken |= isGranted & ~isExact;
  Mask facts = (isCounted & int64_t(Counted)) | (isGranted & int64_t(Granted)) |
               (isCounted & ~isExact & int64_t(Inexact)) |
               (isBroken & int64_t(Broken));
  return (Words)facts;
}

namespace {
template <typename F, typename Code>
class PairPart : public Part {
public:
  PairPart(llvm::StringRef format, const OperationInfo &info)
      : Part((format + "-" + info.name).str(),
             llvm::formatv("{0} of all pairs of {1}", info.name, format)),
        info(info) {
    inputs = {{"a", sizeof(Code)}, {"b", sizeof(Code)}};
    results = {{"r", sizeof(Code)}};
    if (info.isTransform)
      results.push_back({"r.lo", sizeof(Code)});
    units = numPairUnits<Code>;
    kernel = writeText(format);
  }

  void fill(Block &block) const override { fillPairs<Code>(block); }

  void expect(Block &block) const override {
    select(
        [&](auto operation) { expectAs<decltype(operation)::value>(block); });
  }

  void measure(const Block &block, Findings &findings) const override {
    if (info.isTransform)
      select([&](auto operation) {
        measureAs<decltype(operation)::value>(block, findings);
      });
  }

private:
  std::string writeText(llvm::StringRef format) const {
    std::string body =
        llvm::formatv("  %a = tandem.load_plane %t_a[0] : !a -> {0}\n"
                      "  %b = tandem.load_plane %t_b[0] : !b -> {0}\n"
                      "  {1}\n",
                      format, llvm::formatv(info.text, format).str());
    if (info.isTransform)
      body += llvm::formatv(
          "  %x, %y = mcf.components %r : !mcf.expansion<{0} x 2>\n"
          "  tandem.store_plane %x, %t_r[0] : {0}, !r\n"
          "  tandem.store_plane %y, %t_r[1] : {0}, !r\n",
          format);
    else
      body +=
          llvm::formatv("  tandem.store_plane %r, %t_r[0] : {0}, !r\n", format);
    std::string policy =
        sizeof(Code) == 2 ? ("component, " + format).str() : "f32, f32";
    std::string plain = floatStorage(format);
    std::string pair = ("#tandem.expansion<" + format + " x 2>").str();
    return writeKernel(policy, {{"a", plain}, {"b", plain}},
                       {{"r", info.isTransform ? pair : plain}}, body);
  }

  /// Calls `body` with the operation as a compile-time constant.
  template <typename Body>
  void select(const Body &body) const {
    using O = Operation;
    switch (info.operation) {
    case O::Add:
      return body(std::integral_constant<O, O::Add>());
    case O::Sub:
      return body(std::integral_constant<O, O::Sub>());
    case O::Mul:
      return body(std::integral_constant<O, O::Mul>());
    case O::Div:
      return body(std::integral_constant<O, O::Div>());
    case O::FastTwoSum:
      return body(std::integral_constant<O, O::FastTwoSum>());
    case O::TwoSum:
      return body(std::integral_constant<O, O::TwoSum>());
    case O::OrderedTwoSum:
      return body(std::integral_constant<O, O::OrderedTwoSum>());
    case O::TwoProd:
      return body(std::integral_constant<O, O::TwoProd>());
    case O::TwoProdDekker:
      return body(std::integral_constant<O, O::TwoProdDekker>());
    }
  }

  template <Operation op>
  static void expectAs(Block &block) {
    const auto *a = block.inputs[0].get<Code>(),
               *b = block.inputs[1].get<Code>();
    auto *x = block.expected[0].get<Code>();
    auto *y = block.expected.back().get<Code>();
    bool isPair = block.expected.size() == 2;
    forLanes(block.size, [=](size_t i) {
      RealPair result = apply<F, op>(F::decode(loadCodes(a + i)),
                                     F::decode(loadCodes(b + i)));
      if (isPair)
        storeCodes(y + i, F::encode(result.y));
      storeCodes(x + i, F::encode(result.x));
    });
  }

  template <Operation op>
  void measureAs(const Block &block, Findings &findings) const {
    const auto *a = block.inputs[0].get<Code>(),
               *b = block.inputs[1].get<Code>();
    const auto *x = block.results[0].get<Code>(),
               *y = block.results.back().get<Code>();
    static thread_local uint8_t facts[blockSize];
    uint8_t *out = facts;
    forLanes(block.size, [=](size_t i) {
      RealPair got = {F::decode(loadCodes(x + i)), F::decode(loadCodes(y + i))};
      storeCodes(out + i, findFacts<F, op>(F::decode(loadCodes(a + i)),
                                           F::decode(loadCodes(b + i)), got));
    });
    count(block, facts, findings);
  }

  void count(const Block &block, const uint8_t *facts,
             Findings &findings) const {
    uint64_t numbers[16] = {};
    for (size_t i = 0; i < block.size; ++i)
      ++numbers[facts[i] & 15];
    for (unsigned i = 0; i < 16; ++i) {
      findings.counts["finite"] += i & Counted ? numbers[i] : 0;
      findings.counts["condition holds"] += i & Granted ? numbers[i] : 0;
      findings.counts["inexact"] += i & Inexact ? numbers[i] : 0;
      findings.counts["inexact under the condition"] +=
          (i & Inexact) && (i & Granted) ? numbers[i] : 0;
    }
    for (size_t i = 0; i < block.size; ++i)
      if (facts[i] & Broken)
        findings.fail(block.unit * blockSize + i, [&] {
          return describe(block, i) + ", which docs/MCF.md excludes";
        });
  }

  const OperationInfo &info;
};
} // namespace

void tandem::verify::addPairParts(Parts &parts) {
  for (const OperationInfo &info : operations) {
    parts.push_back(std::make_unique<PairPart<BF16, uint16_t>>("bf16", info));
    parts.push_back(std::make_unique<PairPart<F16, uint16_t>>("f16", info));
    parts.push_back(
        std::make_unique<PairPart<E4M3, uint8_t>>("f8E4M3FN", info));
    parts.push_back(std::make_unique<PairPart<E5M2, uint8_t>>("f8E5M2", info));
  }
}
