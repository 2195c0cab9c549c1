//===- Architecture.h - What depends on a CPU's architecture ----*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the interface of CPU architectures. Each one has a folder,
// and nothing outside of these folders knows an instruction set.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_CPU_ARCHITECTURE_H
#define TANDEM_LIB_TARGET_CPU_ARCHITECTURE_H

#include "mlir/IR/BuiltinOps.h"
#include "tandem/Pipelines/Pipelines.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

namespace tandem {

/// A named instruction set, which shared libraries are compiled for.
struct InstructionSet {
  llvm::StringLiteral name;
  /// LLVM's name of a processor that has it.
  llvm::StringLiteral cpu;
  /// The features, in LLVM's names, by which a machine is known to have it.
  llvm::ArrayRef<llvm::StringLiteral> features;
};

/// Describes an architecture to the code generator for CPUs.
class Architecture {
public:
  virtual ~Architecture() = default;

  virtual llvm::Triple::ArchType getType() const = 0;

  /// Returns the target triple of shared libraries.
  virtual llvm::StringRef getTriple() const = 0;

  /// Returns LLD's name for the format of shared libraries.
  virtual llvm::StringRef getLinkerEmulation() const = 0;

  /// Returns the named instruction sets, each a superset of the one before it.
  virtual llvm::ArrayRef<InstructionSet> getInstructionSets() const = 0;

  /// Returns the features beyond these sets, in LLVM's names, that code for
  /// this machine becomes faster with.
  virtual llvm::ArrayRef<llvm::StringLiteral> getOtherFeatures() const = 0;

  /// Registers LLVM's code generator.
  virtual void initialize() const = 0;

  /// Sets the options of the pipeline that depend on the processor, the lanes
  /// of a loop iteration included.
  virtual void setOptions(const llvm::MCSubtargetInfo &processor,
                          mlir::ModuleOp kernels,
                          CPUPipelineOptions &options) const = 0;

  /// Selects instructions that LLVM's own selection does not find.
  virtual void selectInstructions(llvm::Module &module,
                                  llvm::TargetMachine &machine) const = 0;
};

const Architecture &getX86();
const Architecture &getAArch64();

/// Returns all architectures that code can be compiled for.
llvm::ArrayRef<const Architecture *> getArchitectures();

/// Returns the architecture of a type, or null.
const Architecture *findArchitecture(llvm::Triple::ArchType type);

/// Returns the architecture of this process, or null.
const Architecture *getHostArchitecture();

/// A named instruction set and its architecture; both are null if nothing has
/// the name.
struct NamedSet {
  const Architecture *architecture = nullptr;
  const InstructionSet *set = nullptr;
};

NamedSet findInstructionSet(llvm::StringRef name);

/// Fails unless a machine with the features, in LLVM's names, can run code for
/// an instruction set. Succeeds for names of no instruction set.
llvm::Error checkRuns(llvm::StringRef name, const Architecture *machine,
                      const llvm::StringMap<bool> &features);

/// Returns the largest instruction set that a machine runs, and in parentheses
/// its processor and the further features that code becomes faster with, as in
/// "x86-64-v4 (znver4: avx512vbmi, gfni)".
std::string describeProcessor(const Architecture &machine,
                              llvm::StringRef processor,
                              const llvm::StringMap<bool> &features);

/// Returns whether kernels round the results of arithmetic to a narrow type.
bool hasNarrowArithmetic(mlir::ModuleOp kernels);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_CPU_ARCHITECTURE_H
