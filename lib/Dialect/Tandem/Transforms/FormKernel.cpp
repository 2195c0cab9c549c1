//===- FormKernel.cpp - Fuse a graph into one scalar kernel ---------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the kernel former: one former for every optimizer and
// every storage.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Dialect/Arith/Utils/SelfComparison.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/DebugLog.h"

namespace tandem {
#define GEN_PASS_DEF_FORMKERNEL
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

#define DEBUG_TYPE "tandem-form-kernel"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// The prologue
//===----------------------------------------------------------------------===//

namespace {
/// Rebuilds uniform expressions of the graph in f64, in the prologue. f32 in a
/// graph means a real number, so conversions between float types vanish.
class PrologueBuilder {
public:
  PrologueBuilder(func::FuncOp function, Block &prologue)
      : builder(OpBuilder::atBlockEnd(&prologue)) {
    unsigned next = 0;
    for (BlockArgument argument : function.getArguments())
      if (!getRole(argument).isTensor())
        mapping.map(Value(argument), Value(prologue.getArgument(next++)));
  }

  /// Returns the prologue's f64 or i64 value of a uniform graph value, or null
  /// after a diagnostic.
  Value get(Value value) {
    value = resolve(value);
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    Value result = op ? build(op) : Value();
    if (result)
      mapping.map(value, result);
    return result;
  }

  OpBuilder builder;

private:
  static Type widen(Type type) {
    Type element = getElementTypeOrSelf(type);
    return isa<FloatType>(element) ? Float64Type::get(type.getContext())
                                   : element;
  }

  Value build(Operation *op) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return buildConstant(constant);
    if (isa<tensor::SplatOp, arith::ExtFOp, arith::TruncFOp>(op))
      return get(op->getOperand(0));
    if (!isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
             arith::NegFOp, arith::SIToFPOp, arith::AddIOp, arith::SubIOp,
             arith::MulIOp, math::FPowIOp, math::SqrtOp>(op)) {
      op->emitError("a scalar expression of hyperparameters uses + - * /, "
                    "sqrt, integer powers and i64 arithmetic; '")
          << op->getName() << "' is none of them";
      return {};
    }
    if (auto power = dyn_cast<math::FPowIOp>(op)) {
      Type exponent = getElementTypeOrSelf(power.getRhs().getType());
      if (!exponent.isInteger(32) && !exponent.isInteger(64)) {
        op->emitError("an exponent is i32 or i64, got ") << exponent;
        return {};
      }
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(get(operand));
      if (!operands.back())
        return {};
    }
    // Attributes are not copied: a fastmath flag must not get into the kernel.
    return builder
        .create(op->getLoc(), op->getName().getIdentifier(), operands,
                {widen(op->getResult(0).getType())})
        ->getResult(0);
  }

  Value buildConstant(arith::ConstantOp op) {
    Attribute value = op.getValue();
    if (auto splat = dyn_cast<SplatElementsAttr>(value))
      value = splat.getSplatValue<Attribute>();
    if (auto real = dyn_cast<FloatAttr>(value))
      return arith::ConstantOp::create(
          builder, op.getLoc(),
          builder.getF64FloatAttr(real.getValueAsDouble()));
    if (auto integer = dyn_cast<IntegerAttr>(value))
      return arith::ConstantOp::create(builder, op.getLoc(), integer);
    op.emitError("a constant of a graph must be one number for all elements");
    return {};
  }

  IRMapping mapping;
};

//===----------------------------------------------------------------------===//
// The body
//===----------------------------------------------------------------------===//

/// Rebuilds a graph as the scalar program of one element.
class KernelFormer {
public:
  KernelFormer(func::FuncOp function, Pass::Statistic &uniforms)
      : function(function), uniformCount(uniforms) {}

  FailureOr<KernelOp> form();

private:
  KernelOp createKernel();
  LogicalResult fuse(Operation *op);
  LogicalResult fuseLinalg(linalg::LinalgOp op);
  LogicalResult fuseReduction(linalg::ReduceOp op);
  LogicalResult forward(Operation *op);
  /// Returns the granularity of a tensor in a graph of matrices; none if all
  /// elements share a value.
  std::optional<Granularity> getGranularity(Value value);
  /// Returns whether a dimension of a tensor counts rows or columns.
  std::optional<Granularity> getGranularityOfSize(tensor::DimOp dim);
  /// Notes the granularity that an operation's tensors agree on.
  LogicalResult joinGranularities(Operation *op);
  /// Returns whether an operand is indexed by its own rows and columns.
  bool isIndexedByPlace(linalg::LinalgOp op, OpOperand &operand);
  LogicalResult fuseSize(arith::IndexCastOp op);
  LogicalResult fuseVisible(VisibleOp op);
  LogicalResult fuseElementwise(Operation *op);
  LogicalResult storeResults(Operation *terminator);
  /// Returns the scalar value of a graph value in the body, or null after a
  /// diagnostic.
  Value lookup(Value value, Operation *user);
  /// Returns the body argument of a uniform value, rounded to f32.
  Value getUniform(Value value);

