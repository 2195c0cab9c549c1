//===- KernelBuilder.h - Kernels as functions for CPUs ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the builder of a kernel's function for CPUs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_KERNELBUILDER_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_KERNELBUILDER_H

#include "BlockSum.h"
#include "EvenOddLayout.h"
#include "Schedule.h"
#include "TileStages.h"
#include "tandem/Conversion/LaunchBodyBuilder.h"
#include "tandem/Conversion/TreeSum.h"

namespace tandem {

/// A block in one stage of the tile that begins at `tile`.
struct StageBlock : BodyBlock {
  StageBlock(const Chunk &chunk, unsigned stage, Value tile, Value index,
             SmallVector<Value> pointers, IRMapping &mapping)
      : BodyBlock{chunk, index, mapping}, stage(stage), tile(tile),
        pointers(std::move(pointers)) {}

  unsigned stage;
  Value tile;
  /// The addresses of the block's entries, one per plane.
  SmallVector<Value> pointers;
  /// Whether the chunk is known to have an element for each lane.
  bool isFull = false;
};

/// Builds the loop over chunks and, inside, the loop over blocks of `width`
/// elements.
class CPUKernelBuilder : public LaunchBodyBuilder<StageBlock> {
public:
  CPUKernelBuilder(LaunchOp kernel, OpBuilder &builder, bool inPairs)
      : LaunchBodyBuilder(kernel, builder), inPairs(inPairs), lanes(kernel),
        stages(kernel), order(schedule(kernel.getBodyBlock())) {}

private:
  void prepare(LLVM::LLVMFuncOp entry) override;
  scf::ForOp createLoop(LLVM::LLVMFuncOp entry) override {
    return launch.createRange(entry);
  }
  void buildChunk(LLVM::LLVMFuncOp entry, Chunk chunk,
                  Value chunkIndex) override;
  /// Builds the loop over a tile's rows.
  void buildTile(LLVM::LLVMFuncOp entry, const Chunk &tile) override;
  void buildTensor(const Chunk &tensor) override;
  Value buildLoad(StageBlock &block, LoadPlaneOp op) override;
  void buildStore(StageBlock &block, StorePlaneOp op) override;
  /// Adds a block of a row to the reductions of the rows above it.
  void addToColumns(StageBlock &block, PartialOp op) override;
  void addToReduction(StageBlock &block, Operation *op) override;
  void setFlag(StageBlock &block, SetFlagOp op) override { carry(block, op); }
  void buildReduce(StageBlock &block, ReduceOp op) override;
  void buildArithmetic(StageBlock &block, Operation *op) override;
  Value getEntry(StageBlock &block, unsigned plane) override {
    return block.pointers[plane];
  }
  SmallVector<int64_t> getLaneElements() override {
    return lanes.getElements(width);
  }
  Value extendLanes(SequenceBuilder &b, Value narrow) override {
    return lanes.extend(b, narrow);
  }

