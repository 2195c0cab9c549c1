//===- Architecture.cpp - What depends on a CPU's architecture ------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the list of CPU architectures.
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Support/CompilerError.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace tandem;

llvm::ArrayRef<const Architecture *> tandem::getArchitectures() {
  static const Architecture *const all[] = {&getX86(), &getAArch64()};
  return all;
}

const Architecture *tandem::findArchitecture(llvm::Triple::ArchType type) {
  for (const Architecture *architecture : getArchitectures())
    if (architecture->getType() == type)
      return architecture;
  return nullptr;
}

const Architecture *tandem::getHostArchitecture() {
  return findArchitecture(
      llvm::Triple(llvm::sys::getProcessTriple()).getArch());
}

NamedSet tandem::findInstructionSet(llvm::StringRef name) {
  for (const Architecture *architecture : getArchitectures())
    for (const InstructionSet &set : architecture->getInstructionSets())
      if (set.name == name)
        return {architecture, &set};
  return {};
}

/// Returns a feature of an instruction set that a machine lacks, or "".
static llvm::StringRef findMissing(const InstructionSet &set,
                                   const llvm::StringMap<bool> &features) {
  for (llvm::StringRef feature : set.features)
    if (!features.lookup(feature))
      return feature;
  return "";
}

llvm::Error tandem::checkRuns(llvm::StringRef name, const Architecture *machine,
                              const llvm::StringMap<bool> &features) {
  NamedSet found = findInstructionSet(name);
  if (!found.set)
    return llvm::Error::success();
  auto fail = [&](const std::string &reason) -> llvm::Error {
    return ErrorBuilder(TandemErrorTarget)
           << "this machine cannot run code for '"
           << Named{TDM_MESSAGE_TARGET, name}
           << "': " + reason +
                  "; leave isa out, and the code is for this machine";
  };
  if (found.architecture != machine)
    return fail("it is another architecture");
  for (const InstructionSet &set : machine->getInstructionSets()) {
    llvm::StringRef missing = findMissing(set, features);
    if (!missing.empty())
      return fail(("its processor has no " + missing).str());
    if (&set == found.set)
      break;
  }
  return llvm::Error::success();
}

std::string tandem::describeProcessor(const Architecture &machine,
                                      llvm::StringRef processor,
                                      const llvm::StringMap<bool> &features) {
  llvm::StringRef largest;
  for (const InstructionSet &set : machine.getInstructionSets()) {
    if (!findMissing(set, features).empty())
      break;
    largest = set.name;
  }
  llvm::SmallVector<llvm::StringRef> others;
  for (llvm::StringRef feature : machine.getOtherFeatures())
    if (features.lookup(feature))
      others.push_back(feature);
  return (largest + " (" + processor + (others.empty() ? "" : ": ") +
          llvm::join(others, ", ") + ")")
      .str();
}

/// Returns whether an operation rounds the result of arithmetic to a narrow
/// type.
static bool isNarrowArithmetic(Operation *op) {
  if (!isa<arith::ArithFastMathInterface>(op) || op->getNumResults() != 1)
    return false;
  // The operand of a conversion has another type.
  auto type = dyn_cast<FloatType>(op->getResult(0).getType());
  return type && type.getWidth() < 32 && op->getOperand(0).getType() == type;
}

bool tandem::hasNarrowArithmetic(ModuleOp kernels) {
  return kernels
      .walk([](Operation *op) {
        return isNarrowArithmetic(op) ? WalkResult::interrupt()
                                      : WalkResult::advance();
      })
      .wasInterrupted();
}
