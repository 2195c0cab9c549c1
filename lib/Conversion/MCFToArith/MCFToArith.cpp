//===- MCFToArith.cpp - Spell out multi-component floats ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of mcf operations to component
// arithmetic. Each function below is the listing of docs/MCF.md, line by line.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Transforms/DialectConversion.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/SequenceBuilder.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_CONVERTMCFTOARITH
#include "tandem/Conversion/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::mcf;
using tandem::SequenceBuilder;
using tandem::FloatFormat;

//===----------------------------------------------------------------------===//
// The sequences
//===----------------------------------------------------------------------===//

namespace {
/// Two components in decreasing magnitude.
struct Pair {
  Value high, low;
};
} // namespace

static Pair fastTwoSum(SequenceBuilder &b, Value x, Value y) {
  Value sum = b.add(x, y);
  return {sum, b.sub(y, b.sub(sum, x))};
}

static Pair twoSum(SequenceBuilder &b, Value x, Value y) {
  Value sum = b.add(x, y);
  Value second = b.sub(sum, x);
  Value first = b.sub(sum, second);
  return {sum, b.add(b.sub(x, first), b.sub(y, second))};
}

static Pair twoProd(SequenceBuilder &b, Value x, Value y) {
  Value product = b.mul(x, y);
  return {product, b.fma(x, y, b.neg(product))};
}

static Pair split(SequenceBuilder &b, Value x) {
  unsigned precision =
      FloatFormat::get(getElementTypeOrSelf(x.getType())).precision();
  double factor = double((uint64_t(1) << ((precision + 1) / 2)) + 1);
  Value scaled = b.mul(b.real(x.getType(), factor), x);
  Value high = b.sub(scaled, b.sub(scaled, x));
  return {high, b.sub(x, high)};
}

static Pair twoProdDekker(SequenceBuilder &b, Value x, Value y) {
  Pair s = split(b, x), t = split(b, y);
  Value product = b.mul(x, y);
  Value error = b.sub(product, b.mul(s.high, t.high));
  error = b.sub(error, b.mul(s.low, t.high));
  error = b.sub(error, b.mul(s.high, t.low));
  return {product, b.sub(b.mul(s.low, t.low), error)};
}

static Pair grow(SequenceBuilder &b, Pair s, Value a) {
  Pair sum = fastTwoSum(b, s.high, a);
  return fastTwoSum(b, sum.high, b.add(s.low, sum.low));
}

static Pair kahan(SequenceBuilder &b, Pair s, Value a) {
  return fastTwoSum(b, s.high, b.add(a, s.low));
}

static Pair scale(SequenceBuilder &b, Pair s, Value v) {
  Pair product = twoProd(b, s.high, v);
  Value error = b.add(b.mul(s.low, v), product.low);
  return fastTwoSum(b, product.high, error);
}

static Pair mul(SequenceBuilder &b, Pair s, Pair t) {
  Pair product = twoProd(b, s.high, t.high);
  Value cross = b.add(b.mul(s.high, t.low), b.mul(s.low, t.high));
  return fastTwoSum(b, product.high, b.add(product.low, cross));
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
template <typename OpTy>
struct MCFPattern : public OpConversionPattern<OpTy> {
  using Adaptor = typename OpTy::template GenericAdaptor<ArrayRef<ValueRange>>;
  MCFPattern(TypeConverter &converter, MLIRContext *context,
             Pass::Statistic &expanded)
      : OpConversionPattern<OpTy>(converter, context), expanded(expanded) {}

  LogicalResult
  matchAndRewrite(OpTy op, Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SequenceBuilder b(rewriter, op.getLoc());
    FailureOr<SmallVector<Value>> parts = expand(op, adaptor.getOperands(), b);
    if (failed(parts))
      return failure();
    ++expanded;
    if constexpr (std::is_same_v<OpTy, ComponentsOp>)
      rewriter.replaceOp(op, *parts);
    else
      rewriter.replaceOpWithMultiple(op, {ValueRange(*parts)});
    return success();
  }

  /// The components of the result. A list of parts per operand.
  FailureOr<SmallVector<Value>> expand(OpTy op, ArrayRef<ValueRange> operands,
                                       SequenceBuilder &b) const;

  Pass::Statistic &expanded;
};
} // namespace

