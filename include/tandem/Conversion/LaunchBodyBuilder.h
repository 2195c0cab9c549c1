//===- LaunchBodyBuilder.h - The function of a launch -----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the builder of a launch's function, as far as targets have
// it in common: the loops over the elements, and the lowering of each operation
// of the body.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_LAUNCHBODYBUILDER_H
#define TANDEM_CONVERSION_LAUNCHBODYBUILDER_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tandem {

/// The elements that a body is built for at once.
struct BodyBlock {
  const Chunk &chunk;
  /// The first element; null in a launch that runs once for each tensor.
  Value index;
  /// The values that the body's operations have become.
  IRMapping &mapping;
};

/// Builds the functions of a launch for a target, which derives its builder
/// from this one. BlockT is a BodyBlock, to which the target can add fields.
template <typename BlockT = BodyBlock>
class LaunchBodyBuilder {
public:
  LaunchBodyBuilder(LaunchOp kernel, OpBuilder &builder)
      : kernel(kernel), builder(builder), launch(kernel, builder),
        loc(kernel.getLoc()), width(kernel.getWidth()),
        planes(launch.getPlanes()) {}
  virtual ~LaunchBodyBuilder() = default;

  /// Builds the launch's functions at the builder's insertion point.
  void build();

protected:
  //===--------------------------------------------------------------------===//
  // Functions and loops
  //===--------------------------------------------------------------------===//

  /// Complete the prologue, which has its body, and the entry, which has only
  /// its arguments.
  virtual void finishPrologue(LLVM::LLVMFuncOp prologue) {}
  virtual void finishEntry(LLVM::LLVMFuncOp entry) {}
  /// Creates further functions after the prologue and before the entry.
  virtual void createOthers() {}
  /// Builds the start of the entry.
  virtual void prepare(LLVM::LLVMFuncOp entry) = 0;
  /// Builds the loop over the chunks or tensors of the entry.
  virtual scf::ForOp createLoop(LLVM::LLVMFuncOp entry) = 0;
  /// Build the code for a chunk of consecutive elements, for a tile of a
  /// matrix, and for a tensor, with buildOperation.
  virtual void buildChunk(LLVM::LLVMFuncOp entry, Chunk chunk,
                          Value chunkIndex) = 0;
  virtual void buildTile(LLVM::LLVMFuncOp entry, const Chunk &tile) = 0;
  virtual void buildTensor(const Chunk &tensor) = 0;

  //===--------------------------------------------------------------------===//
  // Operations
  //===--------------------------------------------------------------------===//

  /// Lowers an operation of the body. The mapping has its operands and gets its
  /// results.
  void buildOperation(BlockT &block, Operation *op);

  virtual Value buildLoad(BlockT &block, LoadPlaneOp op) = 0;
  virtual void buildStore(BlockT &block, StorePlaneOp op) = 0;
  /// Adds the block to the reduction of each column or block of a tile.
  virtual void addToColumns(BlockT &block, PartialOp op) = 0;
  /// Adds the block to a metric or another partial.
  virtual void addToReduction(BlockT &block, Operation *op) = 0;
  virtual void setFlag(BlockT &block, SetFlagOp op) = 0;
  /// Builds the reduction of a group and maps its result, unless the target
  /// provides the result later.
  virtual void buildReduce(BlockT &block, ReduceOp op) = 0;
  /// Lowers arithmetic, which stays as it is by default.
  virtual void buildArithmetic(BlockT &block, Operation *op) {
    builder.clone(*op, block.mapping);
  }

  /// Returns the address of the block's entry in a plane.
  virtual Value getEntry(BlockT &block, unsigned plane) = 0;
  /// Returns the position of an existing element, at which results may be read.
  virtual Value getReadIndex(BlockT &block) { return block.index; }
  /// Returns a pointer of the type that the target's loads and stores take.
  virtual Value castPointer(Value pointer) { return pointer; }
  /// Returns which element each lane of a 32-bit vector holds.
  virtual SmallVector<int64_t> getLaneElements() {
    return llvm::to_vector(llvm::seq<int64_t>(0, width));
  }
  /// Zero-extends 16-bit lanes, which are in order, to 32 bits.
  virtual Value extendLanes(SequenceBuilder &b, Value narrow) {
    return b.resize(narrow, builder.getI32Type());
  }

  /// Returns the position of an access's plane among all planes.
  template <typename AccessT>
  unsigned planeOf(AccessT op) {
    return launch.getPlaneIndex(op.getTensor(), op.getPlane());
  }

  LaunchOp kernel;
  OpBuilder &builder;
  LaunchBuilder launch;
  Location loc;
  /// The number of elements of a block.
  int64_t width;
  ArrayRef<LaunchBuilder::PlaneInfo> planes;

private:
  /// Builds the launch of a kernel that runs once for each tensor.
  void buildTensors(LLVM::LLVMFuncOp entry);
  /// Ends the entry after a loop and moves the builder into the loop.
  void enterLoop(scf::ForOp loop);
  /// Loads an earlier launch's result: one value for a row or a block, several
  /// for columns.
  Value buildLoadResult(BlockT &block, LoadReductionResultOp op);
  /// Builds the bits that decide how the block's elements are rounded.
  Value buildDraw(BlockT &block, RandomBitsOp op);
};

