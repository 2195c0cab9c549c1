//===- InterpreterAgreement.h - A graph and its kernels ---------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a fixture that runs a source graph and the kernels
// lowered from it, stage by stage, on the same planes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_REFERENCE_INTERPRETERAGREEMENT_H
#define TANDEM_TEST_UNIT_REFERENCE_INTERPRETERAGREEMENT_H

#include "InterpreterTestUtils.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/InitAllPasses.h"
#include "tandem/Reference/Interpreter/Values.h"

#include <random>

namespace tandem::reference {

class InterpreterAgreement : public InterpreterTest {
protected:
  InterpreterAgreement() {
    static const bool isRegistered = [] { return registerAllPasses(), true; }();
    (void)isRegistered;
    start.step = 3, start.seed = 0x123456789ABCDEF0, start.key = 9;
    start.external = reverse;
  }

  /// Runs a graph under a strategy, and the kernel after each of `stages`, in
  /// which % stands for the strategy's name, and expects the same planes from
  /// all. Kernels of several phases take whole tensors and are split before
  /// widening.
  void expectAgreement(llvm::StringRef graph, llvm::StringRef strategy,
                       llvm::ArrayRef<const char *> stages, unsigned size) {
    std::string text = (graph + "\n" + strategy).str();
    OwningOpRef<ModuleOp> module = parse(text);
    runPasses(*module, connection);
    auto function = first<func::FuncOp>(*module);
    auto op = first<StrategyOp>(*module);
    MachineState before = draw(function, op, size);
    bool isWhole =
        graph.contains("linalg.reduce") || strategy.contains("group = tensor");
    if (isWhole)
      before.first = 0;
    MachineState wanted = before;
    ASSERT_EQ(llvm::toString(interpretGraph(function, op, wanted)), "");
    for (llvm::StringRef stage : stages) {
      if (isWhole && stage.contains("tandem-widen"))
        continue;
      MachineState got = runStage(text, op.getSymName(), stage.str(), before);
      for (const auto &[name, plane] : wanted.planes)
        EXPECT_EQ(got.planes[name].elements, plane.elements)
            << name << " after " << stage.str();
    }
  }

  /// Returns the built-in graphs whose kernels the interpreter supports: all
  /// except those of matrices.
  static llvm::SmallVector<LibraryFile> getFlatGraphs() {
    llvm::SmallVector<LibraryFile> graphs;
    for (const LibraryFile &graph : getBuiltinGraphs())
      if (!llvm::StringRef(graph.text).contains("per = row"))
        graphs.push_back(graph);
    return graphs;
  }

  /// The state without planes from which launches start.
  MachineState start;
  /// Whether floats are ordinary numbers. Otherwise, every bit pattern is
  /// equally likely, so that NaNs, infinities, subnormals and unordered
  /// components occur.
  bool isTame = false;

private:
  /// The passes before any other: arguments for external steps.
  static inline const std::string connection =
      "func.func(tandem-connect-externals)";

  /// Computes the external step of the built-in graphs: reverses what is sent.
  static llvm::Error reverse(llvm::StringRef, MachineState &state) {
    const std::vector<uint64_t> &sent = state.planes["direction"].elements;
    state.planes["orthogonal"].elements.assign(sent.rbegin(), sent.rend());
    return llvm::Error::success();
  }

  void runPasses(ModuleOp module, const std::string &pipeline) {
    PassManager manager(&context);
    EXPECT_TRUE(succeeded(parsePassPipeline(pipeline, manager)));
    EXPECT_TRUE(succeeded(manager.run(module)));
  }

  MachineState draw(func::FuncOp graph, StrategyOp strategy, unsigned size) {
    MachineState state = start;
    for (BlockArgument argument : graph.getArguments()) {
      RoleAttr role = getRole(argument);
      std::string name = role.getName().str();
      if (!role.isTensor()) {
        if (role.getKind() == RoleKind::hyper)
          state.hypers[name] = chooseHyper(role, strategy.getCompute());
        continue;
      }
      StorageAttrInterface storage = strategy.getStorage(role);
      if (role.getMoment() == Moment::average)
        storage = strategy.getStorage(getRole(graph.getArgument(0)))
                      .getAverageStorage(strategy.getCompute());
      for (const Plane &plane : storage.getPlanes())
        state.planes[name + plane.suffix] = draw(plane, size);
    }
    return state;
  }

  /// Returns the default, or an epsilon that is not zero in the component
  /// format.
  static double chooseHyper(RoleAttr role, ComputeAttr compute) {
    double value = role.getDefaultValue().getValueAsDouble();
    bool isNarrow =
        compute.getPolicy() == Policy::component && compute.getFormat().isF16();
    return isNarrow && role.getDomain() == Domain::epsilon
               ? std::max(value, 1e-7)
               : value;
  }

  PlaneData draw(const Plane &plane, unsigned size) {
    PlaneData data{plane.elementType.getIntOrFloatBitWidth(), {}};
    size_t entries = llvm::divideCeil(size, plane.group.columns);
    for (size_t i = 0; i < entries * std::max<int64_t>(plane.history, 1); ++i)
      data.elements.push_back(
          isTame ? drawTame(plane)
                 : random() & llvm::maskTrailingOnes<uint64_t>(data.width));
    return data;
  }

  /// Draws a number of at most 2 in magnitude; scales are positive.
  uint64_t drawTame(const Plane &plane) {
    std::uniform_real_distribution<double> any(-2, 2), scale(0x1p-10, 2);
    bool isScale = !(plane.group == Group());
    if (std::optional<Format> format = getFormat(plane.elementType))
      return SoftFloat::fromDouble(*format,
                                   isScale ? scale(random) : any(random))
          .toBits();
    return isScale ? 117 + random() % 11 : random() & 0x7F;
  }

  MachineState runStage(llvm::StringRef text, llvm::StringRef strategy,
                        std::string stage, MachineState state) {
    OwningOpRef<ModuleOp> module = parse(text);
    stage.replace(stage.find('%'), 1, strategy.str());
    runPasses(*module, connection + "," + stage);
    EXPECT_EQ(llvm::toString(runProgram(*module, state)), "");
    return state;
  }

  std::mt19937_64 random;
};

} // namespace tandem::reference

#endif // TANDEM_TEST_UNIT_REFERENCE_INTERPRETERAGREEMENT_H
