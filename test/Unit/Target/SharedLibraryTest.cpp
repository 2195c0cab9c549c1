//===- SharedLibraryTest.cpp - Tests of linking ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests which calls the code of a packaged kernel may contain. No
// kernel has such calls, but the code that LLVM generates may change.
//
//===----------------------------------------------------------------------===//

#include "lib/Target/CPU/SharedLibrary.h"
#include "lib/Target/CPU/Architecture.h"
#include "tandem/Target/LLVMLowering.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "gtest/gtest.h"

using namespace tandem;

/// Compiles an object file whose function calls another one.
static std::string compileCall(llvm::StringRef callee,
                               const Architecture &architecture = getX86()) {
  architecture.initialize();
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::string name = callee.str();
  auto module = llvm::parseAssemblyString(
      "declare float @" + name + "(float)\n" +
          "define float @kernel(float %x) {\n" + "  %y = call float @" + name +
          "(float %x)\n  ret float %y\n}\n",
      diagnostic, context);
  llvm::Triple triple(architecture.getTriple());
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, architecture.getInstructionSets().front().cpu, "",
      getStrictTargetOptions(), llvm::Reloc::PIC_));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  return llvm::cantFail(emitObject(*module, *machine));
}

/// Returns whether a linked library requires libm, from its string table.
static bool needsMath(llvm::StringRef library) {
  return library.contains("libm.so.6");
}

TEST(SharedLibraryTest, LinksForEachArchitecture) {
  for (const Architecture *architecture : getArchitectures()) {
    auto library = linkSharedLibrary(compileCall("memcpy", *architecture),
                                     architecture->getLinkerEmulation());
    ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
    EXPECT_FALSE(needsMath(*library));
    auto file = llvm::cantFail(llvm::object::ObjectFile::createObjectFile(
        llvm::MemoryBufferRef(*library, "library")));
    EXPECT_EQ(file->getArch(), architecture->getType());
  }
}

/// LLD would reset the options of the process that runs it.
TEST(SharedLibraryTest, KeepsOptions) {
  llvm::cl::opt<int> option("shared-library-test", llvm::cl::init(1));
  option = 2;
  llvm::cantFail(linkSharedLibrary(compileCall("memcpy"), "elf_x86_64"));
  EXPECT_EQ(option, 2);
  option.removeArgument();
}

TEST(SharedLibraryTest, AsksForTheMathematicalLibrary) {
  auto library = linkSharedLibrary(compileCall("fmaf"), "elf_x86_64");
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
  EXPECT_TRUE(needsMath(*library));
}

TEST(SharedLibraryTest, RefusesOtherCalls) {
  auto library = linkSharedLibrary(compileCall("tanhf"), "elf_x86_64");
  ASSERT_FALSE(bool(library));
  EXPECT_EQ(llvm::toString(library.takeError()),
            "the kernel's code calls 'tanhf', which a package cannot carry; "
            "compile it in the process that runs it");
}

TEST(SharedLibraryTest, RefusesWhatIsNoObjectFile) {
  auto library = linkSharedLibrary("no object file", "elf_x86_64");
  ASSERT_FALSE(bool(library));
  llvm::consumeError(library.takeError());
}
