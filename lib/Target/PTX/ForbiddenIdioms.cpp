//===- ForbiddenIdioms.cpp - PTX that ptxas compiles wrongly --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the search for forbidden idioms: a table with an entry
// for each, and functions that match their instructions.
//
//===----------------------------------------------------------------------===//

#include "ForbiddenIdioms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

using namespace tandem;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// Maps each register of a function to the instructions that set it.
class Definitions {
public:
  explicit Definitions(const PTXFunction &function) {
    for (const PTXInstruction &instruction : function.instructions)
      setters[instruction.getOperands().front()].push_back(&instruction);
  }

  llvm::ArrayRef<const PTXInstruction *> lookup(StringRef name) const {
    auto place = setters.find(name);
    if (place == setters.end())
      return {};
    return place->second;
  }

private:
  llvm::DenseMap<StringRef, llvm::SmallVector<const PTXInstruction *, 1>>
      setters;
};

/// A sequence of instructions that no kernel may contain.
struct ForbiddenIdiom {
  /// Names what the instruction that ends the sequence computes.
  llvm::StringLiteral what;
  /// Tells what ptxas makes of the sequence, and where that was reported.
  llvm::StringLiteral why;
  /// Names a sequence with the same value that ptxas compiles correctly.
  llvm::StringLiteral instead;
  /// Returns whether an instruction ends such a sequence.
  bool (*matches)(const PTXInstruction &, const Definitions &);
};
} // namespace

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

static bool isExtreme(StringRef head) { return head == "min" || head == "max"; }

static bool isInteger16(StringRef type) {
  return llvm::StringSwitch<bool>(type)
      .Cases({"s16", "u16", "s16x2", "u16x2"}, true)
      .Default(false);
}

/// Returns whether an instruction sets a register to the negative of an
/// integer.
static bool negates(const PTXInstruction &instruction, StringRef value) {
  auto parts = instruction.getParts();
  auto operands = instruction.getOperands();
  if (!parts.back().starts_with("s"))
    return false;
  if (parts.front() == "neg")
    return operands.size() == 2 && operands[1] == value;
  return parts.front() == "sub" && operands.size() == 3 && operands[1] == "0" &&
         operands[2] == value;
}

static bool isOpposite(StringRef name, StringRef value,
                       const Definitions &definitions) {
  return llvm::any_of(
      definitions.lookup(name),
      [&](const PTXInstruction *setter) { return negates(*setter, value); });
}

static bool isMagnitudeByExtreme(const PTXInstruction &instruction,
                                 const Definitions &definitions) {
  auto parts = instruction.getParts();
  auto operands = instruction.getOperands();
  if (!isExtreme(parts.front()) || !parts.back().starts_with("s") ||
      operands.size() != 3)
    return false;
  return isOpposite(operands[1], operands[2], definitions) ||
         isOpposite(operands[2], operands[1], definitions);
}

static bool isExtremeOf16Bits(const PTXInstruction &instruction,
                              const Definitions &) {
  auto parts = instruction.getParts();
  bool isMagnitude = parts.front() == "abs";
  return (isExtreme(parts.front()) || isMagnitude) && isInteger16(parts.back());
}

static bool isPackedSingleSum(const PTXInstruction &instruction,
                              const Definitions &) {
  auto parts = instruction.getParts();
  return llvm::is_contained({"add", "sub", "mul"}, parts.front()) &&
         parts.back() == "f32x2";
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static constexpr ForbiddenIdiom idioms[] = {
    {"is the magnitude of an integer as an extreme of it and its opposite",
     "ptxas 12.8 to 13.3 joins it with another extreme for sm_100 and loses "
     "the opposite (pytorch/pytorch#190973, triton-lang/triton#11032)",
     "abs.s32, or abs.s64", isMagnitudeByExtreme},
    {"is an extreme or a magnitude of 16-bit integers",
     "ptxas 13.3 puts two such values into one register and mixes them up "
     "(NVIDIA/cccl#10958, NVIDIA/cccl#10959)",
     "the same of the values extended to 32 bits", isExtremeOf16Bits},
    {"adds or multiplies packed f32",
     "ptxas 12.8 to 13.0 contracts such a product and a sum of it for sm_100 "
     "and sm_120, although both say .rn, and even with --fmad=false "
     "(test/Python/compiler/test_sass.py)",
     "an instruction for each f32, or fma.rn.f32x2", isPackedSingleSum},
};

static std::string describe(const PTXInstruction &instruction,
                            const ForbiddenIdiom &idiom) {
  return ("line " + Twine(instruction.line) + ": '" + instruction.text + "' " +
          idiom.what + ", which must not be emitted: " + idiom.why +
          "; write " + idiom.instead)
      .str();
}

std::vector<std::string>
tandem::findForbiddenIdioms(const PTXFunction &function) {
  std::vector<std::string> found;
  Definitions definitions(function);
  for (const PTXInstruction &instruction : function.instructions)
    for (const ForbiddenIdiom &idiom : idioms)
      if (idiom.matches(instruction, definitions))
        found.push_back(describe(instruction, idiom));
  return found;
}
