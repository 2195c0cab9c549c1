//===- PackedVectors.cpp - Several codes in a byte on CPUs ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the loads and stores of planes whose bytes hold the
// codes of two elements each.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tandem/Conversion/PackedCodes.h"

using namespace mlir;
using namespace tandem;

/// The low halves of a 16-bit word's bytes.
static constexpr uint64_t lowHalves = 0x0F0F;

/// Returns the codes of bytes, two of each. A word whose low byte is a pair of
/// codes gets its upper code in the other byte.
static Value unpack(SequenceBuilder &b, Value bytes, VectorType type) {
  Value words = b.resize(bytes, b.builder.getI16Type());
  Value spread = b.ori(words, b.shl(words, 4));
  Value codes = b.andi(spread, b.like(spread, lowHalves));
  return vector::BitCastOp::create(b.builder, b.loc, type, codes);
}

/// Returns bytes of two codes each.
static Value pack(SequenceBuilder &b, Value codes) {
  auto type = cast<VectorType>(codes.getType());
  auto wordType =
      VectorType::get({type.getNumElements() / 2}, b.builder.getI16Type());
  Value words = vector::BitCastOp::create(b.builder, b.loc, wordType, codes);
  Value joined = b.ori(words, b.shr(words, 4));
  return b.resize(joined, b.builder.getI8Type());
}

Value CPUKernelBuilder::loadPacked(StageBlock &block, LoadPlaneOp op) {
  SequenceBuilder b(builder, loc);
  unsigned plane = planeOf(op);
  int64_t packed = planes[plane].packed;
  Value pointer = block.pointers[plane];
  auto type = dyn_cast<VectorType>(op.getType());
  if (type) {
    auto narrow = VectorType::get({width / packed}, type.getElementType());
    Value bytes = LLVM::LoadOp::create(builder, loc, narrow, pointer,
                                       /*alignment=*/1);
    return unpack(b, bytes, type);
  }
  Value entry = LLVM::LoadOp::create(builder, loc, op.getType(), pointer);
  // The elements of a row share a code of a tensor with one per row.
  bool isOfRow = planes[plane].group > 1;
  return extractPacked(b, entry, isOfRow ? block.chunk.row : block.index,
                       packed);
}

void CPUKernelBuilder::storePacked(StageBlock &block, unsigned plane,
                                   Value codes) {
  SequenceBuilder b(builder, loc);
  Value pointer = block.pointers[plane];
  if (width > 1) {
    LLVM::StoreOp::create(builder, loc, pack(b, codes), pointer,
                          /*alignment=*/1);
    return;
  }
  Value next = b.addi(block.index, launch.i64(1));
  Value isLast = b.compare(arith::CmpIPredicate::eq, next, block.chunk.end);
  Value before = LLVM::LoadOp::create(builder, loc, codes.getType(), pointer);
  Value entry =
      insertPacked(b, before, codes, block.index, isLast, planes[plane].packed);
  LLVM::StoreOp::create(builder, loc, entry, pointer);
}

void CPUKernelBuilder::clearPadding(Value block, Value count, int64_t packed) {
  SequenceBuilder b(builder, loc);
  Value last = b.subi(count, launch.i64(1));
  Value place =
      launch.advance(block, b.shr(last, llvm::Log2_64(packed)), /*stride=*/1);
  Value entry = launch.load(place, builder.getI8Type());
  Value code = extractPacked(b, entry, last, packed);
  Value always = b.integer(builder.getI1Type(), true);
  LLVM::StoreOp::create(
      builder, loc, insertPacked(b, entry, code, last, always, packed), place);
}
