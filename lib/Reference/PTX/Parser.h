//===- Parser.h - Parser of PTX modules -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the parser of directives, kernels and statements.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_REFERENCE_PTX_PARSER_H
#define TANDEM_LIB_REFERENCE_PTX_PARSER_H

#include "Decoder.h"

namespace tandem::reference::ptx {

/// Parses by recursive descent, and decodes statements as they are read.
class Parser {
public:
  explicit Parser(llvm::StringRef text);

  llvm::Error parseModule();

  std::string target;
  std::vector<std::shared_ptr<const Kernel>> kernels;

private:
  /// The declaration of a variable, up to its values.
  struct Variable {
    llvm::StringRef name;
    uint64_t alignment = 1, count = 1, elementBytes = 0;
  };

  /// Records the first error, at the current token. Returns false.
  bool fail(const llvm::Twine &complaint);
  bool failAt(unsigned line, const llvm::Twine &complaint);
  void advance() { token = lexer.next(); }
  bool consume(char c);
  bool expect(char c);
  bool expectNumber(uint64_t &value);
  bool expectName(llvm::StringRef &name);

  bool parseDirective();
  bool parseVariable(Variable &variable);
  bool parseShared();
  bool parseConstants();
  bool parseKernel();
  bool parseParameters();
  bool parseParameter();
  bool parsePerformanceDirectives();
  bool parseBody();
  bool parseItem();
  bool parseRegisters();
  bool parsePragma();
  bool parseLabelOrStatement();
  bool parseGuard(Statement &statement);
  bool parseOperands(Statement &statement);
  bool parseOperand(Operand &operand);
  bool parseNumberOperand(Operand &operand);
  bool parseVector(Operand &operand);
  bool parseAddress(Operand &operand);

  llvm::StringRef text;
  Lexer lexer;
  Token token;
  std::unique_ptr<KernelBuilder> builder;
  /// The addresses of the shared and constant variables, and the total size of
  /// the shared ones in bytes.
  llvm::StringMap<uint64_t> addresses;
  uint64_t sharedBytes = 0;
  std::vector<Constants> constants;
  std::string message;
};

} // namespace tandem::reference::ptx

#endif // TANDEM_LIB_REFERENCE_PTX_PARSER_H
