//===- Compiler.h - From graph text to code ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the compiler as a library: one call from a graph and a
// strategy to a kernel's code and signature.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_COMPILER_H
#define TANDEM_TARGET_COMPILER_H

#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Target/CPU.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

struct tdm_package;

namespace mlir::tandem {

/// What a caller must know to launch a kernel.
struct KernelSignature {
  /// One array per plane, in the order of the tensor table.
  struct PlaneEntry {
    /// "param", "exp_avg_sq.lo": the role's name and the plane's suffix.
    std::string name;
    /// The role's name and kind.
    std::string role;
    RoleKind kind;
    /// "bf16", "f32", "i16".
    std::string type;
    unsigned bits;
    bool isRead, isWritten, isVisible;
    /// The elements (rows or columns of a tensor per row or column) that share
    /// an entry.
    Group group;
    /// Whether storing a value reads what earlier steps have left.
    bool isKept;
    /// How many values an entry remembers; 0 but for histories.
    int64_t history;
    /// What the tensor has entries for: elements, rows or columns.
    Granularity per;
    /// Whether the array is the matrix's transpose.
    bool isTransposed;

    /// What a storage says of a plane, by its suffix.
    static PlaneEntry get(const Plane &plane, bool isVisible);

    /// Who shares an entry: "each 128", "the tensor", "each row", "each
    /// 128x128".
    std::string getSharers() const;

    /// The length of the array for a tensor of so many rows and columns; groups
    /// of a matrix begin anew in each row.
    int64_t getNumEntries(int64_t rows, int64_t columns) const;
  };
  /// A hyperparameter: f64, with its domain.
  struct Hyper {
    std::string name;
    std::optional<double> defaultValue;
    double min, max;
    /// Whether the ends lie outside of the domain.
    bool minOpen, maxOpen;
    /// A positive value below this, which would round to zero in the component
    /// format, lies outside. 0 where such a value is fine.
    double minPositive;
  };
  /// A step or seed: i64.
  struct Integer {
    std::string name;
    RoleKind kind;
  };

  /// A reduction over more than a group, and the phase that makes it.
  struct Reduction {
    ReduceKind kind;
    unsigned phase;
    Scope scope;
  };

  std::string name, strategy, compute;
  std::vector<PlaneEntry> planes;
  std::vector<Hyper> hypers;
  std::vector<Integer> integers;
  /// 32-bit slots of the scalar row.
  unsigned numScalars = 0;
  /// Sums that a launch makes per tensor.
  unsigned numMetrics = 0;
  /// Whether a launch reports gradients that are not finite.
  bool hasFlags = false;
  /// Whether tensors are matrices, whose rows and columns the kernel knows.
  bool isMatrix = false;
  /// Whether the graph itself has none, but its storages.
  bool isFlatGraph = false;
  /// The rows and columns of a block; 0 if the kernel knows no blocks.
  int64_t block = 0;
  /// What a phase runs over, and whether it can run in the launch of the one
  /// before it.
  struct Phase {
    Granularity per = Granularity::element;
    bool continues = false;
  };
  /// Phases of a step, of which the last one writes.
  std::vector<Phase> phases = {Phase()};
  /// What earlier phases make for later ones.
  std::vector<Reduction> reductions;
  /// Behind the last phase, what is left to do: for each row, column, block or,
  /// last, each tensor (`element`).
  std::vector<Granularity> commits;

  /// "adamw under bf16"; the name alone for a kernel with storages of its own.
  std::string getTitle() const;

  /// Bytes of weight, gradient and states per parameter.
  double getBytesPerParameter() const;

  static KernelSignature get(KernelOp kernel, StringRef strategy);

  /// Adds what -tandem-split-phases has made of the kernel.
  void addParts(ModuleOp module);
};

/// The kernel's name for its code of a phase, and for what it does at the end.
std::string getPhaseName(const KernelSignature &signature, unsigned phase);
std::string getCommitName(const KernelSignature &signature, Granularity per);

struct CompileOptions {
  /// MLIR text of one graph, or of one kernel at any stage before
  /// -tandem-widen.
  std::string graph;
  /// The graph's name where the text has several, such as a layer's two passes.
  std::string function;
  /// A strategy's name for a graph, empty for a kernel, which has its storages.
  std::string strategy;
  /// Directories searched for strategies before the built-in ones.
  std::vector<std::string> path;
  /// "cpu" or an NVIDIA chip such as "sm_90".
  std::string target = "cpu";
  /// For "cpu": see compileForCPU.
  std::string isa = "native";
  /// Elements per step; 0 chooses.
  int64_t width = 0;
  /// Whether the kernel also measures the effective descent quality.
  bool metrics = false;
  /// Whether a launch reports gradients that are not finite.
  bool flags = false;

  /// A rule of a strategy: how tensors of a kind are stored.
  struct Rule {
    RoleKind kind;
    /// The only tensor that it is for; empty for all of the kind.
    std::string name;
    /// "#tandem.float<bf16>".
    std::string storage;
  };
  /// The rules of `strategy`, in their order, if no file has it.
  std::vector<Rule> rules;
  /// The compute policy under these rules: "f32 f32" or "component bf16".
  std::string compute;
};

/// A kernel and its code for one target.
struct CompiledKernel {
  KernelSignature signature;
  /// The kernel on planes, as MLIR text: the last stage all targets share.
  std::string kernelIR;
  /// For a GPU.
  std::string ptx;
  /// For a CPU: code, and its two functions of the launch ABI.
  std::unique_ptr<CPUCode> code;
  void *entry = nullptr;
  void *prologue = nullptr;
  /// Its phases before the last, which `entry` is, and what ends it.
  std::vector<void *> earlyEntries, commits;
  /// Elements per step that were asked for; 0 lets each target choose.
  int64_t width = 0;
  /// "cpu" or a chip.
  std::string target;
  /// For a kernel that was not compiled but loaded: its package, its name in it
  /// and the instruction set of its code, empty for the best one.
  std::shared_ptr<tdm_package> package;
  std::string nameInPackage, isa;
};

/// Compiles the one graph or kernel of `options.graph`. Safe to call from
/// several threads; calls take turns. Diagnostics become the error's message.
llvm::Expected<std::unique_ptr<CompiledKernel>>
compile(const CompileOptions &options);

/// A tensor of a kernel.
struct KernelTensor {
  std::string role;
  /// How it is stored: "#tandem.float<bf16>".
  std::string storage;
  /// Whether it is a second moment of gradients, none of which is negative.
  bool isSecondMoment;
};

/// The tensors of a kernel, in the order of their planes.
llvm::Expected<std::vector<KernelTensor>>
getTensors(const CompiledKernel &kernel);

/// Compiles the same kernel for a package: to the bytes of a shared library for
/// an instruction set such as "x86-64-v3", or to PTX for a chip.
llvm::Expected<std::string> compileImage(const CompiledKernel &kernel,
                                         llvm::StringRef target);

/// The LLVM IR that the kernel's code for an instruction set such as "x86-64"
/// is selected from.
llvm::Expected<std::string> emitLLVMIR(const CompiledKernel &kernel,
                                       llvm::StringRef isa);

/// A graph's text: a built-in name, a path that ends in .mlir, or MLIR text.
llvm::Expected<std::string> loadGraph(StringRef graph);

} // namespace mlir::tandem

#endif // TANDEM_TARGET_COMPILER_H
