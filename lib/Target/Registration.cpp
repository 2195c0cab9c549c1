//===- Registration.cpp - Register dialects and passes --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the registration of dialects, passes and pipelines.
//
//===----------------------------------------------------------------------===//

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/InitAllDialects.h"
#include "tandem/InitAllPasses.h"
#include "tandem/InitAllTargets.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Target/Target.h"

using namespace mlir;

void tandem::registerAllDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
              linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect,
              mcf::MCFDialect, scaled::ScaledDialect, scf::SCFDialect,
              TandemDialect, tensor::TensorDialect, vector::VectorDialect>();
  func::registerInlinerExtension(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerAllTargets();
  forEachTarget(
      [&](const Target &target) { target.registerDialects(registry); });
}

void tandem::registerAllPasses() {
  registerTandemPasses();
  registerTandemConversionPasses();
  registerPipelines();
  registerAllTargets();
  forEachTarget([](const Target &target) { target.registerPasses(); });
  registerTransformsPasses();
  registerSCFToControlFlowPass();
  registerConvertControlFlowToLLVMPass();
  registerConvertFuncToLLVMPass();
  registerConvertMathToLLVMPass();
  registerConvertVectorToLLVMPass();
  registerArithToLLVMConversionPass();
  registerReconcileUnrealizedCastsPass();
}
