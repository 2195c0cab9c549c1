//===- CPU.cpp - Code for the CPU -----------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements just-in-time compilation for CPUs.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/CPU.h"
#include "Architecture.h"
#include "LongKernels.h"
#include "SharedLibrary.h"
#include "tandem/Support/CompilerError.h"
#include "tandem/Target/LLVMLowering.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/Threading.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace tandem;

std::string tandem::listISAs() { return "native, " + listPortableISAs(); }

bool tandem::isPortableISA(llvm::StringRef isa) {
  return findInstructionSet(isa).set;
}

std::string tandem::listPortableISAs() {
  llvm::SmallVector<llvm::StringRef> names;
  for (const Architecture *architecture : getArchitectures())
    for (const InstructionSet &set : architecture->getInstructionSets())
      names.push_back(set.name);
  return llvm::join(names, ", ");
}

std::string tandem::describeNativeISA() {
  const Architecture *host = getHostArchitecture();
  return host ? describeProcessor(*host, llvm::sys::getHostCPUName(),
                                  llvm::sys::getHostCPUFeatures())
              : llvm::sys::getProcessTriple();
}

/// Registers LLVM's code generators. Threads may not register them at the same
/// time.
static void initializeArchitectures() {
  static llvm::once_flag flag;
  llvm::call_once(flag, [] {
    for (const Architecture *architecture : getArchitectures())
      architecture->initialize();
  });
}

/// Returns a description of this machine, or of one with an instruction set.
static llvm::Expected<llvm::orc::JITTargetMachineBuilder>
findMachine(llvm::StringRef isa) {
  initializeArchitectures();
  if (isa == "native") {
    if (getHostArchitecture())
      return llvm::orc::JITTargetMachineBuilder::detectHost();
    return llvm::createStringError("no code can be compiled for " +
                                   llvm::sys::getProcessTriple());
  }
  NamedSet found = findInstructionSet(isa);
  if (!found.set)
    return ErrorBuilder(TandemErrorTarget)
           << "unknown instruction set '" << Named{TDM_MESSAGE_TARGET, isa}
           << "'; expected one of " + listISAs();
  llvm::orc::JITTargetMachineBuilder builder(
      llvm::Triple(found.architecture->getTriple()));
  builder.setCPU(found.set->cpu.str());
  return builder;
}

/// Returns the target machine description for the name of an ISA.
static llvm::Expected<llvm::orc::JITTargetMachineBuilder>
describeMachine(llvm::StringRef isa) {
  auto builder = findMachine(isa);
  if (!builder)
    return builder.takeError();
  builder->getOptions() = getStrictTargetOptions();
  // Code and constants are in one allocation, so that instructions can address
  // constants directly.
  builder->setCodeModel(llvm::CodeModel::Small);
  builder->setRelocationModel(llvm::Reloc::PIC_);
  // Kernels are straight-line code in one basic block. A higher level takes a
  // quarter longer and generates no faster code.
  builder->setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
  return builder;
}

static const Architecture &getArchitecture(const llvm::TargetMachine &machine) {
  return *findArchitecture(machine.getTargetTriple().getArch());
}

void tandem::setProcessorOptions(ModuleOp kernels, llvm::StringRef isa,
                                 CPUPipelineOptions &options) {
  auto description = describeMachine(isa);
  if (!description)
    return llvm::consumeError(description.takeError());
  auto machine = description->createTargetMachine();
  if (!machine)
    return llvm::consumeError(machine.takeError());
  getArchitecture(**machine).setOptions(*(*machine)->getMCSubtargetInfo(),
                                        kernels, options);
}

CPUCode::CPUCode(std::unique_ptr<llvm::orc::LLJIT> jit) : jit(std::move(jit)) {}
CPUCode::~CPUCode() = default;

llvm::Expected<void *> CPUCode::lookup(llvm::StringRef symbol) {
  auto address = jit->lookup(symbol);
  if (!address)
    return address.takeError();
  return address->toPtr<void *>();
}

static llvm::Expected<std::unique_ptr<llvm::Module>>
lower(ModuleOp module, llvm::LLVMContext &context,
      llvm::TargetMachine &machine) {
  auto lowered = lowerToLLVMIR(module, context, machine);
  if (lowered) {
    getArchitecture(machine).selectInstructions(**lowered, machine);
    boundCompileTime(**lowered, machine);
  }
  return lowered;
}

/// Links an object file into a shared library. It stays empty if the code calls
/// functions that a library cannot find everywhere.
static void linkIfPossible(llvm::StringRef object,
                           const llvm::TargetMachine &machine,
                           std::string &library) {
  auto linked =
      linkSharedLibrary(object, getArchitecture(machine).getLinkerEmulation());
  if (linked)
    library = std::move(*linked);
  else
    llvm::consumeError(linked.takeError());
}

llvm::Expected<std::unique_ptr<CPUCode>>
tandem::compileForCPU(ModuleOp module, llvm::StringRef isa,
                      std::string *library) {
  if (llvm::Error error = checkRuns(isa, getHostArchitecture(),
                                    llvm::sys::getHostCPUFeatures()))
    return error;
  auto description = describeMachine(isa);
  if (!description)
    return description.takeError();
  auto machine = description->createTargetMachine();
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto lowered = lower(module, context, **machine);
  if (!lowered)
    return lowered.takeError();
  auto object = emitObject(**lowered, **machine);
  if (!object)
    return object.takeError();
  if (library)
    linkIfPossible(*object, **machine, *library);
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(*description))
                 .create();
  if (!jit)
    return jit.takeError();
  if (llvm::Error error = (*jit)->addObjectFile(
          llvm::MemoryBuffer::getMemBufferCopy(*object, "kernel")))
    return error;
  return std::make_unique<CPUCode>(std::move(*jit));
}

/// Lowers a module for an instruction set and prints it with `print`.
static llvm::Expected<std::string>
emit(ModuleOp module, llvm::StringRef isa,
     llvm::function_ref<llvm::Expected<std::string>(llvm::Module &,
                                                    llvm::TargetMachine &)>
         print) {
  auto description = describeMachine(isa);
  if (!description)
    return description.takeError();
  auto machine = description->createTargetMachine();
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto lowered = lower(module, context, **machine);
  if (!lowered)
    return lowered.takeError();
  return print(**lowered, **machine);
}

llvm::Expected<std::string> tandem::emitLLVMIR(ModuleOp module,
                                               llvm::StringRef isa) {
  auto print = [](llvm::Module &lowered,
                  llvm::TargetMachine &) -> llvm::Expected<std::string> {
    std::string text;
    llvm::raw_string_ostream(text) << lowered;
    return text;
  };
  return emit(module, isa, print);
}

llvm::Expected<std::string> tandem::emitAssembly(ModuleOp module,
                                                 llvm::StringRef isa) {
  auto print = [](llvm::Module &lowered, llvm::TargetMachine &machine) {
    return emitAssembly(lowered, machine);
  };
  return emit(module, isa, print);
}

llvm::Expected<std::string> tandem::emitSharedLibrary(ModuleOp module,
                                                      llvm::StringRef isa) {
  auto link = [](llvm::Module &lowered,
                 llvm::TargetMachine &machine) -> llvm::Expected<std::string> {
    auto object = emitObject(lowered, machine);
    if (!object)
      return object.takeError();
    return linkSharedLibrary(*object,
                             getArchitecture(machine).getLinkerEmulation());
  };
  return emit(module, isa, link);
}
