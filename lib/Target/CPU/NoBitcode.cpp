//===- NoBitcode.cpp - LLD without link-time optimization -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements, for static builds, the class with which LLD compiles
// bitcode. Kernels are never bitcode, and LLD's own class would pull in
// link-time optimization and with it all of LLVM's passes.
//
//===----------------------------------------------------------------------===//

#include "lld/Common/ErrorHandler.h"
#include "llvm/ADT/SmallVector.h"
#include <memory>

namespace lld::elf {

struct Ctx;
class BitcodeFile;

/// Stands in for a class that no public header declares.
class InputFile {
public:
  virtual ~InputFile() = default;
};

/// The class as LLD 22 declares it for its driver.
class BitcodeCompiler {
public:
  BitcodeCompiler(Ctx &ctx);
  ~BitcodeCompiler();
  void add(BitcodeFile &file);
  llvm::SmallVector<std::unique_ptr<InputFile>, 0> compile();
};

} // namespace lld::elf

using namespace lld::elf;

BitcodeCompiler::BitcodeCompiler(Ctx &) {}
BitcodeCompiler::~BitcodeCompiler() = default;

/// Fails the link. Tandem links only objects that it has compiled, so that only
/// a defect leads here.
void BitcodeCompiler::add(BitcodeFile &) {
  lld::error("this LLD links no bitcode");
}

/// Compiles nothing. The driver calls this even if there is no bitcode.
llvm::SmallVector<std::unique_ptr<InputFile>, 0> BitcodeCompiler::compile() {
  return {};
}