  func::FuncOp function;
  Pass::Statistic &uniformCount;
  /// Whether the graph has rows and columns.
  bool isMatrix = false;
  KernelOp kernel;
  std::unique_ptr<PrologueBuilder> prologue;
  OpBuilder body{static_cast<MLIRContext *>(nullptr)};
  IRMapping mapping;
  llvm::DenseMap<Value, Value> uniforms;
  SmallVector<Value> yielded;
  /// The granularities of the vectors in a graph of matrices.
  llvm::DenseMap<Value, Granularity> vectors;
};
} // namespace

/// Returns a stored tensor's type with one dimension: a kernel whose tensors
/// have two is one of matrices.
static Type flatten(Type type) {
  auto stored = cast<StoredType>(type);
  RankedTensorType logical = stored.getLogical();
  if (logical.getRank() <= 1)
    return type;
  auto flat =
      RankedTensorType::get({ShapedType::kDynamic}, logical.getElementType());
  return StoredType::get(type.getContext(), flat, stored.getStorage());
}

KernelOp KernelFormer::createKernel() {
  OpBuilder builder(function);
  isMatrix = isMatrixGraph(function);
  SmallVector<Attribute> tensorRoles, scalarRoles;
  SmallVector<Type> tensorTypes, scalarTypes;
  for (BlockArgument argument : function.getArguments()) {
    RoleAttr role = getRole(argument);
    if (role.isTensor()) {
      tensorRoles.push_back(role);
      tensorTypes.push_back(isMatrix ? argument.getType()
                                     : flatten(argument.getType()));
      continue;
    }
    scalarRoles.push_back(role);
    scalarTypes.push_back(role.getKind() == RoleKind::hyper
                              ? Type(builder.getF64Type())
                              : Type(builder.getI64Type()));
  }
  Location loc = function.getLoc();
  auto op = KernelOp::create(
      builder, loc, function.getSymName(),
      function->getAttrOfType<ComputeAttr>(TandemDialect::getComputeAttrName()),
      builder.getArrayAttr(tensorRoles), builder.getArrayAttr(scalarRoles));
  auto addBlock = [&](Region &region, ArrayRef<Type> types) {
    region.emplaceBlock().addArguments(
        types, SmallVector<Location>(types.size(), loc));
  };
  addBlock(op.getPrologue(), scalarTypes);
  addBlock(op.getBody(), tensorTypes);
  LDBG() << "'" << op.getSymName() << "' becomes a kernel of "
         << (isMatrix        ? "matrices: the graph has rows and columns"
             : op.isMatrix() ? "matrices: a storage has rows or blocks"
                             : "flat tensors");
  return op;
}

/// Merges a decay and the sum that follows it in another linalg body into one
/// ema, as within one body. Other readers see the plain product.
static void mergeDecays(Block &body) {
  for (auto sum : llvm::make_early_inc_range(body.getOps<AccumulateOp>())) {
    auto decay = sum.getState().getDefiningOp<DecayOp>();
    if (!decay)
      continue;
    OpBuilder builder(sum);
    sum.replaceAllUsesWith(EmaOp::create(builder, sum.getLoc(), sum.getType(),
                                         decay.getState(), decay.getFactor(),
                                         sum.getAddend())
                               .getResult());
    sum.erase();
    builder.setInsertionPoint(decay);
    decay.replaceAllUsesWith(arith::MulFOp::create(builder, decay.getLoc(),
                                                   decay.getFactor(),
                                                   decay.getState())
                                 .getResult());
    decay.erase();
  }
}

