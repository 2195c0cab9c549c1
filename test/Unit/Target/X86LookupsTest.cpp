//===- X86LookupsTest.cpp - Tests of lookups in registers -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests which gathers become byte permutations, and runs these on any
// processor, with a function in place of the instruction.
//
//===----------------------------------------------------------------------===//

#include "lib/Target/CPU/X86/Lookups.h"
#include "tandem/Target/LLVMLowering.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "gtest/gtest.h"

using namespace llvm;

static constexpr unsigned numRows = 3;

/// Returns a table entry whose bytes depend on the index and the row. The
/// lowest byte is the same in all entries, and no entry is NaN.
static float getEntry(unsigned row, unsigned index) {
  return llvm::bit_cast<float>(((index ^ row) & 0xBF) << 24 | index << 16 |
                               (index * 7 + row) % 256 << 8 | 0x5A);
}

/// Returns a function (row, indices, results) that looks up `lanes` entries at
/// indices of `bits` bits.
static std::string writeLookup(unsigned lanes, unsigned bits) {
  std::string n = std::to_string(lanes), text;
  raw_string_ostream os(text);
  os << "@table = internal constant [" << numRows * 256 << " x float] [";
  for (unsigned i = 0; i < numRows * 256; ++i)
    os << (i ? ", " : "") << "float "
       << format_hex(
              llvm::bit_cast<uint64_t>(double(getEntry(i / 256, i % 256))), 18,
              /*Upper=*/true);
  os << "]\ndefine void @look_up(i32 %row, ptr %indices, ptr %results) {\n"
     << "  %first = shl i32 %row, 8\n"
     << "  %begin = getelementptr float, ptr @table, i32 %first\n"
     << "  %loaded = load <" << n << " x i" << bits << ">, ptr %indices\n"
     << "  %wide = zext <" << n << " x i" << bits << "> %loaded to <" << n
     << " x i32>\n"
     << "  %entries = getelementptr float, ptr %begin, <" << n
     << " x i32> %wide\n"
     << "  %found = call <" << n << " x float> @llvm.masked.gather.v" << n
     << "f32.v" << n << "p0(<" << n << " x ptr> align 4 %entries, <" << n
     << " x i1> splat (i1 true), <" << n << " x float> poison)\n"
     << "  store <" << n << " x float> %found, ptr %results, align 4\n"
     << "  ret void\n}\n";
  return text;
}

namespace {
struct Compiled {
  std::unique_ptr<LLVMContext> context = std::make_unique<LLVMContext>();
  std::unique_ptr<Module> module;
};
} // namespace

/// Selects instructions in a module for a processor with the features.
static Compiled select(StringRef text, StringRef features) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  Compiled result;
  SMDiagnostic diagnostic;
  result.module = parseAssemblyString(text, diagnostic, *result.context);
  EXPECT_TRUE(result.module) << diagnostic.getMessage().str();
  Triple triple("x86_64-unknown-linux-gnu");
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, "x86-64-v4", features, tandem::getStrictTargetOptions(),
      Reloc::PIC_));
  result.module->setDataLayout(machine->createDataLayout());
  tandem::selectLookups(*result.module, *machine);
  return result;
}

static unsigned countCalls(const Module &module, Intrinsic::ID intrinsic) {
  unsigned number = 0;
  for (const Function &function : module)
    if (function.getIntrinsicID() == intrinsic)
      number += function.getNumUses();
  return number;
}

/// Returns the instruction as a function that any processor can run.
static std::string writePermutation() {
  std::string text;
  raw_string_ostream os(text);
  os << "define <64 x i8> @permute(<64 x i8> %low, <64 x i8> %indices, "
        "<64 x i8> %high) {\n  %both = alloca <128 x i8>\n"
        "  store <64 x i8> %low, ptr %both\n"
        "  %upper = getelementptr i8, ptr %both, i32 64\n"
        "  store <64 x i8> %high, ptr %upper\n";
  for (unsigned i = 0; i < 64; ++i)
    os << "  %i" << i << " = extractelement <64 x i8> %indices, i32 " << i
       << "\n  %m" << i << " = and i8 %i" << i << ", 127\n  %z" << i
       << " = zext i8 %m" << i << " to i32\n  %p" << i
       << " = getelementptr i8, ptr %both, i32 %z" << i << "\n  %b" << i
       << " = load i8, ptr %p" << i << "\n  %r" << i
       << " = insertelement <64 x i8> "
       << (i ? "%r" + std::to_string(i - 1) : "poison") << ", i8 %b" << i
       << ", i32 " << i << "\n";
  os << "  ret <64 x i8> %r63\n}\n";
  return text;
}

