//===- LaunchABI.h - The launch ABI -----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how generated code reads the launch tables: tensor
// records, chunk records and uniform slots. The runtime declares them in
// tandem-runtime/tandem_launch.h.
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

/// Return the symbols of a kernel's functions. A prefix avoids conflicts with
/// libc.
std::string getEntryName(StringRef kernel);
std::string getPrologueName(StringRef kernel);

/// The arguments of an entry, in order; see tandem-runtime/tandem_launch.h.
namespace EntryArgument {
enum : unsigned { tensors, chunks, scalars, workspace, flags, begin, end };
} // namespace EntryArgument

/// The largest number of columns of a tile, which is the chunk of a matrix
/// kernel, and of rows. In a kernel of blocks a tile has the rows of one block.
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
  /// The numbers of the tensor's rows, columns and elements.
  Value rows, columns, size;
  /// The number of the unsharded tensor's elements, if the kernel asks for it.
  Value wholeSize;
  /// The rows of a tile, which covers columns `begin` to `end` of some rows,
  /// and the positions of its first partial results among those of all rows or
  /// columns.
  Value firstRow, endRow, rowParts, columnParts;
  /// The row, if the chunk lies in a single one.
  Value row;
  /// In a matrix kernel, the addresses of the partial results of each reduction
  /// along an axis, and the number of tiles in a row and in a column.
  SmallVector<Value> parts;
  Value partsOfRow, partsOfColumn;
  /// If the kernel has reductions, the address of the tensor's totals, the
  /// range of its chunks (in a launch per row or column, of the chunks of rows
  /// or columns), and a value for each tandem.reduction_result of the body.
  Value totals, firstChunk, endChunk;
  SmallVector<Value> known;
  /// A value for each load of an entry that the tensor's elements share. It is
  /// empty if only the tensor's record has been read.
  SmallVector<Value> entries;

  /// Returns the inputs of the random bits that `op` draws for the elements
  /// from `index` on; `mapping` holds the kernel's uniform values.
  RandomSource getRandomSource(SequenceBuilder &b, RandomBitsOp op, Value index,
                               const IRMapping &mapping) const;
};

/// Builds the parts of generated code that access the launch tables.
class LaunchBuilder {
public:
  LaunchBuilder(LaunchOp kernel, OpBuilder &builder)
      : kernel(kernel), builder(builder), loc(kernel.getLoc()) {}

  /// Creates the entry function, which has arguments and an empty block.
  LLVM::LLVMFuncOp createEntry() {
    return createEntry(kernel.getFunctionName());
  }
  /// Creates an entry function of another name.
  LLVM::LLVMFuncOp createEntry(StringRef name);

  /// Creates a loop over the entry's range.
  scf::ForOp createRange(LLVM::LLVMFuncOp entry);

  /// Returns the range of a GPU entry, which is empty if the word after the
  /// launch's flags says to skip it.
  std::pair<Value, Value> getRangeUnlessSkipped(LLVM::LLVMFuncOp entry);

  /// Creates the complete prologue function: (hypers, integers, scalars, rows).
  LLVM::LLVMFuncOp createPrologue();

  /// Reads chunk number `index` through the entry's arguments.
  Chunk readChunk(LLVM::LLVMFuncOp entry, Value index);

  /// Reads the record of tensor number `tensor`: a chunk without its range.
  Chunk readTensor(LLVM::LLVMFuncOp entry, Value tensor);

  /// Reads tile number `index` through the entry's arguments.
  Chunk readTile(LLVM::LLVMFuncOp entry, Value index);
  /// Returns one row of a tile as a chunk whose elements are counted from the
  /// first one of the row.
  Chunk getRow(const Chunk &tile, Value row);

  /// Returns the address where a tile stores its part of the reduction of a row
  /// or column.
  Value getPart(const Chunk &tile, PartialOp op, Value position);
  /// Returns the address of the finished reduction of a row, column or block.
  Value getAxisTotal(const Chunk &chunk, uint64_t index, Value position);
  /// Returns the number of the block that an element of some row belongs to.
  Value getBlockNumber(const Chunk &chunk, Value row, Value column);

  /// Maps the values that are the same for all elements of a chunk: uniform
  /// values, sizes, totals of earlier phases, and entries that the tensor's
  /// elements share.
  void mapShared(const Chunk &chunk, IRMapping &mapping);

  /// Returns whether a value is loaded only once, with its chunk's record. This
  /// holds for an entry that all elements of a tensor share, because only an
  /// epilogue writes it.
  static bool isLoadedOnce(LoadPlaneOp op);

  /// Builds the largest of the values that stay in the history at `entry`.
  Value loadHistory(LoadHistoryOp op, Value entry);
  /// Moves the values of the history at `entry` back by one and stores `newest`
  /// before them.
  void pushHistory(PushHistoryOp op, Value entry, Value newest);

  /// Returns the chunk's slots of the workspace: those of the kernel's
  /// reductions, then those of its metrics.
  Value getSlots(Value workspace, Value chunkIndex);
  /// Returns the slot of a partial or a metric.
  Value getSlot(Value slots, Operation *op);

  /// Returns a pointer `index * stride + offset` bytes past `base`.
  Value advance(Value base, Value index, int64_t stride, int64_t offset = 0);
  /// Loads a value of `type` at `base + offset` bytes; an alignment of 0 means
  /// the type's own.
  Value load(Value base, Type type, int64_t offset = 0, unsigned alignment = 0);

  Value i64(int64_t value);

  /// Returns the address of an element's entry in plane number `plane`.
  Value addressOf(const Chunk &chunk, unsigned plane, Value element);

  /// A plane, and how this launch accesses it.
  struct PlaneInfo {
    Type bits;
    unsigned bytes;
    bool isRead, isWritten;
    /// The number of consecutive elements that share an entry; in a launch per
    /// row or column, the number of consecutive rows or columns.
    int64_t group;
    /// The units that the plane has entries for, and the elements that share an
    /// entry; in a tensor per row or column, the rows or columns.
    Granularity entries;
    Group ownGroup;
    /// Whether a column's entries are consecutive.
    bool isTransposed;
    /// The number of consecutive elements whose codes fill an entry.
    int64_t packed;

    bool isUsed() const { return isRead || isWritten; }
    /// Returns whether consecutive elements have consecutive codes.
    bool isStreamed() const { return isUsed() && group == 1 && !isTransposed; }
  };
  ArrayRef<PlaneInfo> getPlanes();
  /// Returns the position of an access's plane among all planes.
  unsigned getPlaneIndex(Value tensor, uint64_t plane);

private:
  void findPlanes();
  /// Reads the number of the unsharded tensor's elements, if the body asks.
  Value readWholeSize(Value record);
  /// Loads the entries that the tensor's elements share.
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

/// Checks that all kernels have become steps and that the only operations of
/// the tandem dialect that are left are those of lowered bodies.
LogicalResult verifyLowered(ModuleOp module);

/// Replaces math.fpowi by square-and-multiply, lowest bit first; a negative
/// exponent gives the reciprocal.
void expandIntegerPowers(LLVM::LLVMFuncOp function);

} // namespace tandem

#endif // TANDEM_CONVERSION_LAUNCHABI_H