using Parts = FailureOr<SmallVector<Value>>;
using Operands = ArrayRef<ValueRange>;

static Parts parts(Pair pair) { return SmallVector<Value>{pair.high, pair.low}; }
static Pair pair(ValueRange values) { return {values[0], values[1]}; }

/// The sequences below are for two components of one format.
static LogicalResult requirePair(Operation *op, Type type) {
  auto expansion = cast<ExpansionType>(getElementTypeOrSelf(type));
  if (expansion.getLength() == 2 && !expansion.isMixed())
    return success();
  return op->emitError("'") << op->getName() << "' has a sequence for two "
                            << "components of one format; got " << expansion;
}

template <>
Parts MCFPattern<FastTwoSumOp>::expand(FastTwoSumOp op, Operands o,
                                       SequenceBuilder &b) const {
  if (op.getGranted())
    return parts(fastTwoSum(b, o[0][0], o[1][0]));
  return parts(twoSum(b, o[0][0], o[1][0]));
}
template <>
Parts MCFPattern<TwoSumOp>::expand(TwoSumOp, Operands o,
                                   SequenceBuilder &b) const {
  return parts(twoSum(b, o[0][0], o[1][0]));
}
template <>
Parts MCFPattern<TwoProdOp>::expand(TwoProdOp, Operands o,
                                    SequenceBuilder &b) const {
  return parts(twoProd(b, o[0][0], o[1][0]));
}
template <>
Parts MCFPattern<TwoProdDekkerOp>::expand(TwoProdDekkerOp, Operands o,
                                          SequenceBuilder &b) const {
  return parts(twoProdDekker(b, o[0][0], o[1][0]));
}
template <>
Parts MCFPattern<SplitOp>::expand(SplitOp, Operands o, SequenceBuilder &b) const {
  return parts(split(b, o[0][0]));
}
template <>
Parts MCFPattern<GrowOp>::expand(GrowOp op, Operands o, SequenceBuilder &b) const {
  if (failed(requirePair(op, op.getType())))
    return failure();
  return parts(grow(b, pair(o[0]), o[1][0]));
}
template <>
Parts MCFPattern<KahanOp>::expand(KahanOp, Operands o, SequenceBuilder &b) const {
  return parts(kahan(b, pair(o[0]), o[1][0]));
}
template <>
Parts MCFPattern<ScaleOp>::expand(ScaleOp op, Operands o,
                                  SequenceBuilder &b) const {
  if (failed(requirePair(op, op.getType())))
    return failure();
  return parts(scale(b, pair(o[0]), o[1][0]));
}
template <>
Parts MCFPattern<MulOp>::expand(MulOp op, Operands o, SequenceBuilder &b) const {
  if (failed(requirePair(op, op.getType())))
    return failure();
  return parts(mul(b, pair(o[0]), pair(o[1])));
}
template <>
Parts MCFPattern<NegOp>::expand(NegOp, Operands o, SequenceBuilder &b) const {
  return llvm::map_to_vector(o[0], [&](Value value) { return b.neg(value); });
}
template <>
Parts MCFPattern<PackOp>::expand(PackOp, Operands o, SequenceBuilder &) const {
  return llvm::map_to_vector(o, [](ValueRange range) { return range[0]; });
}
template <>
Parts MCFPattern<ComponentsOp>::expand(ComponentsOp, Operands o,
                                       SequenceBuilder &) const {
  return SmallVector<Value>(o[0]);
}

