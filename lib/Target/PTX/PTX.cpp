//===- PTX.cpp - PTX emission ---------------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the translation to PTX. If the check of the result finds
// unexpected counts, the module is compiled a second time.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/PTX/PTX.h"
#include "OpaqueArithmetic.h"
#include "tandem/Target/LLVMLowering.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace tandem;

namespace {
/// A chip and the PTX version that its features need.
struct Chip {
  llvm::StringLiteral name;
  llvm::StringLiteral features;
};
} // namespace

static constexpr Chip chips[] = {
    {"sm_80", "+ptx80"},   {"sm_86", "+ptx80"},  {"sm_89", "+ptx81"},
    {"sm_90", "+ptx80"},   {"sm_90a", "+ptx80"}, {"sm_100", "+ptx86"},
    {"sm_100a", "+ptx86"}, {"sm_120", "+ptx87"},
};

static const Chip *findChip(llvm::StringRef name) {
  const Chip *chip =
      llvm::find_if(chips, [&](const Chip &chip) { return chip.name == name; });
  return chip == std::end(chips) ? nullptr : chip;
}

bool tandem::isSupportedChip(llvm::StringRef chip) {
  return findChip(chip) != nullptr;
}

std::string tandem::listChips() {
  return llvm::join(
      llvm::map_range(chips, [](const Chip &chip) { return chip.name; }), ", ");
}

/// Makes LLVM compute with single f32 values only: ptxas contracts packed
/// products and sums (ForbiddenIdioms.cpp). LLVM has this as a command-line
/// option only. If an LLVM lacks the option, the check of the PTX refuses what
/// it would have prevented.
static void avoidPackedSingles() {
  auto &options = llvm::cl::getRegisteredOptions();
  auto place = options.find("nvptx-no-f32x2");
  if (place != options.end())
    static_cast<llvm::cl::opt<bool> *>(place->second)->setInitialValue(true);
}

static void initializeNVPTX() {
  static bool once = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    avoidPackedSingles();
    return true;
  }();
  (void)once;
}

static llvm::Expected<std::string>
emitPTX(ModuleOp module, const Chip &chip,
        llvm::function_ref<void(llvm::Module &)> prepare) {
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return llvm::createStringError(message);
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, chip.name, chip.features, getStrictTargetOptions(), std::nullopt,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  llvm::LLVMContext context;
  auto lowered = lowerToLLVMIR(module, context, *machine, prepare);
  if (!lowered)
    return lowered.takeError();
  return emitAssembly(**lowered, *machine);
}

llvm::Expected<std::string>
tandem::translateToPTX(ModuleOp module, llvm::ArrayRef<PartRequirement> parts,
                       llvm::StringRef name, int64_t width) {
  const Chip *chip = findChip(name);
  if (!chip)
    return llvm::createStringError("unknown chip '" + name +
                                   "'; expected one of " + listChips());
  initializeNVPTX();
  auto ptx = emitPTX(module, *chip, nullptr);
  if (!ptx)
    return ptx.takeError();
  llvm::Error error = checkPTX(*ptx, parts, name, width);
  if (!error)
    return ptx;
  if (!error.isA<PTXCountError>())
    return std::move(error);
  // LLVM may have simplified operations without changing a result, or may have
  // lost one. PTX without simplifications has exactly the operations that it
  // was given.
  llvm::consumeError(std::move(error));
  ptx = emitPTX(module, *chip, makeArithmeticOpaque);
  if (!ptx)
    return ptx.takeError();
  if (llvm::Error remaining = checkPTX(*ptx, parts, name, width))
    return std::move(remaining);
  return ptx;
}
