//===- TransposedStore.cpp - Stores of transposes -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the stores of blocks of a row to the transposed matrix.
//
//===----------------------------------------------------------------------===//

#include "TransposedStore.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;

void tandem::storeTransposed(SequenceBuilder &b, LaunchBuilder &launch,
                             const Chunk &row, unsigned plane, Value index,
                             Value vector, Value scratch) {
  OpBuilder &builder = b.builder;
  const auto &info = launch.getPlanes()[plane];
  LLVM::StoreOp::create(builder, b.loc, vector, scratch, info.bytes);
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  Value count = arith::MinSIOp::create(builder, b.loc, b.subi(row.end, index),
                                       launch.i64(width));
  Value step = launch.i64(1), begin = launch.i64(0);
  auto lanes = scf::ForOp::create(builder, b.loc, begin, count, step);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(lanes.getBody()->getTerminator());
  Value lane = lanes.getInductionVar();
  Value element =
      launch.load(launch.advance(scratch, lane, info.bytes), info.bits);
  LLVM::StoreOp::create(builder, b.loc, element,
                        launch.addressOf(row, plane, b.addi(index, lane)),
                        info.bytes);
}
