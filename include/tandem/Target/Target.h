//===- Target.h - Targets and their registry --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares targets and their registry. A target compiles kernels to
// images, which packages hold and the runtime loads. Projects outside of this
// tree register their own in addition to those of registerAllTargets().
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_TARGET_H
#define TANDEM_TARGET_TARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "tandem-runtime/tandem_runtime.h"
#include "tandem/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace tandem {

/// All code of a kernel for one target, like a tdm_image that owns its bytes.
struct Image {
  /// The format of the bytes, which drivers of the runtime know by this name,
  /// and the instruction set or chip that they run on: "x86-64-v3".
  std::string kind, target;
  std::string data;
  /// The version of the assembler that made machine code outside of this
  /// process, and its optimization level; empty and 0 for other images.
  std::string assembler;
  unsigned level = 0;
};

/// Functions of a kernel in this process.
class HostCode {
public:
  virtual ~HostCode();

  /// Returns the address of a function, which stays valid as long as this
  /// object.
  virtual llvm::Expected<void *> lookup(llvm::StringRef symbol) = 0;
};

/// The code of a kernel for a target: an image, unless it stays in this
/// process. Code that stays may have an image too, if it was asked for.
struct TargetCode {
  Image image;
  std::unique_ptr<HostCode> host;
};

/// The options of a compilation for a target.
struct TargetOptions {
  /// One of the target's names.
  std::string name;
  /// The instruction set of code that stays in this process.
  std::string isa = "native";
  /// The number of elements computed at once; 0 lets the target choose.
  int64_t width = 0;
  /// Whether code that stays in this process is also linked to an image, so
  /// that other processes on the same processor can load it.
  bool wantsImage = false;
};

/// A family of chips or instruction sets that kernels can be compiled for. Each
/// of its members has a name.
class Target {
public:
  virtual ~Target();

  /// Returns whether kernels become images, which packages can hold.
  virtual bool hasImages() const { return true; }

  /// Returns whether `name`, such as "x86-64-v3", is one of this target's.
  virtual bool hasName(llvm::StringRef name) const = 0;

  /// Returns the names, as messages list them: "x86-64, x86-64-v2".
  virtual std::string listNames() const = 0;

  /// Returns whether an image is one that `compile` creates for `name`.
  virtual bool isImage(llvm::StringRef name, const tdm_image &image) const {
    return name == image.target;
  }

  /// Returns whether the code for a name depends only on the kernel, the
  /// options, the libraries in this process and, if it stays there, the
  /// processor. The cache on disk keeps only such code.
  virtual bool isCacheable(llvm::StringRef name) const { return false; }

  /// Registers the dialects and their translations that `compile` needs in
  /// addition to those that all targets share. Later calls of
  /// registerAllDialects() include them.
  virtual void registerDialects(DialectRegistry &registry) const {}

  /// Registers the target's own passes and pipelines, which tools offer. Later
  /// calls of registerAllPasses() include them.
  virtual void registerPasses() const {}

  /// Registers the target's own translations for tandem-translate
  /// (tandem/Target/Translations.h).
  virtual void registerTranslations() const {}

  /// Compiles the `tandem.step` operations of a module, which
  /// -tandem-split-phases creates. The code has the entries and prologues of
  /// the launch ABI. Errors that are emitted as diagnostics replace the one
  /// that is returned.
  virtual llvm::Expected<TargetCode>
  compile(ModuleOp kernels, const TargetOptions &options) const = 0;
};

/// Adds a target. Any thread may call this at any time; the target is never
/// destroyed. If several targets have a name, it is the first one's.
void registerTarget(std::unique_ptr<Target> target);

/// Calls `visit` with each target, in the order of their registration.
void forEachTarget(llvm::function_ref<void(const Target &)> visit);

/// Returns the target that has a name, or null.
const Target *findTarget(llvm::StringRef name);

/// Lists the names of all targets, for messages.
std::string listTargets();

/// Lists the names of the targets with images.
std::string listImageTargets();

} // namespace tandem

#endif // TANDEM_TARGET_TARGET_H
