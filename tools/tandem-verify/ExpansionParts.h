//===- ExpansionParts.h - Operations of expansions --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what the parts of double-word operations share: the
// operations, their expected results, and the error of a result.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_EXPANSIONPARTS_H
#define TANDEM_VERIFY_EXPANSIONPARTS_H

#include "Listings.h"
#include "Part.h"

namespace tandem::verify {

enum class Expansion {
  Grow,
  Kahan,
  Scale,
  Mul,
  Add,
  Sub,
  Div,
  Sqrt,
  Renormalize
};

/// The operand after x: none, a component a, or another expansion y.
enum class Other { None, Component, Expansion };

struct ExpansionInfo {
  Expansion operation;
  const char *name;
  Other other;
  /// The bound in docs/MCF.md is bound + more * u, in u^2, for precisions of at
  /// least `precision`.
  std::optional<double> bound;
  double more;
  int precision;

  std::optional<double> getBound(int ofPrecision) const {
    if (!bound || ofPrecision < precision)
      return std::nullopt;
    return *bound + more * powerOfTwo(-ofPrecision);
  }
};

llvm::ArrayRef<ExpansionInfo> getExpansionOperations();

template <Expansion op, typename F>
TANDEM_LANES RealPair applyListing(RealPair x, RealPair y) {
  using L = Listings<F>;
  if constexpr (op == Expansion::Grow)
    return L::grow(x, y.x);
  else if constexpr (op == Expansion::Kahan)
    return L::kahan(x, y.x);
  else if constexpr (op == Expansion::Scale)
    return L::scale(x, y.x);
  else if constexpr (op == Expansion::Mul)
    return L::mul(x, y);
  else if constexpr (op == Expansion::Add)
    return L::add(x, y);
  else if constexpr (op == Expansion::Sub)
    return L::sub(x, y);
  else if constexpr (op == Expansion::Div)
    return L::div(x, y);
  else if constexpr (op == Expansion::Sqrt)
    return L::sqrt(x);
  else
    return L::renormalize(x);
}

/// Returns |result - exact| / |exact|. The bits of the operands span so few
/// places that each line is exact, except for the quotients at the end.
template <Expansion op>
TANDEM_LANES Reals findError(RealPair x, RealPair y, RealPair z) {
  Reals error, size, whole = y.x + y.y;
  if constexpr (op == Expansion::Scale || op == Expansion::Mul) {
    error = ((z.x + z.y) - x.x * whole) - x.y * whole;
    size = x.x * whole + x.y * whole;
  } else if constexpr (op == Expansion::Div) {
    error = ((z.x * whole - x.x) - x.y) + z.y * whole;
    size = x.x + x.y;
  } else if constexpr (op == Expansion::Sqrt) {
    Reals root = z.x + z.y;
    error = ((z.x * root - x.x) - x.y) + z.y * root;
    size = x.x + x.y;
    Reals share = error / size; // (1 + d)^2 - 1
    error = size * (share / 2 - share * share / 8);
  } else if constexpr (op == Expansion::Renormalize) {
    size = x.x + x.y;
    error = (z.x + z.y) - size;
  } else {
    size = (x.x + x.y) + (op == Expansion::Sub ? -whole : whole);
    error = (z.x + z.y) - size;
  }
  Reals share = magnitude(error) / magnitude(size);
  return select((error == 0) & isFinite(z.x), Reals{}, share);
}

/// A part that applies an operation to expansions of two components.
template <typename F, typename Code>
class ExpansionPart : public Part {
public:
  ExpansionPart(llvm::StringRef format, const ExpansionInfo &info,
                const std::string &description)
      : Part((format + "-x2-" + info.name).str(), description), info(info) {
    inputs = {{"x", sizeof(Code)}, {"x.lo", sizeof(Code)}};
    if (info.other == Other::Component)
      inputs.push_back({"a", sizeof(Code)});
    if (info.other == Other::Expansion) {
      inputs.push_back({"y", sizeof(Code)});
      inputs.push_back({"y.lo", sizeof(Code)});
    }
    results = {{"r", sizeof(Code)}, {"r.lo", sizeof(Code)}};
  }

