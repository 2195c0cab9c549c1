//===- Compiler.h - From graph text to code ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the compiler as a library: one call from a graph and a
// strategy to a kernel's code and description.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_COMPILER_H
#define TANDEM_TARGET_COMPILER_H

#include "tandem/Support/LLVM.h"
#include "tandem/Target/Description.h"
#include "tandem/Target/Target.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace tandem {

struct CompileOptions {
  /// MLIR text of one graph, or of one kernel at any stage before
  /// -tandem-widen.
  std::string graph;
  /// The graph's name if the text has several, such as a layer's two passes.
  std::string function;
  /// A strategy's name for a graph, empty for a kernel, which has its storages.
  std::string strategy;
  /// The name of the strategy in the description, if it is not `strategy`.
  std::string strategyTitle;
  /// Directories searched for strategies before the built-in ones.
  std::vector<std::string> path;
  /// A registered target: "cpu" for this process, or one such as "sm_90".
  std::string target = "cpu";
  /// The instruction set of code for this process.
  std::string isa = "native";
  /// The number of elements computed at once; 0 lets the target choose.
  int64_t width = 0;
  /// Whether the average of the weights over steps is a further state.
  bool weightAverage = false, weightOperand = false;
  /// Whether the kernel also measures the effective descent quality.
  bool metrics = false;
  /// Whether a launch reports gradients that are not finite.
  bool flags = false;

  /// A rule of a strategy: how tensors of a kind are stored.
  struct Rule {
    RoleKind kind;
    /// The only tensor that it applies to; empty for all of the kind.
    std::string name;
    /// The storage as MLIR spells it: "#tandem.float<bf16>".
    std::string storage;
  };
  /// The rules of `strategy`, in their order, if no file has it.
  std::vector<Rule> rules;
  /// The compute policy under these rules: "f32 f32" or "component bf16".
  std::string compute;
};

/// A kernel and its code for one target.
struct CompiledKernel {
  /// The description of the kernel for its callers. It shares the ownership of
  /// what it points to, such as the package that the kernel comes from.
  std::shared_ptr<const tdm_kernel_info> info;
  /// The description's image for `target`; null if the code stays in this
  /// process, or is chosen from a package when it is loaded.
  const tdm_image *image = nullptr;
  /// Code that stays in this process, and its two functions of the launch ABI.
  std::unique_ptr<HostCode> code;
  void *entry = nullptr;
  void *prologue = nullptr;
  /// The functions of the launches before the main one, which is `entry`, and
  /// of the epilogues after it.
  std::vector<void *> reductionEntries, epilogues;
  /// The requested number of elements computed at once; 0 lets each target
  /// choose.
  int64_t width = 0;
  /// The target that the options name.
  std::string target;
  /// For a kernel that was not compiled but loaded: its package, and the
  /// instruction set of its code, empty for the best one.
  const tdm_package *package = nullptr;
  std::string isa;
};

/// Returns an error unless a registered target has this name.
llvm::Error checkTarget(llvm::StringRef target);

/// Compiles the one graph or kernel of `options.graph`, unless the cache on
/// disk has it (tandem-runtime/tandem_cache.h). Safe to call from several
/// threads; compilations run one by one. Diagnostics become the error's
/// message.
llvm::Expected<std::unique_ptr<CompiledKernel>>
compile(const CompileOptions &options);

/// Returns how many times this process has generated a kernel's code. Kernels
/// from the cache on disk do not count.
uint64_t getNumCompilations();

/// A tensor of a kernel.
struct KernelTensor {
  std::string role;
  /// Its storage, as MLIR spells it: "#tandem.float<bf16>".
  std::string storage;
  /// Whether it is a second moment of gradients, which is never negative.
  bool isSecondMoment;
};

/// Returns the tensors of a kernel, in the order of their planes.
llvm::Expected<std::vector<KernelTensor>>
getTensors(const CompiledKernel &kernel);

/// Compiles the same kernel for a package, for a registered target such as
/// "x86-64-v3".
llvm::Expected<Image> compileImage(const CompiledKernel &kernel,
                                   llvm::StringRef target);

/// Returns the LLVM IR that the kernel's code for an instruction set such as
/// "x86-64" is selected from.
llvm::Expected<std::string> emitLLVMIR(const CompiledKernel &kernel,
                                       llvm::StringRef isa);

/// Returns a graph's text for a built-in name, a path that ends in .mlir, or
/// MLIR text.
llvm::Expected<std::string> loadGraph(StringRef graph);

} // namespace tandem

#endif // TANDEM_TARGET_COMPILER_H
