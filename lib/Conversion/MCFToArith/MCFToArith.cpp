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

#include "tandem/Conversion/MCFToArith.h"
#include "Sequences.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Transforms/DialectConversion.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTMCFTOARITH
#include "tandem/Conversion/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::mcf;

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

using Operands = ArrayRef<ValueRange>;

namespace {
/// Replaces one operation by its sequence. The operands are given as
/// components. Those of mixed expansions are widened to the leading format,
/// except for operations on stored components.
template <typename OpTy>
struct MCFPattern : public OpConversionPattern<OpTy> {
  using Adaptor = typename OpTy::template GenericAdaptor<ArrayRef<ValueRange>>;
  using OpConversionPattern<OpTy>::OpConversionPattern;

  LogicalResult
  matchAndRewrite(OpTy op, Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    // The locations of the new operations name the operation that they replace.
    StringAttr name = rewriter.getStringAttr(op->getName().getStringRef());
    SequenceBuilder b(rewriter, NameLoc::get(name, op.getLoc()));
    constexpr bool isRaw = std::is_same_v<OpTy, PackOp> ||
                           std::is_same_v<OpTy, ComponentsOp> ||
                           std::is_same_v<OpTy, NegOp>;
    SmallVector<Parts> widened;
    SmallVector<ValueRange> operands;
    for (auto [value, parts] :
         llvm::zip(op->getOperands(), adaptor.getOperands()))
      widened.push_back(isRaw || !isMixed(value.getType())
                            ? Parts(parts)
                            : widenMixed(b, parts));
    for (const Parts &parts : widened)
      operands.push_back(parts);
    Parts parts = expand(op, operands, b);
    if constexpr (std::is_same_v<OpTy, ComponentsOp>) {
      rewriter.replaceOp(op, parts);
    } else {
      Type type = op->getResult(0).getType();
      if (!isRaw && isMixed(type))
        parts = narrowMixed(b, parts, trailingOf(type));
      rewriter.replaceOpWithMultiple(op, {ValueRange(parts)});
    }
    return success();
  }

  /// Returns the components of the result (in the leading format if it is
  /// mixed).
  Parts expand(OpTy op, Operands operands, SequenceBuilder &b) const;

private:
  static bool isMixed(Type type) {
    auto expansion = dyn_cast<ExpansionType>(getElementTypeOrSelf(type));
    return expansion && expansion.isMixed();
  }
  static Type trailingOf(Type type) {
    return cast<ExpansionType>(getElementTypeOrSelf(type))
        .getComponents()
        .back();
  }
};
} // namespace

static Parts parts(Pair pair) { return {pair.high, pair.low}; }

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
Parts MCFPattern<SplitOp>::expand(SplitOp, Operands o,
                                  SequenceBuilder &b) const {
  return parts(split(b, o[0][0]));
}
template <>
Parts MCFPattern<GrowOp>::expand(GrowOp, Operands o, SequenceBuilder &b) const {
  return grow(b, o[0], o[1][0]);
}
template <>
Parts MCFPattern<KahanOp>::expand(KahanOp, Operands o,
                                  SequenceBuilder &b) const {
  return kahan(b, o[0], o[1][0]);
}
template <>
Parts MCFPattern<ScaleOp>::expand(ScaleOp, Operands o,
                                  SequenceBuilder &b) const {
  return scale(b, o[0], o[1][0]);
}
template <>
Parts MCFPattern<MulOp>::expand(MulOp, Operands o, SequenceBuilder &b) const {
  return mul(b, o[0], o[1]);
}
template <>
Parts MCFPattern<AddOp>::expand(AddOp, Operands o, SequenceBuilder &b) const {
  return add(b, o[0], o[1]);
}
template <>
Parts MCFPattern<SubOp>::expand(SubOp, Operands o, SequenceBuilder &b) const {
  return add(b, o[0], neg(b, o[1]));
}
template <>
Parts MCFPattern<DivOp>::expand(DivOp, Operands o, SequenceBuilder &b) const {
  return div(b, o[0], o[1]);
}
template <>
Parts MCFPattern<SqrtOp>::expand(SqrtOp, Operands o, SequenceBuilder &b) const {
  return sqrt(b, o[0]);
}
template <>
Parts MCFPattern<NegOp>::expand(NegOp, Operands o, SequenceBuilder &b) const {
  return neg(b, o[0]);
}
template <>
Parts MCFPattern<RenormalizeOp>::expand(RenormalizeOp, Operands o,
                                        SequenceBuilder &b) const {
  return renormalize(b, o[0]);
}
template <>
Parts MCFPattern<CompareOp>::expand(CompareOp op, Operands o,
                                    SequenceBuilder &b) const {
  return {compare(b, op.getPredicate(), o[0], o[1])};
}
template <>
Parts MCFPattern<ConvertOp>::expand(ConvertOp, Operands o,
                                    SequenceBuilder &) const {
  return Parts(o[0]);
}
template <>
Parts MCFPattern<PackOp>::expand(PackOp, Operands o, SequenceBuilder &) const {
  return llvm::map_to_vector(o, [](ValueRange range) { return range[0]; });
}
template <>
Parts MCFPattern<ComponentsOp>::expand(ComponentsOp, Operands o,
                                       SequenceBuilder &) const {
  return Parts(o[0]);
}

