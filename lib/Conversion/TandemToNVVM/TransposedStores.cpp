//===- TransposedStores.cpp - Stores of transposes ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the stores of a tile's rows to transposed planes. A
// thread has the same columns in all rows of a tile, so that it can gather
// elements that are consecutive in such a plane.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

using namespace mlir;
using namespace tandem;

/// The bytes that are gathered per column.
static constexpr int64_t pieceBytes = 8;

SmallVector<StorePlaneOp> NVVMKernelBuilder::getTransposedStores() {
  return llvm::filter_to_vector(stores, [&](StorePlaneOp op) {
    return planes[planeOf(op)].isTransposed;
  });
}

/// Returns whether pieces are whole and aligned: rows and addresses must be
/// multiples of their size.
Value NVVMKernelBuilder::canGather(const Chunk &tile) {
  SequenceBuilder b(builder, loc);
  Value bits = b.ori(tile.rows, b.ori(tile.firstRow, tile.endRow));
  for (StorePlaneOp op : getTransposedStores()) {
    Value address = LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(),
                                             tile.planes[planeOf(op)]);
    bits = b.ori(bits, address);
  }
  Value low = b.andi(bits, launch.i64(pieceBytes - 1));
  return b.compare(arith::CmpIPredicate::eq, low, launch.i64(0));
}

SmallVector<Value> NVVMKernelBuilder::storeTransposed(const Chunk &row,
                                                      Value index,
                                                      Value isGathered,
                                                      ValueRange state) {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> next;
  for (auto [op, before] : llvm::zip(getTransposedStores(), state)) {
    StorePlaneOp store = op;
    unsigned plane = planeOf(store);
    int64_t bytes = planes[plane].bytes, rows = pieceBytes / bytes;
    Value codes = mapping.lookup(store.getValue());
    // After all rows of the piece, the code of the first is in the lowest byte.
    Value newest = b.shl(b.resize(b.bits(codes), builder.getI64Type()),
                         8 * (pieceBytes - bytes));
    Value piece = b.ori(b.shr(before, 8 * bytes), newest);
    next.push_back(piece);
    auto branch = scf::IfOp::create(builder, loc, isGathered, true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.elseBlock());
    storeLanes(row, index, plane, codes);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value inPiece = b.andi(row.row, launch.i64(rows - 1));
    Value isLast =
        b.compare(arith::CmpIPredicate::eq, inPiece, launch.i64(rows - 1));
    auto whole = scf::IfOp::create(builder, loc, isLast);
    builder.setInsertionPointToStart(whole.thenBlock());
    storeLanes(row, index, plane, piece);
  }
  return next;
}

/// Stores lanes to their columns. If a lane holds a piece, the piece ends with
/// the element of this row.
void NVVMKernelBuilder::storeLanes(const Chunk &row, Value index,
                                   unsigned plane, Value values) {
  int64_t bytes = planes[plane].bytes;
  int64_t stored =
      getElementTypeOrSelf(values.getType()).getIntOrFloatBitWidth() / 8;
  forExistingLanes(row, index, [&](Value position, int64_t lane) {
    Value place = launch.addressOf(row, plane, position);
    if (stored != bytes)
      place = launch.advance(place, launch.i64(1), bytes - stored);
    Value entry = vector::ExtractOp::create(builder, loc, values, lane);
    LLVM::StoreOp::create(builder, loc, entry, place, stored);
  });
}
