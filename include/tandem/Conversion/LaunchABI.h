//===- LaunchABI.h - The launch ABI -----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how generated code reads the launch tables: tensor
// records, chunk records, uniform slots, which tandem-runtime/tandem_launch.h
// declares for the runtime as well.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_LAUNCHABI_H
#define TANDEM_CONVERSION_LAUNCHABI_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Conversion/RandomBits.h"

namespace mlir::tandem {

/// Symbols of a kernel's code. A prefix keeps them from libc's names.
std::string getEntryName(StringRef kernel);
std::string getPrologueName(StringRef kernel);

/// The arguments of an entry, in order; see tandem-runtime/tandem_launch.h.
namespace EntryArgument {
enum : unsigned { tensors, chunks, scalars, workspace, flags, begin, end };
} // namespace EntryArgument

/// The most columns of a tile, the chunk of a matrix kernel, and the most rows,
/// which are a block's in a kernel of blocks. A GPU's registers have less room
/// for the levels of columns' sums.
constexpr int64_t maxTileColumns = 2048;
constexpr int64_t maxTileRowsOfCPU = 64, maxTileRowsOfGPU = 16;
inline int64_t getMaxTileRows(KernelOp kernel, int64_t withoutBlocks) {
  return kernel.getBlock() ? kernel.getBlock() : withoutBlocks;
}

/// One chunk of work: a range of a tensor's elements, or of its rows or
/// columns, and its record.
struct Chunk {
  Value begin, end;
  /// Index of element 0 in the unsharded tensor.
  Value first;
  /// The tensor's random-number key, an i32.
  Value key;
  /// One pointer per plane, tensors in order.
  SmallVector<Value> planes;
  /// One value per uniform argument of the kernel's body.
  SmallVector<Value> uniforms;
  /// The number of the tensor's rows, columns and elements.
  Value rows, columns, size;
  /// Of a tile, which has columns `begin` to `end` of some rows: these rows,
  /// and the first entries of its parts among those of all rows or columns.
  Value firstRow, endRow, rowParts, columnParts;
  /// The row, if the chunk is of one.
  Value row;
  /// In a matrix kernel, where the parts of each reduction along an axis begin,
  /// and of how many tiles a row's and a column's are.
  SmallVector<Value> parts;
  Value partsOfRow, partsOfColumn;
  /// If the kernel has reductions: where the tensor's totals are, the range of
  /// its chunks (in a part per row or column, of these), and a value per
  /// tandem.total of the body.
  Value totals, firstChunk, endChunk;
  SmallVector<Value> known;
  /// A value per load of what the tensor's elements share; none of a tensor
  /// without its chunks.
  SmallVector<Value> entries;

  /// What the bits that `op` draws for elements `index` and following depend
  /// on; `mapping` has the kernel's uniform values.
  RandomSource getRandomSource(SequenceBuilder &b, RandomBitsOp op, Value index,
                               const IRMapping &mapping) const;
};

/// Builds the parts of generated code that touch the launch tables.
class LaunchBuilder {
public:
  LaunchBuilder(KernelOp kernel, OpBuilder &builder)
      : kernel(kernel), builder(builder), loc(kernel.getLoc()) {}

  /// The entry function, with nothing but its arguments.
  LLVM::LLVMFuncOp createEntry() { return createEntry(kernel.getSymName()); }
  /// The same for a function of another name.
  LLVM::LLVMFuncOp createEntry(StringRef name);

  /// A loop over the entry's range.
  scf::ForOp createRange(LLVM::LLVMFuncOp entry);

  /// The range of an entry of a GPU: empty where the word behind the launch's
  /// flags tells to skip it.
  std::pair<Value, Value> getRangeUnlessSkipped(LLVM::LLVMFuncOp entry);

  /// The prologue function, complete: (hypers, integers, scalars, rows).
  LLVM::LLVMFuncOp createPrologue();

  /// Reads chunk number `index` through the entry's arguments.
  Chunk readChunk(LLVM::LLVMFuncOp entry, Value index);