FailureOr<KernelOp> KernelFormer::form() {
  kernel = createKernel();
  prologue =
      std::make_unique<PrologueBuilder>(function, kernel.getPrologueBlock());
  body = OpBuilder::atBlockEnd(&kernel.getBodyBlock());
  unsigned next = 0;
  for (BlockArgument argument : function.getArguments())
    if (getRole(argument).isTensor()) {
      mapping.map(Value(argument),
                  Value(kernel.getBodyBlock().getArgument(next++)));
      vectors[argument] = getRole(argument).getPer();
    }
  for (Operation &op : function.getBody().front())
    if (failed(fuse(&op))) {
      kernel.erase();
      return failure();
    }
  mergeDecays(kernel.getBodyBlock());
  YieldOp::create(prologue->builder, function.getLoc(), yielded);
  YieldOp::create(body, function.getLoc(), ValueRange());
  return kernel;
}

Value KernelFormer::getUniform(Value value) {
  value = resolve(value);
  if (Value known = uniforms.lookup(value))
    return known;
  Value wide = prologue->get(value);
  if (!wide)
    return {};
  if (!wide.getType().isF64()) {
    function.emitError("an integer scalar meets an element; convert it with "
                       "arith.sitofp first");
    return {};
  }
  yielded.push_back(arith::TruncFOp::create(prologue->builder, wide.getLoc(),
                                            body.getF32Type(), wide));
  ++uniformCount;
  return uniforms[value] = kernel.getBodyBlock().addArgument(body.getF32Type(),
                                                             value.getLoc());
}

Value KernelFormer::lookup(Value value, Operation *user) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  if (isUniform(value))
    return getUniform(value);
  user->emitError("operand of type ")
      << value.getType()
      << " is not an element-wise value of the graph's tensors";
  return {};
}

/// Returns whether an operation fills the start values of reductions only.
static bool isFillOfReduction(Operation *op) {
  return isa<linalg::FillOp>(op) &&
         llvm::all_of(op->getUses(), [](OpOperand &use) {
           auto reduce = dyn_cast<linalg::ReduceOp>(use.getOwner());
           return reduce && reduce.isDpsInit(&use);
         });
}

LogicalResult KernelFormer::fuse(Operation *op) {
  if (isa<func::ReturnOp>(op))
    return storeResults(op);
  if (isa<tensor::EmptyOp, tensor::DimOp>(op) || isFillOfReduction(op))
    return success();
  if (auto decode = dyn_cast<DecodeOp>(op)) {
    mapping.map(decode.getResult(),
                LoadOp::create(body, op->getLoc(), body.getF32Type(),
                               mapping.lookup(decode.getStored()))
                    .getResult());
    vectors[decode.getResult()] = vectors.lookup(decode.getStored());
    return success();
  }
  if (isa<EncodeOp>(op))
    return success();
  if (auto visible = dyn_cast<VisibleOp>(op))
    return fuseVisible(visible);
  if (op->getNumResults() == 1 && isUniform(op->getResult(0)))
    return joinGranularities(op);
  if (isa<tensor::SplatOp, tensor::ExtractOp>(op))
    return forward(op);
  if (auto cast = dyn_cast<arith::IndexCastOp>(op);
      cast && cast.getIn().getDefiningOp<tensor::DimOp>())
    return fuseSize(cast);
  if (auto reduction = dyn_cast<linalg::ReduceOp>(op))
    return fuseReduction(reduction);
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return fuseLinalg(linalgOp);
  if (OpTrait::hasElementwiseMappableTraits(op) && op->getNumRegions() == 0)
    return fuseElementwise(op);
  return op->emitError("'")
         << op->getName() << "' cannot be fused into an element-wise kernel";
}

LogicalResult KernelFormer::fuseVisible(VisibleOp op) {
  Value value = lookup(op.getValue(), op);
  if (!value)
    return failure();
  mapping.map(op.getResult(),
              VisibleOp::create(body, op.getLoc(), body.getF32Type(), value,
                                mapping.lookup(op.getTensor()))
                  .getResult());
  return success();
}

/// Maps a value that all elements share to one scalar, whether it is a tensor
/// or not.
LogicalResult KernelFormer::forward(Operation *op) {
  auto source = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (source && source.getRank() != 0)
    return op->emitError("picks an element of a tensor; a kernel sees one "
                         "element and what a reduction makes of all");
  Value value = lookup(op->getOperand(0), op);
  if (!value)
    return failure();
  mapping.map(op->getResult(0), value);
  return success();
}

