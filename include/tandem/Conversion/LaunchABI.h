//===- LaunchABI.h - The launch ABI -----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how generated code reads the launch tables: tensor
// records, chunk records, uniform slots. runtime/include/tandem-
// runtime/tandem_runtime.h is the other side.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_LAUNCHABI_H
#define TANDEM_CONVERSION_LAUNCHABI_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Conversion/RandomBits.h"

namespace mlir::tandem {

/// Symbols of a kernel's code. A prefix keeps them from libc's names.
std::string getEntryName(StringRef kernel);
std::string getPrologueName(StringRef kernel);

/// One chunk of work: a range of a tensor's elements, and its record.
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
  /// The number of the tensor's elements.
  Value size;
  /// If the kernel has reductions: where the tensor's totals are, the range of
  /// its chunks, and a value per tandem.total of the body.
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

  /// The entry function, empty but for its arguments: (tensors, chunks,
  /// scalars, workspace, flags, chunk_begin, chunk_end).
  LLVM::LLVMFuncOp createEntry() { return createEntry(kernel.getSymName()); }
  /// The same for a function of another name.
  LLVM::LLVMFuncOp createEntry(StringRef name);

  /// The prologue function, complete: (hypers, integers, scalars, rows).
  LLVM::LLVMFuncOp createPrologue();

  /// Reads chunk number `index` through the entry's arguments.
  Chunk readChunk(LLVM::LLVMFuncOp entry, Value index);

  /// Reads the record of tensor number `tensor`: a chunk without its range.
  Chunk readTensor(LLVM::LLVMFuncOp entry, Value tensor);

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
  /// A value of `type` at `base + offset` bytes.
  Value load(Value base, Type type, int64_t offset = 0);

  Value i64(int64_t value);

  /// The address of an element's entry in plane number `plane`.
  Value addressOf(const Chunk &chunk, unsigned plane, Value element);

  /// The planes of all tensors, in order; whether a kernel reads and writes.
  struct PlaneInfo {
    Type bits;
    unsigned bytes;
    bool isRead, isWritten;
    /// Consecutive elements that share an entry.
    int64_t group;
  };
  SmallVector<PlaneInfo> getPlanes();
  /// Position of an access's plane among all planes.
  unsigned getPlaneIndex(Value tensor, uint64_t plane);

private:
  Value readSlot(Value row, unsigned slot, Type type);
  void buildPrologueRow(LLVM::LLVMFuncOp function, Value row);

  KernelOp kernel;
  OpBuilder &builder;
  Location loc;
};

/// Checks that of tandem's operations only those of a lowered body are left.
LogicalResult verifyLowered(KernelOp kernel);

/// Replaces math.fpowi by square-and-multiply, lowest bit first; a negative
/// exponent gives the reciprocal.
void expandIntegerPowers(LLVM::LLVMFuncOp function);

} // namespace mlir::tandem

#endif // TANDEM_CONVERSION_LAUNCHABI_H