  void expect(Block &block) const override { evaluate(block, block.expected); }

  void measure(const Block &block, Findings &findings) const override {
    if (!isMeasured(block))
      return;
    static thread_local double errors[blockSize];
    select([&](auto operation) {
      measureAs<decltype(operation)::value>(block, errors);
    });
    observeLargest(block, "error in u^2", llvm::ArrayRef(errors, block.size),
                   info.getBound(F::precision), findings);
  }

protected:
  /// Returns whether the bounds hold for the operands of the unit.
  virtual bool isMeasured(const Block &block) const { return true; }

  void evaluate(const Block &block, std::vector<Array> &to) const {
    select([&](auto operation) {
      evaluateAs<decltype(operation)::value>(block, to);
    });
  }

  const ExpansionInfo &info;

private:
  /// Calls `body` with the operation as a compile-time constant.
  template <typename Body>
  void select(const Body &body) const {
    using O = Expansion;
    switch (info.operation) {
    case O::Grow:
      return body(std::integral_constant<O, O::Grow>());
    case O::Kahan:
      return body(std::integral_constant<O, O::Kahan>());
    case O::Scale:
      return body(std::integral_constant<O, O::Scale>());
    case O::Mul:
      return body(std::integral_constant<O, O::Mul>());
    case O::Add:
      return body(std::integral_constant<O, O::Add>());
    case O::Sub:
      return body(std::integral_constant<O, O::Sub>());
    case O::Div:
      return body(std::integral_constant<O, O::Div>());
    case O::Sqrt:
      return body(std::integral_constant<O, O::Sqrt>());
    case O::Renormalize:
      return body(std::integral_constant<O, O::Renormalize>());
    }
  }

  /// The operands in lanes. A missing second component is zero.
  struct Operands {
    const Code *planes[4];
    TANDEM_LANES RealPair get(unsigned first, unsigned second, size_t i) const {
      return {F::decode(loadCodes(planes[first] + i)),
              planes[second] ? F::decode(loadCodes(planes[second] + i))
                             : Reals{}};
    }
  };

  static Operands getOperands(const Block &block) {
    Operands operands = {};
    for (size_t i = 0; i < block.inputs.size(); ++i)
      operands.planes[i] = block.inputs[i].template get<Code>();
    // Operations with one operand ignore the second.
    if (block.inputs.size() == 2)
      operands.planes[2] = operands.planes[0];
    return operands;
  }

  template <Expansion op>
  static void evaluateAs(const Block &block, std::vector<Array> &to) {
    Operands operands = getOperands(block);
    auto *high = to[0].template get<Code>(), *low = to[1].template get<Code>();
    forLanes(block.size, [=](size_t i) {
      RealPair result =
          applyListing<op, F>(operands.get(0, 1, i), operands.get(2, 3, i));
      storeCodes(high + i, F::encode(result.x));
      storeCodes(low + i, F::encode(result.y));
    });
  }

  template <Expansion op>
  static void measureAs(const Block &block, double *errors) {
    Operands operands = getOperands(block);
    const auto *high = block.results[0].template get<Code>(),
               *low = block.results[1].template get<Code>();
    constexpr double scale = powerOfTwo(2 * F::precision);
    forLanes(block.size, [=](size_t i) {
      RealPair result = {F::decode(loadCodes(high + i)),
                         F::decode(loadCodes(low + i))};
      storeReals(errors + i, findError<op>(operands.get(0, 1, i),
                                           operands.get(2, 3, i), result) *
                                 scale);
    });
  }
};

/// Returns the text of a kernel that applies the operation.
std::string writeExpansionKernel(llvm::StringRef format, llvm::StringRef policy,
                                 const ExpansionInfo &info);

} // namespace tandem::verify

#endif // TANDEM_VERIFY_EXPANSIONPARTS_H
