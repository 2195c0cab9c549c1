//===- Layers.h - The passes of a layer -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares layers: modules with a forward pass and the functions that
// restore what it saves, compiled under a recipe. A recipe says how tensors are
// stored between the passes, the options how they are outside of the layer.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_LAYERS_H
#define TANDEM_TARGET_LAYERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem-c/Tandem.h"
#include "tandem/Support/LLVM.h"
#include "tandem/Target/Compiler.h"

namespace tandem {

struct SessionModule;

/// An input that is not a plain tensor, and how it is stored.
struct StoredInput {
  std::string name;
  /// The storage as MLIR spells it: "#tandem.float<bf16>".
  std::string storage;
};

struct LayerOptions {
  /// MLIR text of the layer (see loadGraph).
  std::string layer;
  /// The recipe's name, and the directories that are searched for it before the
  /// built-in ones. The layer's module may define it, too.
  std::string recipe;
  std::vector<std::string> path;
  /// The formats of inputs and outputs: `elements` of those with an entry for
  /// each element, `columns` of those with one for each column, such as
  /// weights; if empty, it is the same. Those with an entry for each row are
  /// f32.
  std::string elements = "f32", columns;
  /// The inputs that come from other layers in a storage.
  std::vector<StoredInput> stored;
  /// Whether the forward pass also saves the outputs that go to linear layers,
  /// as these would keep them. It has no effect without such outputs.
  bool keepsOutputs = false;
  /// "cpu" or an NVIDIA chip such as "sm_90".
  std::string target = "cpu";
  /// For "cpu": see compileForCPU.
  std::string isa = "native";
};

/// The functions of a layer, as the C API lists them.
#define TANDEM_LAYER_PASS(value, name) name = value,
enum class LayerPass { TANDEM_LAYER_PASSES(TANDEM_LAYER_PASS) };
#undef TANDEM_LAYER_PASS

struct LayerPassOptions {
  LayerPass pass = LayerPass::forward;
  /// The inputs of this pass that come from other layers, such as gradients.
  std::vector<StoredInput> stored;
  /// Whether all outputs are plain tensors, even if the recipe stores them by
  /// their destination.
  bool hasPlainOutputs = false;
};

/// A function of a layer: its name and its outputs, in order.
struct LayerFunction {
  struct Output {
    std::string name;
    /// Whether a linear layer takes it.
    bool isForLinear;
    /// Whether it is a gradient, not an activation.
    bool isGradient;
  };
  std::string name;
  std::vector<Output> outputs;
};

/// A layer under a recipe, whose passes are compiled on request. Safe to use
/// from several threads; calls run one by one.
class Layer {
public:
  /// Reads the layer and its recipe.
  static llvm::Expected<std::unique_ptr<Layer>>
  create(const LayerOptions &options);
  ~Layer();

  /// Returns the function of a pass, or null if the layer has none that
  /// recomputes its outputs.
  const LayerFunction *getFunction(LayerPass pass) const;

  /// Returns whether the recipe stores outputs by their destination: it begins
  /// with rules for outputs that name a consumer or a flow.
  bool storesByFlow() const { return byFlow; }

  /// Compiles a pass. The others read what the forward pass saves under the
  /// same names, which may be those of its inputs and outputs.
  llvm::Expected<std::unique_ptr<CompiledKernel>>
  compile(const LayerPassOptions &wanted) const;

private:
  explicit Layer(const LayerOptions &options) : options(options) {}

  llvm::Error findFunctions(ModuleOp module);
  llvm::Error addRecipe(SessionModule &session);
  llvm::Error makeEdges(SessionModule &session);
  void addEdges(OpBuilder &builder, RoleKind kind, StringRef name = {}) const;
  llvm::Error addPassRules(SessionModule &session,
                           const LayerFunction &function,
                           const LayerPassOptions &wanted) const;

  LayerOptions options;
  /// The layer and its recipe, with rules for what lies outside of the layer.
  OwningOpRef<ModuleOp> module;
  /// The recipe's symbol in the module.
  std::string symbol;
  /// The functions of the layer, in the order of LayerPass.
  std::vector<LayerFunction> functions;
  /// The storages of plain tensors, by granularity.
  SmallVector<std::pair<Granularity, StorageAttrInterface>, 3> edges;
  bool byFlow = false;
};

/// Returns an error if a recipe is neither built in nor in a file on the path.
llvm::Error checkRecipe(StringRef recipe, ArrayRef<std::string> path);

} // namespace tandem

#endif // TANDEM_TARGET_LAYERS_H
