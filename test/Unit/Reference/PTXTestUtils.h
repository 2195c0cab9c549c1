//===- PTXTestUtils.h - Running PTX snippets in tests -----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file wraps PTX statements in a kernel and runs it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_REFERENCE_PTXTESTUTILS_H
#define TANDEM_TEST_UNIT_REFERENCE_PTXTESTUTILS_H

#include "tandem/Reference/PTX/Evaluator.h"

#include "llvm/ADT/StringExtras.h"

#include "gtest/gtest.h"

namespace tandem::reference {

/// Returns the kernel `k(in, out)` with %rd20 = in, %rd21 = out and registers.
inline std::string wrap(llvm::StringRef body) {
  return (".version 8.0\n.target sm_90\n.address_size 64\n"
          ".visible .entry k(.param .u64 k_in, .param .u64 k_out) {\n"
          ".reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %w<16>;"
          " .reg .b64 %d<16>; .reg .b64 %rd<24>;\n"
          "ld.param.b64 %rd20, [k_in]; ld.param.b64 %rd21, [k_out];\n" +
          body + "\nret;\n}\n")
      .str();
}

inline std::string parseFailure(llvm::StringRef text) {
  llvm::Expected<PTXModule> module = PTXModule::parse(text);
  return module ? "" : llvm::toString(module.takeError());
}

struct RunResult {
  std::vector<uint64_t> out;
  std::string error;
};

/// Runs one thread of `body` on 64-bit input cells.
inline RunResult runBody(llvm::StringRef body, std::vector<uint64_t> in,
                         uint64_t instructionLimit = 1000) {
  RunResult result;
  result.out.assign(8, 0);
  llvm::Expected<PTXModule> module = PTXModule::parse(wrap(body));
  if (!module) {
    result.error = llvm::toString(module.takeError());
    return result;
  }
  in.resize(8);
  MemoryMap memory;
  cantFail(memory.addReadOnly("in", in.data(), 64));
  cantFail(memory.addWritable("out", result.out.data(), 64));
  module->setInstructionLimit(instructionLimit);
  result.error = llvm::toString(
      module->launch("k",
                     {reinterpret_cast<uint64_t>(in.data()),
                      reinterpret_cast<uint64_t>(result.out.data())},
                     Dim3(), Dim3(), memory));
  return result;
}

/// A source: its register class (h 16, w 32, d 64 bits) and its value.
struct Source {
  char kind;
  uint64_t value;
};

inline std::string widthOf(char kind) {
  return kind == 'h' ? "16" : kind == 'w' ? "32" : "64";
}

/// Runs one instruction on loaded sources and returns the result, whose class
/// is `kind`. Predicates (p) give 1 or 0.
inline uint64_t evaluate(llvm::StringRef opcode, char kind,
                         std::vector<Source> sources) {
  std::string body, list;
  std::vector<uint64_t> in;
  for (const Source &source : sources) {
    std::string reg =
        std::string("%") + source.kind + llvm::utostr(in.size() + 1);
    body += "ld.global.b" + widthOf(source.kind) + " " + reg + ", [%rd20+" +
            llvm::utostr(8 * in.size()) + "];\n";
    list += ", " + reg;
    in.push_back(source.value);
  }
  body += opcode.str() + " %" + kind + "0" + list + ";\n";
  if (kind == 'p')
    body += "selp.b32 %w0, 1, 0, %p0; st.global.b32 [%rd21], %w0;";
  else
    body += "st.global.b" + widthOf(kind) + " [%rd21], %" + kind + "0;";
  RunResult result = runBody(body, in);
  EXPECT_EQ(result.error, "") << opcode.str();
  return result.out[0];
}

} // namespace tandem::reference

#endif // TANDEM_TEST_UNIT_REFERENCE_PTXTESTUTILS_H
