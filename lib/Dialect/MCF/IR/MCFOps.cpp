//===- MCFOps.cpp - Operations on multi-component floats ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the verifiers, folders and custom assembly formats of
// the mcf operations.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "tandem/Dialect/MCF/IR/MCF.h"

using namespace mlir;
using namespace tandem::mcf;

static ExpansionType expansionOf(Value value) {
  return cast<ExpansionType>(getElementTypeOrSelf(value.getType()));
}

/// Returns the component types of an expansion value, in its shape.
static SmallVector<Type> componentTypes(Type type) {
  auto expansion = dyn_cast<ExpansionType>(getElementTypeOrSelf(type));
  if (!expansion)
    return {};
  return llvm::map_to_vector(expansion.getComponents(), [&](Type component) {
    return withElementType(type, component);
  });
}

/// Verifies (C1) of the error-free transforms.
static LogicalResult verifyPair(Operation *op) {
  ExpansionType type = expansionOf(op->getResult(0));
  if (type.getLength() == 2 && !type.isMixed())
    return success();
  return op->emitOpError("makes two components of one format, but the result "
                         "is ")
         << type;
}

LogicalResult FastTwoSumOp::verify() { return verifyPair(*this); }
LogicalResult TwoSumOp::verify() { return verifyPair(*this); }
LogicalResult TwoProdOp::verify() { return verifyPair(*this); }
LogicalResult TwoProdDekkerOp::verify() { return verifyPair(*this); }
LogicalResult SplitOp::verify() { return verifyPair(*this); }
LogicalResult KahanOp::verify() { return verifyPair(*this); }

//===----------------------------------------------------------------------===//
// Pack and components
//===----------------------------------------------------------------------===//

ParseResult PackOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  Type type;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseOperandList(operands) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type))
    return failure();
  result.addTypes(type);
  return parser.resolveOperands(operands, componentTypes(type), location,
                                result.operands);
}

void PackOp::print(OpAsmPrinter &printer) {
  printer << " " << getComponents();
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getType();
}

LogicalResult PackOp::verify() {
  SmallVector<Type> types = componentTypes(getType());
  // (C1)
  if (types.size() != getNumOperands())
    return emitOpError("has ")
           << getNumOperands() << " operands, but " << getType() << " has "
           << types.size() << " components";
  // (C2)
  for (auto [index, type] : llvm::enumerate(types))
    if (getOperand(index).getType() != type)
      return emitOpError("operand ") << index << " must be " << type << ", got "
                                     << getOperand(index).getType();
  return success();
}

/// pack(components(x)) is x.
OpFoldResult PackOp::fold(FoldAdaptor) {
  auto source = getOperand(0).getDefiningOp<ComponentsOp>();
  if (source && source.getOperand().getType() == getType() &&
      llvm::equal(source.getResults(), getOperands()))
    return source.getOperand();
  return {};
}

ParseResult ComponentsOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand operand;
  Type type;
  if (parser.parseOperand(operand) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperand(operand, type, result.operands))
    return failure();
  result.addTypes(componentTypes(type));
  return success();
}

void ComponentsOp::print(OpAsmPrinter &printer) {
  printer << " " << getOperand();
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getOperand().getType();
}

LogicalResult ComponentsOp::verify() {
  // (C1)
  if (llvm::equal(getResultTypes(), componentTypes(getOperand().getType())))
    return success();
  return emitOpError("must have one result for each component of ")
         << getOperand().getType();
}

/// components(pack(x1, ..., xn)) are x1, ..., xn.
LogicalResult ComponentsOp::fold(FoldAdaptor,
                                 SmallVectorImpl<OpFoldResult> &results) {
  auto source = getOperand().getDefiningOp<PackOp>();
  if (!source)
    return failure();
  llvm::append_range(results, source.getOperands());
  return success();
}

//===----------------------------------------------------------------------===//
// Compare
//===----------------------------------------------------------------------===//

/// Returns i1 in the shape of the operands.
static Type boolLike(Type type) {
  return withElementType(type, IntegerType::get(type.getContext(), 1));
}

ParseResult CompareOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef keyword;
  Type type;
  OpAsmParser::UnresolvedOperand lhs, rhs;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<ComparePredicate> predicate =
      symbolizeComparePredicate(keyword);
  if (!predicate)
    return parser.emitError(location)
           << "unknown predicate '" << keyword << "'; expected eq, lt, le, gt "
           << "or ge";
  result.getOrAddProperties<Properties>().predicate =
      ComparePredicateAttr::get(parser.getContext(), *predicate);
  if (parser.parseComma() || parser.parseOperand(lhs) || parser.parseComma() ||
      parser.parseOperand(rhs) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands({lhs, rhs}, type, result.operands))
    return failure();
  result.addTypes(boolLike(type));
  return success();
}

void CompareOp::print(OpAsmPrinter &printer) {
  printer << " " << stringifyComparePredicate(getPredicate()) << ", "
          << getLhs() << ", " << getRhs();
  printer.printOptionalAttrDict((*this)->getAttrs(), {"predicate"});
  printer << " : " << getLhs().getType();
}

LogicalResult CompareOp::verify() {
  // (C1)
  if (getType() == boolLike(getLhs().getType()))
    return success();
  return emitOpError("result must be ")
         << boolLike(getLhs().getType()) << ", got " << getType();
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

LogicalResult ConvertOp::verify() {
  ExpansionType from = expansionOf(getOperand()), to = expansionOf(getResult());
  // (C1)
  if (from.getLeading() == to.getLeading() && from.getLength() == 2 &&
      to.getLength() == 2 && from.isMixed() != to.isMixed() &&
      withElementType(getOperand().getType(), to) == getType())
    return success();
  return emitOpError("converts between a mixed expansion and two components of "
                     "its leading format, got ")
         << getOperand().getType() << " to " << getType();
}

/// Returns whether `wide` is f32 or f64 in the shape of `expansion` and at
/// least as wide as its components, or wider if `strictly`.
static bool isWideLike(Type wide, Type expansion, bool strictly) {
  Type element = getElementTypeOrSelf(wide);
  Type leading = getElementTypeOrSelf(getLeadingLike(expansion));
  if (!element.isF32() && !element.isF64())
    return false;
  unsigned width = element.getIntOrFloatBitWidth();
  unsigned narrow = leading.getIntOrFloatBitWidth();
  return withElementType(expansion, element) == wide &&
         (strictly ? width > narrow : width >= narrow);
}

LogicalResult FromFloatOp::verify() {
  // (C1)
  if (isWideLike(getOperand().getType(), getType(), /*strictly=*/true))
    return success();
  return emitOpError("operand must be f32 or f64 in the result's shape and "
                     "wider than its components, got ")
         << getOperand().getType();
}

LogicalResult ToFloatOp::verify() {
  // (C1)
  if (isWideLike(getType(), getOperand().getType(), /*strictly=*/false))
    return success();
  return emitOpError("result must be f32 or f64 in the operand's shape and at "
                     "least as wide as its components, got ")
         << getType();
}

#define GET_OP_CLASSES
#include "tandem/Dialect/MCF/IR/MCFOps.cpp.inc"
