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

/// The number of threads per block with which the generated kernels are
/// launched.
constexpr int32_t blockSize = TDM_LAUNCH_BLOCK_THREADS;

/// Makes a function a kernel that is launched with blocks of `threads` threads.
void markKernel(LLVM::LLVMFuncOp function, int32_t threads);

/// Reads a special register as an i64.
template <typename OpTy>
Value readRegister(OpBuilder &builder, Location loc) {
  Value word = OpTy::create(builder, loc, builder.getI32Type());
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), word);
}

/// Builds a kernel whose blocks stride over chunks and whose threads handle
/// `width` consecutive elements per step.
class NVVMKernelBuilder : public LaunchBodyBuilder<> {
public:
  using LaunchBodyBuilder::LaunchBodyBuilder;

  /// Builds the loop of a block of threads over a band's tiles, and joins their
  /// partial reductions of rows. If there is a next phase, it may read the
  /// results of this one.
  void buildBand(LLVM::LLVMFuncOp entry, Value bandIndex, bool isLast);

private:
  void finishPrologue(LLVM::LLVMFuncOp prologue) override;
  void finishEntry(LLVM::LLVMFuncOp entry) override;
  void createOthers() override;
  void prepare(LLVM::LLVMFuncOp entry) override;
  scf::ForOp createLoop(LLVM::LLVMFuncOp entry) override;
  void buildChunk(LLVM::LLVMFuncOp entry, Chunk chunk,
                  Value chunkIndex) override;
  /// Builds the loop over the rows of a tile. The threads of a block span its
  /// columns.
  void buildTile(LLVM::LLVMFuncOp entry, const Chunk &tile) override;
  /// Builds the code of one thread for a whole tensor.
  void buildTensor(const Chunk &tensor) override;
  Value buildLoad(BodyBlock &block, LoadPlaneOp op) override;
  void buildStore(BodyBlock &block, StorePlaneOp op) override;
  void addToColumns(BodyBlock &block, PartialOp op) override;
  void addToReduction(BodyBlock &block, Operation *op) override;
  void setFlag(BodyBlock &block, SetFlagOp op) override;
  /// Reduces over a group. All threads of the group get the result.
  void buildReduce(BodyBlock &block, ReduceOp op) override;
  Value getEntry(BodyBlock &block, unsigned plane) override;
  /// Returns the index to read at. Threads past the last element read the first
  /// ones.
  Value getReadIndex(BodyBlock &block) override;
  Value castPointer(Value pointer) override { return toGlobal(pointer); }

  template <typename OpTy>
  Value sreg() {
    return readRegister<OpTy>(builder, loc);
  }
  /// Casts the chunk's pointers to the global address space. Returns whether
  /// all of them are aligned for the widest access.
  Value prepareChunk(Chunk &chunk);
  /// Prepares to build at the insertion point. `name` is that of the shared
  /// memory.
  void begin(StringRef name);
  /// Joins the partial reductions of a band's rows. Returns whether there are
  /// any.
  bool joinRows(const Chunk &band);
  /// Builds a row of a tile. Returns the state of the loop over rows after it.
  SmallVector<Value> buildRow(const Chunk &tile, Value row, Value isGathered,
                              ValueRange state);
  /// Returns the stores to transposed planes.
  SmallVector<StorePlaneOp> getTransposedStores();
  /// Returns whether a thread can gather the codes of several rows of a tile
  /// and write them at once.
  Value canGather(const Chunk &tile);
  /// Writes this thread's elements of a row to as many rows of the transposed
  /// planes, or gathers them. The state holds the gathered elements, one vector
  /// for each store. Returns the state after this row.
  SmallVector<Value> storeTransposed(const Chunk &row, Value index,
                                     Value isGathered, ValueRange state);
  /// Writes each lane with an element to its column.
  void storeLanes(const Chunk &row, Value index, unsigned plane, Value values);
  void storeColumns(const Chunk &tile, ValueRange state);
  void storeColumn(const Chunk &tile, Value index, PartialOp op, Value totals);
  /// Joins the partial reductions of a block over the threads that have columns
  /// of it.
  void storeBlock(const Chunk &tile, Value index, PartialOp op, Value total);
  /// Returns the first column of this thread.
  Value getColumn(const Chunk &tile);
  /// Builds the loop over a chunk's steps. Its results are, for each
  /// tandem.set_flag, whether this thread has set it; with reductions, also the
  /// number of steps and this thread's maxima and minima.
  scf::ForOp buildSteps(const Chunk &chunk, Value isAligned);
  void buildStep(const Chunk &chunk, Value index, Value isAligned);
  /// Computes the values that the loop carries from one step to the next.
  SmallVector<Value> advanceState(const Chunk &chunk, ValueRange state);
  void buildReductions(StringRef name);
  /// Reduces this thread's lanes, except those past the end of the chunk.
  Value reduceExisting(const Chunk &chunk, Value index, Value value,
                       ReduceKind kind);
  void storeReduced(LLVM::LLVMFuncOp entry, Value chunkIndex,
                    ValueRange results);
  /// ORs the flags that this thread has set into the launch's flags.
  void storeFlags(LLVM::LLVMFuncOp entry, ValueRange conditions);
  Value toGlobal(Value pointer);
  SmallVector<Value> buildLoads(const Chunk &chunk, Value index, Value isWide);
  SmallVector<Value> loadWide();
  SmallVector<Value> loadLanes(const Chunk &chunk, Value index);
  /// Loads this thread's codes of a plane with several in an entry.
  Value loadPacked(unsigned plane);
  /// Takes the code of a row out of the entry that several rows share.
  void extractRowCodes(const Chunk &chunk, MutableArrayRef<Value> loaded);
  /// Returns the entries of this thread's codes, with 0 for each element past
  /// the end of the chunk.
  Value packExisting(const Chunk &chunk, Value index, Value codes);
  void buildStores(const Chunk &chunk, Value index, Value isWide);
  void storeExisting(const Chunk &chunk, Value index);
  /// Stores the entries that groups share, each by the first thread of its
  /// group.
  void buildSharedStores(const Chunk &chunk, Value index);
  int64_t getAlignment(unsigned plane) const;
  /// Returns the address of an element's entry in plane number `plane`.
  Value addressOf(const Chunk &chunk, unsigned plane, Value index);
  /// Returns the number of elements from an index to the chunk's end, an i32.
  Value countLeft(const Chunk &chunk, Value index);
  /// Returns the number of lanes with an element as an i32. It is `width` if
  /// all have one, and not positive if none has.
  Value countLanes(const Chunk &chunk, Value index);
  Value laneExists(const Chunk &chunk, Value index, int64_t lane);
  Value lanesExist(const Chunk &chunk, Value index);
  /// Returns whether a condition holds for any element.
  Value anyExisting(const Chunk &chunk, Value index, SetFlagOp setFlag);
  /// Builds code for each lane with an element, given its position and number.
  void forExistingLanes(const Chunk &chunk, Value index,
                        function_ref<void(Value, int64_t)> build);

  SmallVector<LoadPlaneOp> loads;
  SmallVector<StorePlaneOp> stores;
  SmallVector<SetFlagOp> flagSetters;
  /// The indices of this block of threads and of this thread in it, and the
  /// numbers of blocks and threads.
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
  /// The results of a step: the values of the sums; for each tandem.set_flag
  /// whether any lane has set it; the extremes of the lanes; the values of
  /// columns.
  SmallVector<Value> summands, flagsByStep, extremes, ofColumns;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_KERNELBUILDER_H