/// Looks up the entries of all bytes with a function of that many lanes.
static std::vector<float> lookUpAll(unsigned lanes, unsigned row,
                                    StringRef features) {
  Compiled compiled =
      select(writeLookup(lanes, 8) + writePermutation(), features);
  Function *permute = compiled.module->getFunction("permute");
  for (Function &function : *compiled.module)
    if (function.getIntrinsicID() == Intrinsic::x86_avx512_vpermi2var_qi_512)
      function.replaceAllUsesWith(permute);
  auto jit = cantFail(orc::LLJITBuilder().create());
  compiled.module->setDataLayout(jit->getDataLayout());
  cantFail(jit->addIRModule(orc::ThreadSafeModule(
      std::move(compiled.module), std::move(compiled.context))));
  auto *lookUp = cantFail(jit->lookup("look_up"))
                     .toPtr<void (*)(uint32_t, const uint8_t *, float *)>();
  alignas(64) uint8_t indices[256];
  std::vector<float> found(256);
  for (unsigned i = 0; i < 256; ++i)
    indices[i] = i * 37;
  for (unsigned i = 0; i < 256; i += lanes)
    lookUp(row, indices + i, found.data() + i);
  std::vector<float> ordered(256);
  for (unsigned i = 0; i < 256; ++i)
    ordered[indices[i]] = found[i];
  return ordered;
}

TEST(X86LookupsTest, SelectsPermutations) {
  for (unsigned lanes : {32, 64, 128}) {
    Compiled compiled = select(writeLookup(lanes, 8), "+avx512vbmi");
    EXPECT_EQ(countCalls(*compiled.module, Intrinsic::masked_gather), 0u);
    // There are two for each byte except the lowest, which all entries share.
    EXPECT_EQ(
        countCalls(*compiled.module, Intrinsic::x86_avx512_vpermi2var_qi_512),
        6 * divideCeil(lanes, 64));
    EXPECT_FALSE(compiled.module->getNamedGlobal("table"));
  }
}

TEST(X86LookupsTest, FindsTheEntries) {
  for (StringRef features : {"+avx512vbmi", ""})
    for (unsigned lanes : {32, 64, 128})
      for (unsigned row = 0; row < numRows; ++row) {
        std::vector<float> found = lookUpAll(lanes, row, features);
        for (unsigned i = 0; i < 256; ++i)
          ASSERT_EQ(llvm::bit_cast<uint32_t>(found[i]),
                    llvm::bit_cast<uint32_t>(getEntry(row, i)))
              << "entry " << i << " of row " << row << ", " << lanes
              << " lanes, features '" << features.str() << "'";
      }
}

static unsigned countLoads(const Module &module, unsigned bits) {
  unsigned number = 0;
  for (const Instruction &instruction :
       instructions(*module.getFunction("look_up")))
    if (auto *load = dyn_cast<LoadInst>(&instruction))
      number += load->getType()->isSized() &&
                load->getType()->getPrimitiveSizeInBits() == bits;
  return number;
}

TEST(X86LookupsTest, LoadsEntriesWithoutPermutations) {
  for (unsigned lanes : {16, 32, 64}) {
    Compiled compiled = select(writeLookup(lanes, 8), "");
    EXPECT_EQ(countCalls(*compiled.module, Intrinsic::masked_gather), 0u);
    // The indices are loaded again, one by one.
    EXPECT_EQ(countLoads(*compiled.module, 8), lanes);
    EXPECT_EQ(countLoads(*compiled.module, 32), lanes);
  }
}

TEST(X86LookupsTest, MovesIndicesThatMayHaveChangedInMemory) {
  std::string text = writeLookup(32, 8);
  size_t gather = text.find("  %entries");
  ASSERT_NE(gather, std::string::npos);
  text.insert(gather, "  store i8 0, ptr %indices\n");
  Compiled compiled = select(text, "");
  EXPECT_EQ(countCalls(*compiled.module, Intrinsic::masked_gather), 0u);
  EXPECT_EQ(countLoads(*compiled.module, 8), 0u);
  EXPECT_EQ(countLoads(*compiled.module, 32), 32u);
}

TEST(X86LookupsTest, LeavesOtherGathers) {
  for (auto [lanes, bits, features] :
       {std::tuple(64u, 16u, ""), std::tuple(64u, 16u, "+avx512vbmi"),
        std::tuple(8u, 8u, ""), std::tuple(8u, 8u, "+avx512vbmi")}) {
    Compiled compiled = select(writeLookup(lanes, bits), features);
    EXPECT_EQ(countCalls(*compiled.module, Intrinsic::masked_gather), 1u);
    EXPECT_TRUE(compiled.module->getNamedGlobal("table"));
  }
}