std::optional<Granularity> KernelFormer::getGranularity(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() == 0 || !isMatrix)
    return std::nullopt;
  if (type.getRank() == 2)
    return Granularity::element;
  if (auto known = vectors.find(value); known != vectors.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<tensor::SplatOp, tensor::EmptyOp>(op) &&
      op->getNumOperands() != 0)
    if (auto dim = op->getOperands().back().getDefiningOp<tensor::DimOp>())
      return getGranularityOfSize(dim);
  if (auto fill = dyn_cast_or_null<linalg::FillOp>(op))
    return getGranularity(fill.getOutputs()[0]);
  return std::nullopt;
}

std::optional<Granularity>
KernelFormer::getGranularityOfSize(tensor::DimOp dim) {
  auto type = cast<RankedTensorType>(dim.getSource().getType());
  std::optional<int64_t> index = dim.getConstantIndex();
  if (type.getRank() != 2)
    return getGranularity(dim.getSource());
  if (!index)
    return std::nullopt;
  return *index == 0 ? Granularity::row : Granularity::column;
}

LogicalResult KernelFormer::joinGranularities(Operation *op) {
  // A loop over elements takes entries of both kinds.
  if (auto loops = dyn_cast<linalg::LinalgOp>(op);
      loops && loops.getNumLoops() != 1)
    return success();
  std::optional<Granularity> joined;
  for (Value operand : op->getOperands()) {
    std::optional<Granularity> next = getGranularity(operand);
    if (joined && next && *joined != *next)
      return op->emitError("joins an entry per ")
             << stringifyGranularity(*joined) << " with one per "
             << stringifyGranularity(*next)
             << "; broadcast both to matrices first (linalg.broadcast)";
    joined = joined ? joined : next;
  }
  for (Value result : op->getResults())
    if (joined)
      vectors[result] = *joined;
  return success();
}

/// Fuses the extent of a tensor with one dimension, or of a matrix.
LogicalResult KernelFormer::fuseSize(arith::IndexCastOp op) {
  auto dim = op.getIn().getDefiningOp<tensor::DimOp>();
  auto type = cast<RankedTensorType>(dim.getSource().getType());
  std::optional<int64_t> index = dim.getConstantIndex();
  bool isDimension = isMatrix && type.getRank() == 2;
  if ((type.getRank() != 1 && !isDimension) || !index ||
      !op.getType().isInteger(64))
    return op.emitError("the size of a tensor is tensor.dim of a tensor with "
                        "one dimension, or of a matrix in a graph of rows and "
                        "columns, cast to i64");
  Granularity per =
      isMatrix ? getGranularityOfSize(dim).value_or(Granularity::element)
               : Granularity::element;
  mapping.map(
      op.getResult(),
      SizeOp::create(body, op.getLoc(), body.getI64Type(), per).getResult());
  return success();
}

/// Returns the kind of a reduction; none if a graph may not use it.
static std::optional<ReduceKind> getKind(linalg::ReduceOp op) {
  Block &block = op.getCombiner().front();
  Operation &combiner = block.front();
  // The combiner joins an element and the value accumulated so far.
  bool isJoin =
      llvm::hasNItems(block, 2) && combiner.getNumOperands() == 2 &&
      combiner.getNumResults() == 1 && block.getNumArguments() == 2 &&
      llvm::is_contained(combiner.getOperands(), block.getArgument(0)) &&
      llvm::is_contained(combiner.getOperands(), block.getArgument(1)) &&
      block.getTerminator()->getOperand(0) == combiner.getResult(0);
  if (!isJoin)
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, std::optional<ReduceKind>>(&combiner)
      .Case([](arith::AddFOp) { return ReduceKind::sum; })
      .Case([](arith::MaximumFOp) { return ReduceKind::max; })
      .Case([](arith::MinimumFOp) { return ReduceKind::min; })
      .Default([](Operation *) { return std::nullopt; });
}

/// Returns the constant that a reduction starts from, if it is one.
static std::optional<APFloat> getStart(Value initial) {
  auto fill = initial.getDefiningOp<linalg::FillOp>();
  Value value = fill ? fill.getInputs()[0] : resolve(initial);
  FloatAttr constant;
  SplatElementsAttr splat;
  if (matchPattern(value, m_Constant(&splat)))
    return splat.getSplatValue<APFloat>();
  if (matchPattern(value, m_Constant(&constant)))
    return constant.getValue();
  return std::nullopt;
}

/// Returns whether a reduction starts from its identity.
static bool startsFromIdentity(linalg::ReduceOp op, ReduceKind kind) {
  std::optional<APFloat> start = getStart(op.getInits()[0]);
  if (!start)
    return false;
  if (kind == ReduceKind::sum)
    return start->isZero();
  return start->isInfinity() &&
         start->isNegative() == (kind == ReduceKind::max);
}

