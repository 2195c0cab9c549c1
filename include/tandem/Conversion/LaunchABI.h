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
#include "tandem-runtime/tandem_launch.h"
#include "tandem/Conversion/RandomBits.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Symbols of a kernel's code. A prefix keeps them from libc's names.
std::string getEntryName(StringRef kernel);
std::string getPrologueName(StringRef kernel);

/// The arguments of an entry, in order; see tandem-runtime/tandem_launch.h.
namespace EntryArgument {
enum : unsigned { tensors, chunks, scalars, workspace, flags, begin, end };
} // namespace EntryArgument

/// The most columns of a tile, the chunk of a matrix kernel, and the most rows,
/// which are a block's in a kernel of blocks.
constexpr int64_t maxTileColumns = TDM_LAUNCH_TILE_COLUMNS;
constexpr int64_t maxTileRowsOfCPU = TDM_LAUNCH_TILE_ROWS;
constexpr int64_t maxTileRowsOfGPU = TDM_LAUNCH_TILE_ROWS_GPU;
inline int64_t getMaxTileRows(LaunchOp kernel, int64_t withoutBlocks) {
  return kernel.getBlockSize() ? kernel.getBlockSize() : withoutBlocks;
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
  /// The number of the unsharded tensor's elements, if the kernel asks for it.
  Value wholeSize;
  /// The rows of a tile, which covers columns `begin` to `end` of some rows,
  /// and the positions of its first parts among those of all rows or columns.
  Value firstRow, endRow, rowParts, columnParts;
  /// The row, if the chunk is of one.
  Value row;
  /// In a matrix kernel, where the parts of each reduction along an axis begin,
  /// and of how many tiles a row's and a column's are.
  SmallVector<Value> parts;
  Value partsOfRow, partsOfColumn;
  /// If the kernel has reductions: where the tensor's totals are, the range of
  /// its chunks (in a part per row or column, of these), and a value per
  /// tandem.reduction_result of the body.
  Value totals, firstChunk, endChunk;
  SmallVector<Value> known;
  /// A value per load of what the tensor's elements share; none of a tensor
  /// without its chunks.
  SmallVector<Value> entries;

  /// Returns the inputs of the random bits that `op` draws for the elements
  /// from `index` on; `mapping` holds the kernel's uniform values.
  RandomSource getRandomSource(SequenceBuilder &b, RandomBitsOp op, Value index,
                               const IRMapping &mapping) const;
};

/// Builds the parts of generated code that touch the launch tables.
class LaunchBuilder {
public:
  LaunchBuilder(LaunchOp kernel, OpBuilder &builder)
      : kernel(kernel), builder(builder), loc(kernel.getLoc()) {}

  /// The entry function, with nothing but its arguments.
  LLVM::LLVMFuncOp createEntry() {
    return createEntry(kernel.getFunctionName());
  }
  /// The same for a function of another name.
  LLVM::LLVMFuncOp createEntry(StringRef name);

  /// A loop over the entry's range.
  scf::ForOp createRange(LLVM::LLVMFuncOp entry);

  /// Returns the range of a GPU entry, which is empty if the word after the
  /// launch's flags says to skip it.
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

  /// Returns the address where a tile stores its part of the reduction of a row
  /// or column.
  Value getPart(const Chunk &tile, PartialOp op, Value position);
  /// Returns the address of the finished reduction of a row, column or block.
  Value getAxisTotal(const Chunk &chunk, uint64_t index, Value position);
  /// The number of the block to which an element of some row belongs.
  Value getBlockNumber(const Chunk &chunk, Value row, Value column);

  /// Maps what is the same for all elements of a chunk: uniform values, sizes,
  /// totals of earlier phases, entries that the tensor's elements share.
  void mapShared(const Chunk &chunk, IRMapping &mapping);

  /// Whether a value is loaded only once, with its chunk's record. This holds
  /// for an entry that all elements of a tensor share: only an epilogue writes
  /// it.
  static bool isLoadedOnce(LoadPlaneOp op);

  /// The largest of the values that stay in the history at `entry`.
  Value loadHistory(LoadHistoryOp op, Value entry);
  /// Moves the values of the history at `entry` by one and puts one before
  /// them.
  void pushHistory(PushHistoryOp op, Value entry, Value newest);

  /// The chunk's slots of the workspace: its parts of the kernel's reductions,
  /// then of its metrics.
  Value getSlots(Value workspace, Value chunkIndex);
  /// The slot of a partial or a metric.
  Value getSlot(Value slots, Operation *op);

  /// Returns a pointer `index * stride + offset` bytes past `base`.
  Value advance(Value base, Value index, int64_t stride, int64_t offset = 0);
  /// Loads a value of `type` at `base + offset` bytes; an alignment of 0 means
  /// the type's own.
  Value load(Value base, Type type, int64_t offset = 0, unsigned alignment = 0);

  Value i64(int64_t value);

  /// The address of an element's entry in plane number `plane`.
  Value addressOf(const Chunk &chunk, unsigned plane, Value element);

  /// The planes of all tensors, in order; whether this part reads and writes.
  struct PlaneInfo {
    Type bits;
    unsigned bytes;
    bool isRead, isWritten;
    /// The number of consecutive elements that share an entry; in a part that
    /// runs over rows or columns, the number of consecutive rows or columns.
    int64_t group;
    /// The units that the plane has entries for, and the elements that share
    /// one; of a tensor per row or column, as many rows or columns.
    Granularity entries;
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
  /// Reads the number of the unsharded tensor's elements, if the body asks.
  Value readWholeSize(Value record);
  /// Loads what the tensor's elements share.
  void loadEntries(Chunk &chunk);
  /// Returns the offset of a row's entries in a plane from the tensor's first
  /// entry, in bytes.
  Value getRowOffset(const PlaneInfo &plane, const Chunk &tile, Value row);
  /// Loads the fields of a record that describe reductions and, in a matrix
  /// kernel, their tiles.
  void readReductions(Chunk &chunk, Value record);
  Value readSlot(Value row, unsigned slot, Type type);
  void buildPrologueRow(LLVM::LLVMFuncOp function, Value row);

  LaunchOp kernel;
  OpBuilder &builder;
  Location loc;
  SmallVector<PlaneInfo> planes;
};

/// Checks that all kernels have become steps, and that of tandem's operations
/// only those of lowered bodies are left.
LogicalResult verifyLowered(ModuleOp module);

/// Replaces math.fpowi by square-and-multiply, lowest bit first; a negative
/// exponent gives the reciprocal.
void expandIntegerPowers(LLVM::LLVMFuncOp function);

} // namespace tandem

#endif // TANDEM_CONVERSION_LAUNCHABI_H