  /// Reads the record of tensor number `tensor`: a chunk without its range.
  Chunk readTensor(LLVM::LLVMFuncOp entry, Value tensor);

  /// Reads tile number `index` through the entry's arguments.
  Chunk readTile(LLVM::LLVMFuncOp entry, Value index);
  /// One row of a tile, as a chunk whose elements count from the row's first.
  Chunk getRow(const Chunk &tile, Value row);

  /// Where a tile leaves its part of the reduction of a row or column.
  Value getPart(const Chunk &tile, PartialOp op, Value position);
  /// Where the reduction of a row, column or block is, once it is known.
  Value getAxisTotal(const Chunk &chunk, uint64_t index, Value position);
  /// The number of the block to which an element of some row belongs.
  Value getBlock(const Chunk &chunk, Value row, Value column);

  /// Maps what is the same for all elements of a chunk: uniform values, sizes,
  /// totals of earlier phases, entries that the tensor's elements share.
  void mapShared(const Chunk &chunk, IRMapping &mapping);

  /// Whether a value is loaded with its chunk's record: nothing but a commit
  /// writes what all elements of a tensor share.
  static bool isLoadedOnce(LoadPlaneOp op);

  /// The largest of the values that stay in the history at `entry`.
  Value recall(RecallOp op, Value entry);
  /// Moves the values of the history at `entry` by one and puts one before
  /// them.
  void remember(RememberOp op, Value entry, Value newest);

  /// The chunk's slots of the workspace: its parts of the kernel's reductions,
  /// then of its metrics.
  Value getSlots(Value workspace, Value chunkIndex);
  /// The slot of a partial or a metric.
  Value getSlot(Value slots, Operation *op);

  /// A pointer `index * stride + offset` bytes behind `base`.
  Value advance(Value base, Value index, int64_t stride, int64_t offset = 0);
  /// A value of `type` at `base + offset` bytes; an alignment of 0 is the
  /// type's.
  Value load(Value base, Type type, int64_t offset = 0, unsigned alignment = 0);

  Value i64(int64_t value);

  /// The address of an element's entry in plane number `plane`.
  Value addressOf(const Chunk &chunk, unsigned plane, Value element);

  /// The planes of all tensors, in order; whether this part reads and writes.
  struct PlaneInfo {
    Type bits;
    unsigned bytes;
    bool isRead, isWritten;
    /// Consecutive elements (rows or columns of a part per row or column) that
    /// share an entry.
    int64_t group;
    /// What the tensor has entries for, and which of them share one.
    Granularity per;
    Group ownGroup;
    /// Whether a column's entries are consecutive.
    bool isTransposed;

    bool isUsed() const { return isRead || isWritten; }
    /// Whether consecutive elements have consecutive entries.
    bool isStreamed() const { return isUsed() && group == 1 && !isTransposed; }
  };
  ArrayRef<PlaneInfo> getPlanes();
  /// Position of an access's plane among all planes.
  unsigned getPlaneIndex(Value tensor, uint64_t plane);

private:
  void findPlanes();
  /// Loads what the tensor's elements share.
  void loadEntries(Chunk &chunk);
  /// How far behind a tensor's a row's entries begin in a plane, in bytes.
  Value getRowOffset(const PlaneInfo &plane, const Chunk &tile, Value row);
  /// Loads what a record says of reductions and, of a matrix, its tiles.
  void readReductions(Chunk &chunk, Value record);
  Value readSlot(Value row, unsigned slot, Type type);
  void buildPrologueRow(LLVM::LLVMFuncOp function, Value row);

  KernelOp kernel;
  OpBuilder &builder;
  Location loc;
  SmallVector<PlaneInfo> planes;
};

/// Checks that of tandem's operations only those of a lowered body are left.
LogicalResult verifyLowered(KernelOp kernel);

/// Replaces math.fpowi by square-and-multiply, lowest bit first; a negative
/// exponent gives the reciprocal.
void expandIntegerPowers(LLVM::LLVMFuncOp function);

} // namespace mlir::tandem

#endif // TANDEM_CONVERSION_LAUNCHABI_H