/// Returns the types of the components that the sequences for an expansion
/// compute with.
static SmallVector<Type> computedComponents(Type type) {
  auto expansion = cast<ExpansionType>(getElementTypeOrSelf(type));
  return SmallVector<Type>(expansion.getLength(), expansion.getLeading());
}

/// Splits a literal: each component is what the earlier ones leave over,
/// rounded once.
template <>
Parts MCFPattern<ConstantOp>::expand(ConstantOp op, Operands,
                                     SequenceBuilder &b) const {
  llvm::APFloat rest = op.getValue();
  Parts result;
  for (Type component : computedComponents(op.getType())) {
    bool losesInfo = false;
    llvm::APFloat part = rest;
    part.convert(cast<FloatType>(component).getFloatSemantics(),
                 llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    result.push_back(b.fromBits(withElementType(op.getType(), component),
                                part.bitcastToAPInt().getZExtValue()));
    part.convert(llvm::APFloat::IEEEdouble(),
                 llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    rest = part.isFinite() ? rest - part : llvm::APFloat(0.0);
  }
  return result;
}

/// Computes hi = fl(x), lo = fl(x - hi), ...; a component after one that is not
/// finite is +0.
template <>
Parts MCFPattern<FromFloatOp>::expand(FromFloatOp op, Operands o,
                                      SequenceBuilder &b) const {
  Value rest = o[0][0];
  Type wide = getElementTypeOrSelf(rest.getType());
  Value infinity =
      b.real(rest.getType(), std::numeric_limits<double>::infinity());
  Value zero = b.real(rest.getType(), 0.0);
  SmallVector<Type> types = computedComponents(op.getType());
  Parts components;
  for (auto [index, component] : llvm::enumerate(types)) {
    components.push_back(b.convert(rest, component));
    if (index + 1 == types.size())
      break;
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
  Type wide = getElementTypeOrSelf(op.getType());
  Value sum = b.convert(o[0].back(), wide);
  for (Value component : llvm::reverse(o[0].drop_back()))
    sum = b.add(b.convert(component, wide), sum);
  return {sum};
}

tandem::ExpansionConverter::ExpansionConverter() {
  addConversion([](Type type) { return type; });
  addConversion(
      [](Type type,
         SmallVectorImpl<Type> &results) -> std::optional<LogicalResult> {
        auto expansion = dyn_cast<ExpansionType>(getElementTypeOrSelf(type));
        if (!expansion)
          return std::nullopt;
        for (Type component : expansion.getComponents())
          results.push_back(withElementType(type, component));
        return success();
      });
}

void tandem::populateMCFToArithPatterns(const ExpansionConverter &converter,
                                        RewritePatternSet &patterns) {
  patterns.add<
      MCFPattern<FastTwoSumOp>, MCFPattern<TwoSumOp>, MCFPattern<TwoProdOp>,
      MCFPattern<TwoProdDekkerOp>, MCFPattern<SplitOp>, MCFPattern<GrowOp>,
      MCFPattern<KahanOp>, MCFPattern<ScaleOp>, MCFPattern<MulOp>,
      MCFPattern<AddOp>, MCFPattern<SubOp>, MCFPattern<DivOp>,
      MCFPattern<SqrtOp>, MCFPattern<NegOp>, MCFPattern<RenormalizeOp>,
      MCFPattern<CompareOp>, MCFPattern<ConstantOp>, MCFPattern<ConvertOp>,
      MCFPattern<PackOp>, MCFPattern<ComponentsOp>, MCFPattern<FromFloatOp>,
      MCFPattern<ToFloatOp>>(converter, patterns.getContext());
}

namespace {
struct ConvertMCFToArithPass
    : public tandem::impl::ConvertMCFToArithBase<ConvertMCFToArithPass> {
  void runOnOperation() override {
    tandem::ExpansionConverter converter;
    RewritePatternSet patterns(&getContext());
    tandem::populateMCFToArithPatterns(converter, patterns);
    ConversionTarget target(getContext());
    populateStructure(converter, patterns, target);
    unsigned count = 0;
    getOperation()->walk([&](Operation *op) {
      count += isa_and_nonnull<MCFDialect>(op->getDialect());
    });
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      return signalPassFailure();
    numExpanded += count;
  }

  /// Converts functions, calls and scf regions with expansions to components.
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
