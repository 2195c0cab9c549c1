//===- InterpreterTestUtils.h - Interpreting text in tests ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a fixture that parses graphs, strategies, kernels and
// functions, and interprets them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_REFERENCE_INTERPRETERTESTUTILS_H
#define TANDEM_TEST_UNIT_REFERENCE_INTERPRETERTESTUTILS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Reference/Interpreter/Interpreter.h"
#include "tandem/Support/Library.h"

#include "gtest/gtest.h"

#include <string>

namespace tandem::reference {

/// Returns a plane of bf16 or other 16-bit elements.
inline PlaneData halves(std::vector<uint64_t> elements) {
  return {16, std::move(elements)};
}
inline PlaneData words(std::vector<uint64_t> elements) {
  return {32, std::move(elements)};
}

class InterpreterTest : public ::testing::Test {
protected:
  InterpreterTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
  }

  OwningOpRef<ModuleOp> parse(llvm::StringRef text) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << "cannot parse:\n" << text.str();
    return module;
  }

  template <typename OpTy>
  static OpTy first(ModuleOp module) {
    return *module.getOps<OpTy>().begin();
  }

  /// Interprets a module's kernel or step.
  static llvm::Error runProgram(ModuleOp module, MachineState &state) {
    if (module.getOps<StepOp>().empty())
      return interpretKernel(first<KernelOp>(module), state);
    return interpretStep(first<StepOp>(module), state);
  }

  /// Returns the text of a built-in file.
  static std::string builtin(llvm::StringRef name,
                             llvm::ArrayRef<LibraryFile> files) {
    return findInLibrary(name, {}, files).value_or(LibraryText()).text;
  }

  /// Runs a graph under a strategy, both as text; returns the error or "".
  std::string runGraph(llvm::StringRef graph, llvm::StringRef strategy,
                       MachineState &state) {
    OwningOpRef<ModuleOp> graphs = parse(graph), strategies = parse(strategy);
    return llvm::toString(interpretGraph(
        first<func::FuncOp>(*graphs), first<StrategyOp>(*strategies), state));
  }

  /// Does the same for built-in ones.
  std::string runBuiltin(llvm::StringRef graph, llvm::StringRef strategy,
                         MachineState &state) {
    return runGraph(builtin(graph, getBuiltinGraphs()),
                    builtin(strategy, getBuiltinStrategies()), state);
  }

  std::string runKernel(llvm::StringRef text, MachineState &state) {
    OwningOpRef<ModuleOp> module = parse(text);
    return llvm::toString(runProgram(*module, state));
  }

  /// Runs the first function; an error fails the test.
  llvm::SmallVector<ValueBits>
  runFunction(llvm::StringRef text, llvm::ArrayRef<ValueBits> arguments) {
    OwningOpRef<ModuleOp> module = parse(text);
    auto results = interpretFunction(first<func::FuncOp>(*module), arguments);
    if (results)
      return *results;
    ADD_FAILURE() << llvm::toString(results.takeError());
    return {};
  }

  std::string failFunction(llvm::StringRef text,
                           llvm::ArrayRef<ValueBits> arguments) {
    OwningOpRef<ModuleOp> module = parse(text);
    auto results = interpretFunction(first<func::FuncOp>(*module), arguments);
    return results ? "" : llvm::toString(results.takeError());
  }

  MLIRContext context;
};

} // namespace tandem::reference

#endif // TANDEM_TEST_UNIT_REFERENCE_INTERPRETERTESTUTILS_H
