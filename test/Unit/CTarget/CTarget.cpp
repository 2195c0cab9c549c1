//===- CTarget.cpp - A target that compiles through C ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a target outside of the compiler: kernels are translated
// to C, which the system's C compiler turns into shared libraries.
//
//===----------------------------------------------------------------------===//

#include "CTarget.h"

#include "CEmitter.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Support/TemporaryFile.h"
#include "tandem/Target/Target.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace tandem;

/// Compiles C text to a shared library.
static llvm::Expected<std::string> compileC(llvm::StringRef text) {
  auto program = llvm::sys::findProgramByName("cc");
  if (!program)
    return llvm::createStringError("target 'c' needs cc, which is not on PATH");
  TemporaryFile source, library, messages;
  if (llvm::Error error = llvm::joinErrors(
          llvm::joinErrors(source.create("c"), library.create("so")),
          messages.create("txt")))
    return error;
  if (llvm::Error error = source.write(text))
    return error;
  std::optional<llvm::StringRef> redirects[] = {
      llvm::StringRef(), messages.getPath(), messages.getPath()};
  // Forbid contraction: products and sums keep two roundings.
  llvm::StringRef arguments[] = {"cc",
                                 "-std=c11",
                                 "-O1",
                                 "-ffp-contract=off",
                                 "-fPIC",
                                 "-shared",
                                 "-o",
                                 library.getPath(),
                                 source.getPath(),
                                 "-lm"};
  if (!llvm::sys::ExecuteAndWait(*program, arguments, std::nullopt, redirects))
    return library.read();
  auto said = messages.read();
  return said ? llvm::createStringError("cc cannot compile the kernel: " +
                                        llvm::StringRef(*said).trim())
              : said.takeError();
}

namespace {
class CTarget : public Target {
public:
  bool hasName(llvm::StringRef name) const override { return name == "c"; }

  std::string listNames() const override { return "c"; }

  llvm::Expected<TargetCode>
  compile(ModuleOp kernels, const TargetOptions &options) const override {
    PassManager manager(kernels.getContext());
    CPUPipelineOptions pipeline;
    // C has no vectors.
    pipeline.width = 1;
    buildCPUPipeline(manager, pipeline);
    std::string text;
    llvm::raw_string_ostream os(text);
    if (failed(manager.run(kernels)) || failed(ctarget::emitC(kernels, os)))
      return llvm::createStringError("cannot lower the kernels to C");
    auto library = compileC(text);
    if (!library)
      return library.takeError();
    TargetCode code;
    code.image.kind = ctarget::imageKind;
    code.image.target = "c";
    code.image.data = std::move(*library);
    return code;
  }
};
} // namespace

void ctarget::registerTarget() {
  tandem::registerTarget(std::make_unique<CTarget>());
}
