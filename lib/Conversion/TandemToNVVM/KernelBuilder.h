//===- KernelBuilder.h - Kernels as NVVM functions --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the builder of a kernel's NVVM function.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_KERNELBUILDER_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_KERNELBUILDER_H

#include "BlockReductions.h"
#include "ColumnReductions.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tandem/Conversion/LaunchBodyBuilder.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {

/// Threads per block that the generated kernels are launched with.
constexpr int32_t blockSize = TDM_LAUNCH_BLOCK_THREADS;

/// Makes a function a kernel for blocks of the given number of threads.
void markKernel(LLVM::LLVMFuncOp function, int32_t threads);

/// A special register, as an i64.
template <typename OpTy>
Value readRegister(OpBuilder &builder, Location loc) {
  Value word = OpTy::create(builder, loc, builder.getI32Type());
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), word);
}

/// Builds a kernel whose blocks stride over chunks and whose threads take
/// `width` consecutive elements a step.
class NVVMKernelBuilder : public LaunchBodyBuilder<> {
public:
  using LaunchBodyBuilder::LaunchBodyBuilder;

  /// Runs a GPU block over a band's tiles, and joins their parts of its rows.
  /// The next phase, if there is one, may read the results of this one.
  void buildBand(LLVM::LLVMFuncOp entry, Value bandIndex, bool isLast);

private:
  void finishPrologue(LLVM::LLVMFuncOp prologue) override;
  void finishEntry(LLVM::LLVMFuncOp entry) override;
  void createOthers() override;
  void prepare(LLVM::LLVMFuncOp entry) override;
  scf::ForOp createLoop(LLVM::LLVMFuncOp entry) override;
  void buildChunk(LLVM::LLVMFuncOp entry, Chunk chunk,
                  Value chunkIndex) override;
  /// A chunk of a matrix, row by row: the block's threads span its columns.
  void buildTile(LLVM::LLVMFuncOp entry, const Chunk &tile) override;
  /// A thread has a tensor for itself.
  void buildTensor(const Chunk &tensor) override;
  Value buildLoad(BodyBlock &block, LoadPlaneOp op) override;
  void buildStore(BodyBlock &block, StorePlaneOp op) override;
  void addToColumns(BodyBlock &block, PartialOp op) override;
  void addToReduction(BodyBlock &block, Operation *op) override;
  void setFlag(BodyBlock &block, SetFlagOp op) override;
  /// All threads of a group get its result.
  void buildReduce(BodyBlock &block, ReduceOp op) override;
  Value getEntry(BodyBlock &block, unsigned plane) override;
  /// Threads past the last element read the first ones.
  Value getReadIndex(BodyBlock &block) override;
  Value castPointer(Value pointer) override { return toGlobal(pointer); }

  template <typename OpTy>
  Value sreg() {
    return readRegister<OpTy>(builder, loc);
  }
  /// The chunk's pointers in the global address space; whether all of them
  /// allow the widest access.
  Value prepareChunk(Chunk &chunk);
  /// Prepares to build where the builder stands; `name` is that of the shared
  /// memory.
  void begin(StringRef name);
  /// The threads join the parts of a band's rows, if there are any.
  bool joinRows(const Chunk &band);
  /// A row of a tile; its results are those of the loop over rows.
  SmallVector<Value> buildRow(const Chunk &tile, Value row, Value isGathered,
                              ValueRange state);
  /// The stores to transposed planes.
  SmallVector<StorePlaneOp> getTransposedStores();
  /// Whether a thread can gather the codes of several of a tile's rows and
  /// write them at once.
  Value canGather(const Chunk &tile);
  /// Writes this thread's elements of a row to as many rows of the transposed
  /// planes, or gathers them. The state holds the gathered elements, a vector
  /// for each store; the result is the state after this row.
  SmallVector<Value> storeTransposed(const Chunk &row, Value index,
                                     Value isGathered, ValueRange state);
  /// Writes each lane that exists to its column's place.
  void storeLanes(const Chunk &row, Value index, unsigned plane, Value values);
  void storeColumns(const Chunk &tile, ValueRange state);
  void storeColumn(const Chunk &tile, Value index, PartialOp op, Value totals);
  /// The threads of a block join what each has of it.
  void storeBlock(const Chunk &tile, Value index, PartialOp op, Value total);
  /// The first of this thread's columns.
  Value getColumn(const Chunk &tile);
  /// Builds the loop over a chunk's steps. Its results: for each
  /// tandem.set_flag whether this thread's elements did; with reductions the
  /// number of steps, and this thread's maxima and minima.
  scf::ForOp buildSteps(const Chunk &chunk, Value isAligned);
  void buildStep(const Chunk &chunk, Value index, Value isAligned);
  /// Computes the values that the loop carries from one step to the next.
  SmallVector<Value> advanceState(const Chunk &chunk, ValueRange state);
  void buildReductions(StringRef name);
  /// Reduces this thread's lanes; those beyond the chunk's end take no part.
  Value reduceExisting(const Chunk &chunk, Value index, Value value,
                       ReduceKind kind);
  void storeReduced(LLVM::LLVMFuncOp entry, Value chunkIndex,
                    ValueRange results);
  /// ORs the flags that this thread set into the launch's.
  void storeFlags(LLVM::LLVMFuncOp entry, ValueRange conditions);
  Value toGlobal(Value pointer);
  SmallVector<Value> buildLoads(const Chunk &chunk, Value index, Value isWide);
  SmallVector<Value> loadWide();
  SmallVector<Value> loadLanes(const Chunk &chunk, Value index);
  void buildStores(const Chunk &chunk, Value index, Value isWide);
  /// The entries that groups share are written by their first threads.
  void buildSharedStores(const Chunk &chunk, Value index);
  int64_t getAlignment(unsigned plane) const;
  /// Returns the address of an element's entry in plane number `plane`.
  Value addressOf(const Chunk &chunk, unsigned plane, Value index);
  /// Returns the number of elements from an index to the chunk's end, an i32.
  Value countLeft(const Chunk &chunk, Value index);
  /// The number of lanes that exist, an i32: the width if all do, and not
  /// positive if none does.
  Value countLanes(const Chunk &chunk, Value index);
  Value laneExists(const Chunk &chunk, Value index, int64_t lane);
  Value lanesExist(const Chunk &chunk, Value index);
  /// Whether a condition holds for any element.
  Value anyExisting(const Chunk &chunk, Value index, SetFlagOp setFlag);
  /// Builds code for each lane whose element exists, and its position.
  void forExistingLanes(const Chunk &chunk, Value index,
                        function_ref<void(Value, int64_t)> build);

  SmallVector<LoadPlaneOp> loads;
  SmallVector<StorePlaneOp> stores;
  SmallVector<SetFlagOp> flagSetters;
  /// The indices of this block of threads and of this thread in it, and how
  /// many there are of both.
  Value blockIndex, numBlocks, thread, threads;
  /// Whether the threads of a warp meet in each step.
  bool isCollective = false;
  /// The addresses, by plane, of the thread's first element in this step.
  SmallVector<Value> addresses;
  /// The metrics and partials, if there are any.
  SmallVector<Operation *> reduced;
  std::optional<BlockReductions> reductions;
  /// The partials of columns.
  std::optional<ColumnReductions> columns;
  IRMapping mapping;
  /// The results of a step: the sums' values; for each tandem.set_flag whether
  /// any lane set it; the largest or smallest of the lanes.
  SmallVector<Value> summands, flagsByStep, extremes, ofColumns;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_KERNELBUILDER_H
