//===- Rounding.cpp - Roundings in x86 instructions -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the selection of x86 instructions for roundings.
//
//===----------------------------------------------------------------------===//

#include "Rounding.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;
using namespace llvm::PatternMatch;

/// The number of 32-bit lanes of a register.
static constexpr int lanes = 16;

/// Returns the x of x + 0x7FFF + ((x >> 16) & 1) on whole registers, or null.
static Value *matchRounding(Instruction &instruction) {
  auto *type = dyn_cast<FixedVectorType>(instruction.getType());
  if (!type || !type->getElementType()->isIntegerTy(32) ||
      type->getNumElements() % lanes)
    return nullptr;
  Value *x = nullptr;
  auto half = m_c_Add(m_Value(x), m_SpecificInt(0x7FFF));
  auto odd = m_And(m_LShr(m_Deferred(x), m_SpecificInt(16)), m_One());
  return match(&instruction, m_Add(half, odd)) ? x : nullptr;
}

static Value *buildRounding(IRBuilder<> &builder, Value *x) {
  auto *type = cast<FixedVectorType>(x->getType());
  Value *bit = builder.CreateAnd(x, ConstantInt::get(type, 0x10000));
  Value *halves = builder.CreateOr(bit, ConstantInt::get(type, 0x7FFF));
  auto *narrow = FixedVectorType::get(builder.getInt16Ty(), 2 * lanes);
  Value *ones = ConstantInt::get(narrow, 1);
  Value *result = PoisonValue::get(type);
  for (int first = 0, end = type->getNumElements(); first < end;
       first += lanes) {
    auto *part = FixedVectorType::get(builder.getInt32Ty(), lanes);
    Value *slice = builder.CreateExtractVector(part, halves, first);
    Value *addend =
        builder.CreateIntrinsic(Intrinsic::x86_avx512_pmaddw_d_512,
                                {builder.CreateBitCast(slice, narrow), ones});
    result = builder.CreateInsertVector(type, result, addend, first);
  }
  return builder.CreateAdd(x, result);
}

void tandem::selectRoundings(Module &module, TargetMachine &machine) {
  if (!machine.getMCSubtargetInfo()->checkFeatures("+avx512bw"))
    return;
  for (Function &function : module)
    for (Instruction &instruction :
         make_early_inc_range(instructions(function))) {
      llvm::Value *x = matchRounding(instruction);
      if (!x)
        continue;
      IRBuilder<> builder(&instruction);
      instruction.replaceAllUsesWith(buildRounding(builder, x));
      RecursivelyDeleteTriviallyDeadInstructions(&instruction);
    }
}
