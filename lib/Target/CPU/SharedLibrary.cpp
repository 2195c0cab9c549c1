//===- SharedLibrary.cpp - Shared libraries of kernels --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements linking with LLD in this process.
//
//===----------------------------------------------------------------------===//

#include "SharedLibrary.h"
#include "lld/Common/Driver.h"
#include "tandem/Support/CompilerError.h"
#include "tandem/Support/TemporaryFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Object/ObjectFile.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace tandem;

/// Stands in for llvm::cl::ResetAllOptionOccurrences, which LLD calls when it
/// starts: the options of this process, those of its tools and of a host with
/// the same LLVM, keep their values. LLD is passed none of LLVM's options.
/// LinkLLVM.cmake has the linker resolve that name to this one.
extern "C" void __wrap__ZN4llvm2cl25ResetAllOptionOccurrencesEv();
extern "C" void __wrap__ZN4llvm2cl25ResetAllOptionOccurrencesEv() {}

/// The functions that LLVM may call on its own and that every process has.
static constexpr llvm::StringLiteral allowedCalls[] = {"memcpy", "memmove",
                                                       "memset"};

/// The functions that code calls on processors without the instruction. The C
/// library's versions round correctly.
static constexpr llvm::StringLiteral mathCalls[] = {"fma", "fmaf"};

/// Returns whether code calls functions of the C math library. Fails if it
/// calls any other function.
static llvm::Expected<bool> callsMath(llvm::StringRef object) {
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(object, "kernel"));
  if (!file)
    return file.takeError();
  bool result = false;
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name)
      return llvm::joinErrors(flags.takeError(), name.takeError());
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined) || name->empty() ||
        llvm::is_contained(allowedCalls, *name))
      continue;
    if (!llvm::is_contained(mathCalls, *name))
      return ErrorBuilder(TandemErrorTarget)
             << "the kernel's code calls '" + *name +
                    "', which a package cannot carry; compile it in the "
                    "process that runs it";
    result = true;
  }
  return result;
}

/// Runs LLD. It keeps its state in globals, which it clears when it is done, so
/// that only one thread at a time may run it.
static llvm::Error runLinker(llvm::StringRef emulation,
                             llvm::ArrayRef<const char *> arguments) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<const char *> command = {"ld.lld", "-shared", "--threads=1", "-m",
                                       emulation.data()};
  llvm::append_range(command, arguments);
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result =
      lld::lldMain(command, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode == 0)
    return llvm::Error::success();
  return llvm::createStringError("LLD cannot link the kernel's code: " +
                                 llvm::StringRef(messages).trim());
}

/// Makes a stub of the C math library. A kernel linked against the stub loads
/// the real library at run time; the machine that compiles it needs none.
static llvm::Error makeMathStub(llvm::StringRef emulation,
                                TemporaryFile &stub) {
  TemporaryFile script;
  if (llvm::Error error =
          llvm::joinErrors(script.create("ld"), stub.create("so")))
    return error;
  std::string text;
  for (llvm::StringRef name : mathCalls)
    text += (name + " = 0;\n").str();
  if (llvm::Error error = script.write(text))
    return error;
  return runLinker(
      emulation, {"-soname=libm.so.6", "-o", stub.getPath(), script.getPath()});
}

llvm::Expected<std::string>
tandem::linkSharedLibrary(llvm::StringRef object, llvm::StringRef emulation) {
  auto needsMath = callsMath(object);
  if (!needsMath)
    return needsMath.takeError();
  TemporaryFile input, output, stub;
  if (llvm::Error error =
          llvm::joinErrors(input.create("o"), output.create("so")))
    return error;
  if (llvm::Error error = input.write(object))
    return error;
  llvm::SmallVector<const char *> arguments = {
      "--strip-all", "--build-id=none", "--hash-style=gnu", "-z", "noexecstack",
      "-o",          output.getPath(),  input.getPath()};
  if (*needsMath) {
    if (llvm::Error error = makeMathStub(emulation, stub))
      return error;
    arguments.push_back(stub.getPath());
  }
  if (llvm::Error error = runLinker(emulation, arguments))
    return error;
  return output.read();
}
