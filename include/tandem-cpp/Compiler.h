//===- Compiler.h - Tandem's compiler in C++ --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the compiler's C API (tandem-c/Tandem.h) for C++17, in the
// style of tandem-cpp/Runtime.h. It includes no header of LLVM or MLIR.
//
//   auto compiled = tdm::compile({"adamw", "flash-f16"});
//   if (!compiled)
//     return fail(compiled.error().message);
//   auto kernel = compiled->load();
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CPP_COMPILER_H
#define TANDEM_CPP_COMPILER_H

#include "tandem-c/Tandem.h"
#include "tandem-cpp/Runtime.h"
#include <vector>

namespace tdm {

/// The options of a compilation. TandemCompileOptions explains each of them.
struct CompileOptions {
  std::string graph, strategy;
  std::vector<std::string> path = {};
  std::string target = "cpu", isa = "native";
  int64_t width = 0;
  bool metrics = false, flags = false;
  std::string function = {};
  bool weightAverage = false, weightOperand = false;
};

/// Returns the compiler's message of this thread's last failure.
inline Error lastCompilerError() { return {tandemGetLastError(), TDM_OK}; }

/// Returns the strings as C strings, which live as long as `strings`.
inline std::vector<const char *> toTexts(Span<const std::string> strings) {
  std::vector<const char *> texts;
  for (const std::string &string : strings)
    texts.push_back(string.c_str());
  return texts;
}

/// A kernel and its code for one target.
class CompiledKernel {
public:
  explicit CompiledKernel(TandemKernel *kernel)
      : handle(kernel, tandemKernelDestroy) {}

  TandemKernel *get() const { return handle.get(); }
  const tdm_kernel_info &info() const { return *tandemKernelGetInfo(get()); }
  double bytesPerParameter() const {
    return tandemKernelGetBytesPerParameter(get());
  }

  /// Returns the code for the target: PTX text or an ELF file, or nothing for
  /// "cpu".
  Span<const char> image() const {
    const tdm_image *image = tandemKernelGetImage(get());
    if (!image)
      return {};
    return {static_cast<const char *>(image->data), image->size};
  }

  /// Creates the runtime's kernel on a device, or on the CPU if `device` is
  /// null. The result keeps this kernel alive.
  Expected<Kernel> load(const Device *device = nullptr) const {
    tdm_kernel *kernel = tandemKernelCreateRuntimeKernel(
        get(), device ? device->get() : nullptr);
    if (!kernel)
      return lastCompilerError();
    return Kernel(kernel, {handle, &info()});
  }

private:
  std::shared_ptr<TandemKernel> handle;
};

/// Compiles a graph under a strategy. Calls from several threads run one by
/// one.
inline Expected<CompiledKernel> compile(const CompileOptions &options) {
  std::vector<const char *> path = toTexts(options.path);
  TandemCompileOptions plain = {};
  plain.graph = options.graph.c_str();
  plain.strategy = options.strategy.c_str();
  plain.path = path.data();
  plain.pathLength = intptr_t(path.size());
  plain.target = options.target.c_str();
  plain.isa = options.isa.c_str();
  plain.width = options.width;
  plain.weightAverage = options.weightAverage;
  plain.weightOperand = options.weightOperand;
  plain.metrics = options.metrics;
  plain.flags = options.flags;
  plain.function = options.function.c_str();
  if (TandemKernel *kernel = tandemCompile(&plain))
    return CompiledKernel(kernel);
  return lastCompilerError();
}

/// A kernel for a package, under the name by which it is found there.
struct PackageEntry {
  std::string name;
  const CompiledKernel *kernel;
};

/// Writes a package with code for each target, such as "x86-64-v3" or "sm_90",
/// or for the usual targets if `targets` is empty.
inline Status savePackage(const std::string &path,
                          Span<const PackageEntry> entries,
                          Span<const std::string> targets = {}) {
  std::vector<TandemKernel *> kernels;
  std::vector<const char *> names, wanted = toTexts(targets);
  for (const PackageEntry &entry : entries) {
    kernels.push_back(entry.kernel->get());
    names.push_back(entry.name.c_str());
  }
  if (tandemSavePackage(path.c_str(), kernels.data(), names.data(),
                        intptr_t(kernels.size()), wanted.data(),
                        intptr_t(wanted.size())))
    return std::monostate();
  return lastCompilerError();
}

} // namespace tdm

#endif // TANDEM_CPP_COMPILER_H