  void createScratch();
  void createKept();
  SmallVector<Value> getPointers(const Chunk &chunk, Value index);
  /// Finds the operations that load values shared by a row.
  void findRowLoads();
  void loadRow(const Chunk &row);
  /// Builds the loop over the elements of a chunk, or of a row of a tile.
  void buildElements(LLVM::LLVMFuncOp entry, const Chunk &chunk, Value slots);
  /// Builds a loop that carries the flags and the extremes so far.
  void buildLoop(Value begin, Value end, int64_t step,
                 function_ref<void(Value)> build);
  /// Runs each stage over all blocks of the tile before the next stage.
  void buildStages(const Chunk &chunk, Value tile);
  /// Prefetches what a later block will need. A block's arithmetic hides the
  /// loads of the next, and there are more streams than hardware prefetchers
  /// follow.
  void prefetch(ArrayRef<Value> pointers);
  /// Builds one stage of a block. `shared` maps the values that the elements of
  /// the tile share.
  void buildBlock(const Chunk &chunk, unsigned stage, Value tile, Value index,
                  const IRMapping &shared);
  /// Returns whether two blocks are computed at a time: the maximum of a group
  /// and its scale take long, in which a processor can work on another group.
  bool computesPairs();
  /// Builds two full blocks, operation by operation.
  void buildPair(const Chunk &chunk, Value index);
  /// Builds those operations of the blocks' stage that the elements of the tile
  /// share, or the others.
  void buildBody(ArrayRef<StageBlock *> blocks, bool isShared = false);
  /// Builds an operation after the values that it needs, and stores its results
  /// for later stages.
  void buildStaged(StageBlock &block, Operation *op);
  /// Sets the flag if its condition held for any element.
  void storeFlag(LLVM::LLVMFuncOp entry, SetFlagOp op, Value condition);
  /// Returns the initial value of a carried operation in a chunk.
  Value getIdentity(Operation *op);
  void carry(StageBlock &block, Operation *op);
  void storeCarried(LLVM::LLVMFuncOp entry, const Chunk &chunk, Value slots);
  /// Returns the address for the reduction of a chunk or of a row.
  Value getResult(const Chunk &chunk, Value slots, Operation *op);
  /// Maps a value that another stage or no stage has computed.
  void provide(StageBlock &block, Value value);
  Value getOffset(const StageBlock &block, int64_t group);
  /// Returns the address of a block's part of a kept value or of a reduction.
  Value getKeptSlot(const StageBlock &block, Value value);
  void createSums();
  void addToSum(StageBlock &block, Operation *op);
  /// Writes the sums of the chunk to its slots in the workspace.
  void storeSums(const Chunk &chunk, Value slots);
  void createColumns();
  TreeSum getColumnSum(PartialOp op, Value offset);
  /// Writes a tile's partial reductions of columns.
  void storeColumns(const Chunk &tile);
  void storeColumn(const Chunk &tile, PartialOp op, Value index);
  /// Writes the reductions of a tile's blocks, which need no other tile.
  void storeBlocks(const Chunk &tile, PartialOp op);
  /// Reduces the block that begins at the column `first`.
  Value reduceBlock(const Chunk &tile, PartialOp op, Value first);
  /// Load and store a plane whose entries hold several codes.
  Value loadPacked(StageBlock &block, LoadPlaneOp op);
  void storePacked(StageBlock &block, unsigned plane, Value codes);
  /// Clears what follows the first `count` codes in the last entry of a block.
  void clearPadding(Value block, Value count, int64_t packed);
  /// Copies the first `count` elements between planes and scratch memory.
  void copyTail(ArrayRef<Value> pointers, Value count, bool toScratch);
  /// Returns a mask of the lanes whose elements are in the chunk.
  Value laneExists(const StageBlock &block);

  /// Whether two blocks are computed at a time if each has a group.
  bool inPairs;
  EvenOddLayout lanes;
  /// Memory for one block of elements per plane, in which a chunk's partial
  /// block is computed.
  SmallVector<Value> scratch;
  /// The metrics and the partial sums of the body, except sums of columns.
  llvm::MapVector<Operation *, BlockSum> sums;
  /// For each reduction of columns, memory with an entry for each column of a
  /// tile; for a sum, one for each level of its tree.
  llvm::MapVector<Operation *, Value> columns;
  /// Memory for a block of column entries that is written in part.
  Value columnScratch;
  /// The body's flags, and its partial maxima and minima.
  SmallVector<Operation *> carriers;
  /// The lanes of each carrier: whether its condition has held, or the extreme
  /// so far.
  SmallVector<Value> carried;
  TileStages stages;
  /// The body's operations in the order in which they are computed.
  SmallVector<Operation *> order;
  /// The loads of values that a row's elements share, and these values in the
  /// current row. LLVM would not hoist the loads, because of stores in between.
  llvm::SetVector<Operation *> rowLoads;
  IRMapping ofRow;
  /// The memory of values that later stages of a tile read, and of reductions
  /// of its groups.
  llvm::DenseMap<Value, Value> kept;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_KERNELBUILDER_H