/// hi = fl(x), lo = fl(x - hi), ...; a low component is +0 behind a component
/// that is not finite.
template <>
Parts MCFPattern<FromFloatOp>::expand(FromFloatOp op, Operands o,
                                      SequenceBuilder &b) const {
  auto expansion = cast<ExpansionType>(getElementTypeOrSelf(op.getType()));
  if (expansion.isMixed())
    return op.emitError("from_float has no sequence for a mixed expansion");
  Value rest = o[0][0];
  Type wide = getElementTypeOrSelf(rest.getType());
  Value infinity = b.real(rest.getType(), std::numeric_limits<double>::infinity());
  Value zero = b.real(rest.getType(), 0.0);
  SmallVector<Value> components;
  for (Type component : expansion.getComponents()) {
    components.push_back(b.convert(rest, component));
    Value back = b.convert(components.back(), wide);
    Value isFinite =
        b.compare(arith::CmpFPredicate::OLT, b.abs(back), infinity);
    rest = b.select(isFinite, b.sub(rest, back), zero);
  }
  return components;
}

template <>
Parts MCFPattern<ToFloatOp>::expand(ToFloatOp op, Operands o,
                                    SequenceBuilder &b) const {
  auto expansion =
      cast<ExpansionType>(getElementTypeOrSelf(op.getOperand().getType()));
  if (expansion.isMixed())
    return op.emitError("to_float has no sequence for a mixed expansion");
  Type wide = getElementTypeOrSelf(op.getType());
  Value sum = b.convert(o[0].back(), wide);
  for (Value component : llvm::reverse(o[0].drop_back()))
    sum = b.add(b.convert(component, wide), sum);
  return SmallVector<Value>{sum};
}

namespace {
struct ConvertMCFToArithPass
    : public tandem::impl::ConvertMCFToArithBase<ConvertMCFToArithPass> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    TypeConverter converter;
    converter.addConversion([](Type type) { return type; });
    converter.addConversion(
        [](Type type, SmallVectorImpl<Type> &results) -> std::optional<LogicalResult> {
          auto expansion = dyn_cast<ExpansionType>(getElementTypeOrSelf(type));
          if (!expansion)
            return std::nullopt;
          for (Type component : expansion.getComponents())
            results.push_back(withElementType(type, component));
          return success();
        });
    RewritePatternSet patterns(context);
    patterns.add<MCFPattern<FastTwoSumOp>, MCFPattern<TwoSumOp>,
                 MCFPattern<TwoProdOp>, MCFPattern<TwoProdDekkerOp>,
                 MCFPattern<SplitOp>, MCFPattern<GrowOp>, MCFPattern<KahanOp>,
                 MCFPattern<ScaleOp>, MCFPattern<MulOp>, MCFPattern<NegOp>,
                 MCFPattern<PackOp>, MCFPattern<ComponentsOp>,
                 MCFPattern<FromFloatOp>, MCFPattern<ToFloatOp>>(
        converter, context, numExpanded);
    ConversionTarget target(*context);
    populateStructure(converter, patterns, target);
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }

  /// Functions, calls and scf regions that carry expansions carry components.
  void populateStructure(TypeConverter &converter, RewritePatternSet &patterns,
                         ConversionTarget &target) {
    populateFunctionOpInterfaceTypeConversionPattern<func::FuncOp>(patterns,
                                                                   converter);
    populateCallOpTypeConversionPattern(patterns, converter);
    populateReturnOpTypeConversionPattern(patterns, converter);
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    target.addIllegalDialect<MCFDialect>();
    target.addDynamicallyLegalOp<func::FuncOp>([&](func::FuncOp op) {
      return converter.isSignatureLegal(op.getFunctionType()) &&
             converter.isLegal(&op.getBody());
    });
    target.addDynamicallyLegalOp<func::CallOp, func::ReturnOp>(
        [&](Operation *op) { return converter.isLegal(op); });
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  }
};
} // namespace
