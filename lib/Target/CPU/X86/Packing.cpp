//===- Packing.cpp - Truncations in x86 instructions ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the selection of x86 instructions for truncations.
//
//===----------------------------------------------------------------------===//

#include "Packing.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/MC/MCSubtargetInfo.h"

using namespace llvm;

/// The 32-bit lanes of a register and of one of its parts, which packing treats
/// separately, and the number of parts.
static constexpr int lanes = 16, partLanes = 4, numParts = 4;

/// Returns whether an instruction narrows whole registers of i32 to i16 or i8.
static bool isTruncation(Instruction &instruction) {
  auto *from =
      instruction.getOpcode() == Instruction::Trunc
          ? dyn_cast<FixedVectorType>(instruction.getOperand(0)->getType())
          : nullptr;
  if (!from || !from->getElementType()->isIntegerTy(32) ||
      from->getNumElements() % (2 * lanes))
    return false;
  unsigned width = instruction.getType()->getScalarSizeInBits();
  return width == 16 || width == 8;
}

/// Splits a vector into registers and clears the bits above the lowest `width`,
/// since packing saturates.
static SmallVector<Value *> split(IRBuilder<> &builder, Value *value,
                                  unsigned width, const DataLayout &layout) {
  auto *type = cast<FixedVectorType>(value->getType());
  APInt above = APInt::getBitsSetFrom(32, width);
  if (!MaskedValueIsZero(value, above, SimplifyQuery(layout)))
    value = builder.CreateAnd(value, ConstantInt::get(type, ~above));
  auto *part = FixedVectorType::get(builder.getInt32Ty(), lanes);
  SmallVector<Value *> registers;
  for (unsigned first = 0; first < type->getNumElements(); first += lanes)
    registers.push_back(builder.CreateExtractVector(part, value, first));
  return registers;
}

/// Packs two registers. Each part of the result has the elements of that part
/// of `low`, then those of `high`.
static Value *pack(IRBuilder<> &builder, Value *low, Value *high) {
  bool isFirst = low->getType()->getScalarSizeInBits() == 32;
  return builder.CreateIntrinsic(isFirst ? Intrinsic::x86_avx512_packusdw_512
                                         : Intrinsic::x86_avx512_packuswb_512,
                                 {low, high});
}

/// Restores the order of the parts of `count` registers that were packed into
/// one.
static Value *order(IRBuilder<> &builder, Value *packed, int count) {
  unsigned width = 32 * partLanes / count;
  auto *type = FixedVectorType::get(builder.getIntNTy(width), numParts * count);
  SmallVector<int> mask;
  for (int source : seq(count))
    for (int part : seq(numParts))
      mask.push_back(part * count + source);
  Value *ordered =
      builder.CreateShuffleVector(builder.CreateBitCast(packed, type), mask);
  return builder.CreateBitCast(ordered, packed->getType());
}

static Value *truncate(IRBuilder<> &builder, Instruction &instruction) {
  auto *type = cast<FixedVectorType>(instruction.getType());
  unsigned width = type->getScalarSizeInBits();
  SmallVector<Value *> registers =
      split(builder, instruction.getOperand(0), width,
            instruction.getModule()->getDataLayout());
  // If the number of registers does not fill the last pack, the last two are
  // repeated.
  int count = 32 / width;
  while (registers.size() % count)
    registers.append(registers.end() - 2, registers.end());
  Value *result = PoisonValue::get(type);
  int step = count * lanes, length = type->getNumElements();
  for (int first = 0; first < length; first += step) {
    ArrayRef<Value *> sources = ArrayRef(registers).slice(first / lanes, count);
    Value *packed = pack(builder, sources[0], sources[1]);
    if (count == 4)
      packed = pack(builder, packed, pack(builder, sources[2], sources[3]));
    Value *part = order(builder, packed, count);
    if (first + step > length) {
      auto *half = FixedVectorType::get(type->getElementType(), length - first);
      part = builder.CreateExtractVector(half, part, uint64_t(0));
    }
    result = part->getType() == type
                 ? part
                 : builder.CreateInsertVector(type, result, part, first);
  }
  return result;
}

void tandem::selectPacks(Module &module, TargetMachine &machine) {
  if (!machine.getMCSubtargetInfo()->checkFeatures("+avx512bw"))
    return;
  for (Function &function : module)
    for (Instruction &instruction :
         make_early_inc_range(instructions(function))) {
      if (!isTruncation(instruction))
        continue;
      IRBuilder<> builder(&instruction);
      instruction.replaceAllUsesWith(truncate(builder, instruction));
      instruction.eraseFromParent();
    }
}