/// Returns the scope of a reduction: a row or a column if it leaves the other
/// dimension, otherwise the one that the graph names, by default a tensor's
/// elements.
static FailureOr<Granularity> getScope(linalg::ReduceOp op) {
  Attribute attr = op->getDiscardableAttr(TandemDialect::getScopeAttrName());
  auto type = cast<RankedTensorType>(op.getInputs()[0].getType());
  bool isWhole = int64_t(op.getDimensions().size()) == type.getRank();
  if (!isWhole && !attr)
    return op.getDimensions()[0] == 1 ? Granularity::row : Granularity::column;
  if (!isWhole)
    return op.emitError(
        "a reduction along rows or columns has no tandem.scope");
  // The dialect's verifier admits only these two.
  return attr ? *symbolizeGranularity(cast<StringAttr>(attr))
              : Granularity::tensor;
}

/// Fuses a sum, maximum or minimum over all elements of a tensor or of all
/// tensors, or along the rows or columns of a matrix.
LogicalResult KernelFormer::fuseReduction(linalg::ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getInputs()[0].getType());
  std::optional<ReduceKind> kind = getKind(op);
  int64_t dimensions = op.getDimensions().size();
  bool isKnown =
      dimensions == type.getRank() || (dimensions == 1 && type.getRank() == 2);
  if (op.getNumDpsInputs() != 1 || !isKnown || !kind ||
      !startsFromIdentity(op, *kind))
    return op.emitError("a reduction in a graph is of all elements of one "
                        "tensor, or of each row or column of a matrix, by "
                        "arith.addf from zero, by arith.maximumf from -inf, or "
                        "by arith.minimumf from inf");
  FailureOr<Granularity> scope = getScope(op);
  Value value = succeeded(scope) ? lookup(op.getInputs()[0], op) : Value();
  if (!value)
    return failure();
  std::optional<Granularity> per = getGranularity(op.getInputs()[0]);
  if (isMatrix && !per)
    return op.emitError("reduces a vector without saying whether it has "
                        "an entry per row or per column; let its size be a "
                        "tensor.dim of the matrix");
  bool isWhole = dimensions == type.getRank();
  Value result = ReduceOp::create(body, op.getLoc(), *kind, value, *scope,
                                  isWhole && per ? *per : Granularity::element);
  mapping.map(op->getResult(0), result);
  if (!isWhole)
    vectors[op->getResult(0)] = *scope;
  return success();
}

bool KernelFormer::isIndexedByPlace(linalg::LinalgOp op, OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  if (map.isIdentity())
    return true;
  if (!isMatrix || op.getNumLoops() != 2 || map.getNumResults() != 1)
    return false;
  auto dim = dyn_cast<AffineDimExpr>(map.getResult(0));
  std::optional<Granularity> own = getGranularity(operand.get());
  // A vector whose entries are all alike may have no granularity.
  return dim &&
         (!own || *own == (dim.getPosition() == 0 ? Granularity::row
                                                  : Granularity::column));
}

/// Inlines the body of a linalg operation in which only the loop indexes the
/// tensors.
LogicalResult KernelFormer::fuseLinalg(linalg::LinalgOp op) {
  if (op.getNumParallelLoops() != op.getNumLoops())
    return op->emitError("a reduction in a graph is a linalg.reduce");
  if (failed(joinGranularities(op)))
    return failure();
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (type && type.getRank() != 0 && !isIndexedByPlace(op, operand) &&
        !isUniform(operand.get()))
      return op->emitError("operand #")
             << operand.getOperandNumber()
             << " is indexed by a map other than its rows and columns; "
                "transposed tensors cannot be fused into an element-wise "
                "kernel";
    Value inner = op.getBlock()->getArgument(operand.getOperandNumber());
    if (inner.use_empty())
      continue;
    Value value = lookup(operand.get(), op);
    if (!value)
      return failure();
    mapping.map(inner, value);
  }
  for (Operation &inner : op.getBlock()->without_terminator())
    if (failed(fuse(&inner)))
      return failure();
  Operation *yield = op.getBlock()->getTerminator();
  for (auto [result, value] :
       llvm::zip(op->getResults(), yield->getOperands())) {
    Value scalar = lookup(value, op);
    if (!scalar)
      return failure();
    mapping.map(result, scalar);
  }
  return success();
}