template <typename BlockT>
void LaunchBodyBuilder<BlockT>::build() {
  // The launches of a step have the same prologue.
  if (kernel.getRole() == LaunchRole::main)
    finishPrologue(launch.createPrologue());
  createOthers();
  LLVM::LLVMFuncOp entry = launch.createEntry();
  finishEntry(entry);
  builder.setInsertionPointToStart(&entry.getBody().front());
  prepare(entry);
  if (kernel.isPerTensor())
    return buildTensors(entry);
  scf::ForOp chunks = createLoop(entry);
  enterLoop(chunks);
  Value index = chunks.getInductionVar();
  if (kernel.isAlongRows())
    buildTile(entry, launch.readTile(entry, index));
  else
    buildChunk(entry, launch.readChunk(entry, index), index);
}

template <typename BlockT>
void LaunchBodyBuilder<BlockT>::enterLoop(scf::ForOp loop) {
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(loop.getBody()->getTerminator());
}

template <typename BlockT>
void LaunchBodyBuilder<BlockT>::buildTensors(LLVM::LLVMFuncOp entry) {
  scf::ForOp tensors = createLoop(entry);
  enterLoop(tensors);
  Chunk tensor = launch.readTensor(entry, tensors.getInductionVar());
  // A tensor without elements has no planes.
  SequenceBuilder b(builder, loc);
  auto branch = scf::IfOp::create(
      builder, loc,
      b.compare(arith::CmpIPredicate::ne, tensor.size, launch.i64(0)));
  builder.setInsertionPointToStart(branch.thenBlock());
  buildTensor(tensor);
}

template <typename BlockT>
void LaunchBodyBuilder<BlockT>::buildOperation(BlockT &block, Operation *op) {
  IRMapping &mapping = block.mapping;
  auto define = [&](Value value) { mapping.map(op->getResult(0), value); };
  // Operations on elements have no meaning in a launch per tensor. They stay,
  // and the lowering to LLVM rejects them.
  if (!block.index && isa<LoadReductionResultOp, PartialOp, MetricOp, SetFlagOp,
                          ReduceOp, RandomBitsOp>(op)) {
    builder.clone(*op, mapping);
    return;
  }
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](LoadPlaneOp load) { define(buildLoad(block, load)); })
      .Case([&](StorePlaneOp store) { buildStore(block, store); })
      .Case([&](LoadHistoryOp load) {
        define(launch.loadHistory(load, getEntry(block, planeOf(load))));
      })
      .Case([&](PushHistoryOp push) {
        launch.pushHistory(push, getEntry(block, planeOf(push)),
                           mapping.lookup(push.getValue()));
      })
      .Case([&](LoadReductionResultOp load) {
        define(buildLoadResult(block, load));
      })
      .Case([&](PartialOp partial) {
        if (partial.isDownColumns())
          addToColumns(block, partial);
        else
          addToReduction(block, partial);
      })
      .Case([&](MetricOp metric) { addToReduction(block, metric); })
      .Case([&](SetFlagOp flag) { setFlag(block, flag); })
      .Case([&](ReduceOp reduce) { buildReduce(block, reduce); })
      .Case([&](RandomBitsOp draw) { define(buildDraw(block, draw)); })
      .Default([&](Operation *) { buildArithmetic(block, op); });
}

template <typename BlockT>
Value LaunchBodyBuilder<BlockT>::buildLoadResult(BlockT &block,
                                                 LoadReductionResultOp op) {
  const Chunk &chunk = block.chunk;
  bool isOfBlock = op.getScope() == Granularity::block;
  Value position = chunk.row;
  if (op.differsInRow() || isOfBlock)
    position = getReadIndex(block);
  if (!op.differsInRow() && isOfBlock)
    position = launch.getBlockNumber(chunk, chunk.row, position);
  Value place = launch.getAxisTotal(chunk, op.getIndex(), position);
  return launch.load(castPointer(place), op.getType(), /*offset=*/0,
                     /*alignment=*/4);
}

template <typename BlockT>
Value LaunchBodyBuilder<BlockT>::buildDraw(BlockT &block, RandomBitsOp op) {
  SequenceBuilder b(builder, loc);
  RandomSource source =
      block.chunk.getRandomSource(b, op, block.index, block.mapping);
  if (op.getDither())
    return buildDitherBits(b, source, getTensorNumber(op.getTensor()),
                           getLaneElements());
  return extendLanes(b, buildRandomBits(b, source, width));
}

} // namespace tandem

#endif // TANDEM_CONVERSION_LAUNCHBODYBUILDER_H
