//===- Assembler.cpp - NVIDIA's assembler ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the calls of ptxas.
//
//===----------------------------------------------------------------------===//

#include "Assembler.h"
#include "tandem/Support/CompilerError.h"
#include "tandem/Support/TemporaryFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Program.h"

using namespace tandem;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

llvm::Expected<Assembler> Assembler::find(StringRef target, StringRef chip) {
  auto program = llvm::sys::findProgramByName("ptxas");
  if (program)
    return Assembler(std::move(*program));
  return ErrorBuilder(TandemErrorTarget)
         << "target '" << Named{TDM_MESSAGE_TARGET, target}
         << "' needs ptxas, which is not on PATH; add the directory where CUDA "
            "has it, or use target '"
         << Named{TDM_MESSAGE_TARGET, chip} << "', which is PTX";
}

bool Assembler::run(ArrayRef<StringRef> arguments, StringRef printed) const {
  std::optional<StringRef> redirects[] = {StringRef(), printed, printed};
  SmallVector<StringRef> all = {"ptxas"};
  llvm::append_range(all, arguments);
  return llvm::sys::ExecuteAndWait(program, all, std::nullopt, redirects) == 0;
}

llvm::Expected<std::string> Assembler::getVersion() const {
  TemporaryFile printed;
  if (llvm::Error error = printed.create("txt"))
    return error;
  bool isRun = run({"--version"}, printed.getPath());
  auto text = printed.read();
  if (!text)
    return text.takeError();
  // The text contains "Cuda compilation tools, release 13.0, V13.0.88".
  StringRef version = StringRef(*text).split(", V").second.take_while(
      [](char c) { return llvm::isDigit(c) || c == '.'; });
  if (!isRun || version.empty())
    return llvm::createStringError("ptxas does not say its version: " +
                                   StringRef(*text).trim());
  return version.str();
}

llvm::Expected<std::string> Assembler::assemble(StringRef ptx, StringRef chip,
                                                unsigned level) const {
  TemporaryFile input, output, messages;
  if (llvm::Error error = llvm::joinErrors(
          llvm::joinErrors(input.create("ptx"), output.create("cubin")),
          messages.create("txt")))
    return error;
  if (llvm::Error error = input.write(ptx))
    return error;
  std::string arch = ("-arch=" + chip).str();
  std::string optimization = "-O" + std::to_string(level);
  if (run({arch, optimization, input.getPath(), "-o", output.getPath()},
          messages.getPath()))
    return output.read();
  auto text = messages.read();
  return text ? llvm::createStringError("ptxas cannot assemble the kernel "
                                        "for " +
                                        chip + ": " + StringRef(*text).trim())
              : text.takeError();
}
