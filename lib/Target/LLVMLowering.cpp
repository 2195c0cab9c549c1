//===- LLVMLowering.cpp - LLVM IR shared by targets -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the lowering to LLVM IR.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/LLVMLowering.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace mlir;

llvm::TargetOptions tandem::getStrictTargetOptions() {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return options;
}

/// Replaces the intrinsics of arith.maxnumf and arith.minnumf, which leave open
/// which of two zeros is the result, by those that order -0 before +0.
static void orderZeros(llvm::Module &module) {
  for (llvm::Function &function : llvm::make_early_inc_range(module)) {
    llvm::Intrinsic::ID id = function.getIntrinsicID();
    if (id != llvm::Intrinsic::maxnum && id != llvm::Intrinsic::minnum)
      continue;
    function.replaceAllUsesWith(llvm::Intrinsic::getOrInsertDeclaration(
        &module,
        id == llvm::Intrinsic::maxnum ? llvm::Intrinsic::maximumnum
                                      : llvm::Intrinsic::minimumnum,
        {function.getReturnType()}));
    function.eraseFromParent();
  }
}

/// Returns the passes that remove redundancy. They are not named in a textual
/// pipeline, because its parser would pull all of LLVM's passes into a static
/// build.
static llvm::ModulePassManager getCleanUpPasses() {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(
      llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass());
  llvm::ModulePassManager manager;
  manager.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  return manager;
}

static void cleanUp(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  getCleanUpPasses().run(module, modules);
}

llvm::Expected<std::unique_ptr<llvm::Module>>
tandem::lowerToLLVMIR(ModuleOp module, llvm::LLVMContext &context,
                      llvm::TargetMachine &machine,
                      llvm::function_ref<void(llvm::Module &)> prepare) {
  auto translated = translateModuleToLLVMIR(module, context);
  if (!translated)
    return llvm::createStringError("the module is not in the LLVM dialect");
  translated->setTargetTriple(machine.getTargetTriple());
  translated->setDataLayout(machine.createDataLayout());
  orderZeros(*translated);
  if (prepare)
    prepare(*translated);
  cleanUp(*translated, machine);
  return translated;
}

static llvm::Expected<std::string> emitFile(llvm::Module &module,
                                            llvm::TargetMachine &machine,
                                            llvm::CodeGenFileType type,
                                            llvm::StringRef what) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager manager;
  if (machine.addPassesToEmitFile(manager, stream, nullptr, type))
    return llvm::createStringError("the target cannot emit " + what);
  manager.run(module);
  return text.str().str();
}

llvm::Expected<std::string> tandem::emitAssembly(llvm::Module &module,
                                                 llvm::TargetMachine &machine) {
  return emitFile(module, machine, llvm::CodeGenFileType::AssemblyFile,
                  "assembly");
}

llvm::Expected<std::string> tandem::emitObject(llvm::Module &module,
                                               llvm::TargetMachine &machine) {
  return emitFile(module, machine, llvm::CodeGenFileType::ObjectFile,
                  "an object file");
}