/// Returns whether the specification defines an operation. It covers f32, truth
/// values and the sizes of tensors.
static bool isSpecified(Operation *op) {
  bool isKnown =
      isa<AccumulateOp, EmaOp, DecayOp, arith::AddFOp, arith::SubFOp,
          arith::MulFOp, arith::DivFOp, arith::NegFOp, arith::MaximumFOp,
          arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::CmpFOp,
          arith::SelectOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp,
          arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::CmpIOp,
          arith::UIToFPOp, arith::SIToFPOp, math::AbsFOp, math::SqrtOp,
          math::ExpOp, math::LogOp, math::TanhOp, math::ErfOp, math::CeilOp,
          math::FloorOp, math::RoundEvenOp, math::TruncOp, math::CopySignOp,
          math::FmaOp, math::IsNaNOp, math::IsFiniteOp>(op);
  auto isType = [](Type type) {
    type = getElementTypeOrSelf(type);
    return type.isF32() || type.isInteger(1) || type.isInteger(64);
  };
  return isKnown && llvm::all_of(op->getOperandTypes(), isType) &&
         llvm::all_of(op->getResultTypes(), isType);
}

/// Replaces a NaN, of which only the sign would matter, by zero: processors
/// give their NaNs different signs, and the specification gives NaN none.
static Value dropSignOfNaN(OpBuilder &builder, Location loc, Value sign) {
  Value isNaN = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO,
                                      sign, sign);
  Value zero = arith::ConstantOp::create(builder, loc,
                                         FloatAttr::get(sign.getType(), 0.0));
  return arith::SelectOp::create(builder, loc, isNaN, zero, sign);
}

LogicalResult KernelFormer::fuseElementwise(Operation *op) {
  if (!isSpecified(op))
    return op->emitError("'")
           << op->getName() << "' of these types has no specified result; "
           << "docs/Numerics.md lists the operations of a graph";
  if (failed(joinGranularities(op)))
    return failure();
  auto compare = dyn_cast<arith::CmpFOp>(op);
  if (std::optional<bool> known =
          compare ? compareWithItself(compare) : std::nullopt) {
    LDBG() << "a value compared with itself is " << (*known ? "true" : "false")
           << ": " << *op;
    mapping.map(
        op->getResult(0),
        arith::ConstantOp::create(body, op->getLoc(), body.getBoolAttr(*known))
            .getResult());
    return success();
  }
  OperationState state(op->getLoc(), op->getName());
  for (Value operand : op->getOperands()) {
    Value value = lookup(operand, op);
    if (!value)
      return failure();
    state.addOperands(value);
  }
  if (isa<math::CopySignOp>(op))
    state.operands[1] = dropSignOfNaN(body, op->getLoc(), state.operands[1]);
  for (Type type : op->getResultTypes())
    state.addTypes(getElementTypeOrSelf(type));
  // The other attributes of these operations are flags, fastmath and overflow,
  // which let results differ.
  if (Attribute predicate = op->getAttr("predicate"))
    state.addAttribute("predicate", predicate);
  Operation *scalar = body.create(state);
  mapping.map(op->getResults(), scalar->getResults());
  return success();
}

LogicalResult KernelFormer::storeResults(Operation *terminator) {
  for (auto [argument, operand] :
       llvm::zip(getUpdatedArguments(function), terminator->getOperands())) {
    auto encode = operand.getDefiningOp<EncodeOp>();
    if (!encode)
      return terminator->emitError(
          "results must be encoded; apply a strategy first");
    Value value = lookup(encode.getValue(), terminator);
    if (!value)
      return failure();
    Granularity wanted = getRole(argument).getPer();
    auto per = getGranularity(encode.getValue());
    if (per && *per != wanted)
      return terminator->emitError("the new value of ")
             << getRole(argument).getName() << " has an entry per "
             << stringifyGranularity(*per) << ", the tensor per "
             << stringifyGranularity(wanted);
    StoreOp::create(body, terminator->getLoc(), value,
                    mapping.lookup(Value(argument)));
  }
  return success();
}

namespace {
struct FormKernelPass : public tandem::impl::FormKernelBase<FormKernelPass> {
  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!isGraph(function))
        continue;
      if (!function->hasAttr(TandemDialect::getComputeAttrName())) {
        function.emitError("graph has no strategy; run "
                           "-tandem-apply-strategy first");
        return signalPassFailure();
      }
      if (failed(verifyGraph(function)) ||
          failed(KernelFormer(function, numUniforms).form()))
        return signalPassFailure();
      function.erase();
      ++numKernels;
    }
  }
};
} // namespace
