//===- PackedWords.cpp - Several codes in a byte on GPUs ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the packing of a thread's codes in halves of bytes, with
// a few instructions for each 32-bit word.
//
//===----------------------------------------------------------------------===//

#include "PackedWords.h"
#include "KernelBuilder.h"
#include "tandem/Conversion/PackedCodes.h"

using namespace mlir;
using namespace tandem;

/// The low half of each byte of a word.
static constexpr uint64_t lowHalves = 0x0F0F0F0F;

static int64_t countLanes(Value vector) {
  return cast<VectorType>(vector.getType()).getNumElements();
}

/// Chooses four of the bytes of two words, one by each digit of the selector.
static Value permute(SequenceBuilder &b, Value low, Value high,
                     uint32_t selector) {
  Type i32 = b.builder.getI32Type();
  Value digits = b.integer(i32, selector);
  return NVVM::PermuteOp::create(b.builder, b.loc, i32, low, high, digits,
                                 NVVM::PermuteMode::DEFAULT);
}

/// Returns the words of a vector of bytes. The last word has zeros past the
/// vector's end.
static SmallVector<Value> getWords(SequenceBuilder &b, Value bytes) {
  int64_t count = countLanes(bytes);
  Type i32 = b.builder.getI32Type();
  Type narrow =
      count < 4 ? IntegerType::get(b.builder.getContext(), 8 * count) : i32;
  auto type = VectorType::get({count < 4 ? 1 : count / 4}, narrow);
  Value words = vector::BitCastOp::create(b.builder, b.loc, type, bytes);
  SmallVector<Value> result;
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i) {
    Value word = vector::ExtractOp::create(b.builder, b.loc, words, i);
    result.push_back(narrow == i32 ? word : b.resize(word, i32));
  }
  return result;
}

/// Returns the first `count` bytes of words.
static Value getBytes(SequenceBuilder &b, ArrayRef<Value> words,
                      int64_t count) {
  Type i8 = b.builder.getI8Type();
  Value all = words.front();
  Type narrow =
      IntegerType::get(b.builder.getContext(), count < 4 ? 8 * count : 32);
  SmallVector<Value> parts(words);
  if (count < 4)
    parts = {b.resize(all, narrow)};
  auto type = VectorType::get({int64_t(parts.size())}, narrow);
  Value joined = vector::FromElementsOp::create(b.builder, b.loc, type, parts);
  return vector::BitCastOp::create(b.builder, b.loc,
                                   VectorType::get({count}, i8), joined);
}

Value tandem::unpackCodes(SequenceBuilder &b, Value bytes) {
  int64_t count = 2 * countLanes(bytes);
  SmallVector<Value> words;
  for (Value word : getWords(b, bytes)) {
    Value even = b.andi(word, b.like(word, lowHalves));
    Value upper = b.shr(word, 4);
    Value odd = b.andi(upper, b.like(word, lowHalves));
    words.push_back(permute(b, even, odd, 0x5140));
    if (count > 4)
      words.push_back(permute(b, even, odd, 0x7362));
  }
  return getBytes(b, words, count);
}

Value tandem::packCodes(SequenceBuilder &b, Value codes) {
  SmallVector<Value> pairs;
  // The even bytes of these words hold two codes each.
  for (Value word : getWords(b, codes))
    pairs.push_back(b.ori(word, b.shr(word, 4)));
  SmallVector<Value> words;
  for (size_t i = 0; i < pairs.size(); i += 2)
    words.push_back(permute(
        b, pairs[i], i + 1 < pairs.size() ? pairs[i + 1] : pairs[i], 0x6420));
  return getBytes(b, words, countLanes(codes) / 2);
}

Value NVVMKernelBuilder::loadPacked(unsigned plane) {
  SequenceBuilder b(builder, loc);
  auto type =
      VectorType::get({width / planes[plane].packed}, builder.getI8Type());
  return unpackCodes(b,
                     LLVM::LoadOp::create(builder, loc, type, addresses[plane],
                                          getAlignment(plane)));
}

Value NVVMKernelBuilder::packExisting(const Chunk &chunk, Value index,
                                      Value codes) {
  SequenceBuilder b(builder, loc);
  Value exists = lanesExist(chunk, index);
  return packCodes(b, b.select(exists, codes, b.like(codes, 0)));
}
