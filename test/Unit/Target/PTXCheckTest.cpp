//===- PTXCheckTest.cpp - Tests of the PTX check --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that kernels compile whose arithmetic LLVM simplifies, and
// that the compiler emits no PTX from which an operation is missing.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Support/ParseModule.h"
#include "tandem/Target/Compiler.h"
#include "tandem/Target/PTX/NVVMPipeline.h"
#include "tandem/Target/PTX/PTX.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace tandem;
using llvm::Twine;

namespace {
/// Returns a kernel that stores `%r` and `%s`, computed from `%a` and `%b`.
std::string getKernel(StringRef format, StringRef body) {
  std::string text = R"mlir(
    tandem.kernel @f compute(<component, bf16>)
        tensors [#tandem.role<state "y">, #tandem.role<state "x">] scalars [] prologue {
      tandem.yield
    } body {
    ^bb0(%y: !tandem.stored<tensor<?xf32>, #tandem.float<T>>,
         %x: !tandem.stored<tensor<?xf32>, #tandem.float<T>>):
      %one = arith.constant 1.0 : T
      %two = arith.constant 2.0 : T
      %minus_one = arith.constant -1.0 : T
      %minus_zero = arith.constant -0.0 : T
      %b = tandem.load_plane %y[0] : <tensor<?xf32>, #tandem.float<T>> -> T
      %a = tandem.load_plane %x[0] : <tensor<?xf32>, #tandem.float<T>> -> T
      BODY
      tandem.store_plane %r, %y[0] : T, <tensor<?xf32>, #tandem.float<T>>
      tandem.store_plane %s, %x[0] : T, <tensor<?xf32>, #tandem.float<T>>
      tandem.yield
    }
  )mlir";
  auto replace = [&](StringRef from, StringRef to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
         at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("BODY", body);
  replace(" T", (" " + format).str());
  replace("<T", ("<" + format).str());
  return text;
}

constexpr StringLiteral twoSum = R"mlir(
  %r = arith.addf %a, %b : T
  %bb = arith.subf %r, %a : T
  %aa = arith.subf %r, %bb : T
  %eb = arith.subf %b, %bb : T
  %ea = arith.subf %a, %aa : T
  %s = arith.addf %ea, %eb : T
)mlir";

constexpr StringLiteral chips[] = {"sm_80", "sm_90", "sm_100"};
constexpr int64_t width = 8;

/// Returns the context of all kernels, since loading the dialects is slow.
MLIRContext &getContext() {
  static MLIRContext context;
  static bool once = [] {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    return true;
  }();
  (void)once;
  return context;
}

/// A kernel in the LLVM dialect, and the arithmetic that it requires.
class Lowered {
public:
  Lowered(StringRef text, StringRef chip) : chip(chip) {
    module = parseModule(text, &getContext(), "kernel");
    run([](OpPassManager &manager) { manager.addPass(createSplitPhases()); });
    parts = llvm::cantFail(countRequired(*module, chip));
    run([&](OpPassManager &manager) {
      NVVMPipelineOptions options;
      options.width = width;
      options.chip = chip.str();
      buildNVVMPipeline(manager, options);
    });
  }

  llvm::Expected<std::string> translate() {
    return translateToPTX(*module, parts, chip, width);
  }
  llvm::Error check(StringRef ptx) { return checkPTX(ptx, parts, chip, width); }

  /// Returns the operations of the entry that round.
  SmallVector<Operation *> getArithmetic() {
    SmallVector<Operation *> ops;
    module->walk([&](LLVM::LLVMFuncOp function) {
      if (!function.getSymName().ends_with("_prologue"))
        function.walk([&](Operation *op) {
          if (isa<LLVM::FAddOp, LLVM::FSubOp>(op))
            ops.push_back(op);
        });
    });
    return ops;
  }

private:
  void run(function_ref<void(OpPassManager &)> build) {
    PassManager manager(&getContext());
    build(manager);
    EXPECT_TRUE(succeeded(manager.run(*module)));
  }

  OwningOpRef<ModuleOp> module;
  std::vector<PartRequirement> parts;
  StringRef chip;
};

std::string getMessage(llvm::Expected<std::string> ptx) {
  return ptx ? "" : llvm::toString(ptx.takeError());
}

/// Replaces the first occurrence after `start`.
std::string plant(std::string text, StringRef from, StringRef to,
                  StringRef start = "") {
  size_t at = text.find(from, text.find(start));
  EXPECT_NE(at, std::string::npos) << from.str();
  return text.replace(at, from.size(), to);
}

//===----------------------------------------------------------------------===//
// Arithmetic that LLVM simplifies
//===----------------------------------------------------------------------===//

/// An expression that LLVM simplifies, and an operation that it requires.
struct Simplified {
  StringLiteral body, operation;
};

constexpr Simplified simplified[] = {
    // This is x + x, which adds an operation of a different kind.
    {"%r = arith.mulf %a, %two : T\n%s = arith.addf %a, %b : T", "mul.rn.f32"},
    // -x.
    {"%r = arith.mulf %a, %minus_one : T\n%s = arith.addf %a, %b : T",
     "mul.rn.f32"},
    {"%r = arith.subf %minus_zero, %a : T\n%s = arith.mulf %a, %b : T",
     "sub.rn.f32"},
    // This is a product with 1/2.
    {"%r = arith.divf %a, %two : T\n%s = arith.addf %a, %b : T", "div.rn.f32"},
    // This is a sum.
    {"%r = math.fma %a, %one, %b : T\n%s = arith.mulf %a, %b : T",
     "fma.rn.f32"},
    // One difference would serve both.
    {"%n = arith.negf %b : T\n%r = arith.addf %a, %n : T\n"
     "%s = arith.subf %a, %b : T",
     "add.rn.f32"},
    // One operation would follow a selection.
    {"%c = arith.cmpf olt, %a, %b : T\n%l = arith.mulf %a, %b : T\n"
     "%m = arith.mulf %a, %a : T\n%r = arith.select %c, %l, %m : T\n"
     "%s = arith.addf %a, %b : T",
     "mul.rn.f32"},
};

TEST(PTXCheckTest, simplificationsAreNoFault) {
  for (StringRef chip : chips)
    for (const Simplified &example : simplified) {
      Lowered lowered(getKernel("f32", example.body), chip);
      auto ptx = lowered.translate();
      ASSERT_TRUE(bool(ptx)) << chip.str() << example.body.str()
                             << llvm::toString(ptx.takeError());
      EXPECT_GE(StringRef(*ptx).count(example.operation), size_t(width))
          << chip.str() << example.body.str();
      EXPECT_TRUE(StringRef(*ptx).contains("begin inline asm"))
          << "LLVM no longer simplifies " << example.body.str();
    }
}

/// If no operation is missing, LLVM's first result is emitted.
TEST(PTXCheckTest, ordinaryArithmeticIsCompiledOnce) {
  for (StringRef chip : chips)
    for (StringRef format : {"f32", "bf16", "f16"}) {
      auto ptx = Lowered(getKernel(format, twoSum), chip).translate();
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      EXPECT_FALSE(StringRef(*ptx).contains("inline asm"));
    }
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// Removes each operation of a TwoSum before LLVM sees the kernel, or leaves it
/// unused.
TEST(PTXCheckTest, lostOperationsAreRefused) {
  for (auto [chip, format, isErased] : {std::tuple("sm_80", "f32", false),
                                        {"sm_80", "bf16", true},
                                        {"sm_90", "f32", true},
                                        {"sm_90", "bf16", false}})
    for (unsigned i = 0; i < 6; ++i) {
      Lowered lowered(getKernel(format, twoSum), chip);
      auto ops = lowered.getArithmetic();
      ASSERT_EQ(ops.size(), 6u);
      ops[i]->getResult(0).replaceAllUsesWith(ops[i]->getOperand(1));
      if (isErased)
        ops[i]->erase();
      // Operands that only the lost operation used are removed with it.
      EXPECT_TRUE(StringRef(getMessage(lowered.translate()))
                      .starts_with("the PTX of 'f' is not the kernel's "
                                   "arithmetic:\n  add and sub " +
                                   Twine(format).str() +
                                   ": a step requires 48, the PTX executes "))
          << chip << format << i;
    }
}

/// Before sm_90, LLVM rounds an integer to f32 before bf16, which gives a
/// different number if the f32 is halfway between two bf16 numbers.
TEST(PTXCheckTest, doubleRoundingIsRefused) {
  constexpr StringLiteral body =
      "%q = arith.bitcast %a : T to i16\n%i = arith.extsi %q : i16 to i32\n"
      "%r = arith.sitofp %i : i32 to T\n%s = arith.addf %a, %b : T";
  std::string kernel = getKernel("bf16", body);
  EXPECT_TRUE(StringRef(getMessage(Lowered(kernel, "sm_80").translate()))
                  .contains("round to bf16: a step requires 0, the PTX "
                            "executes 8, line "));
  EXPECT_EQ(getMessage(Lowered(kernel, "sm_90").translate()), "");
}

/// A fault inserted into correct PTX, and whether it changes a count.
struct Fault {
  StringLiteral from, to;
  bool isCount;
};

constexpr Fault faults[] = {
    {"add.rn.f32", "// add.rn.f32", true},
    {"add.rn.f32", "mul.rn.f32", true},
    {"sub.rn.f32", "add.rn.f32 %r1, %r1, %r1; sub.rn.f32", true},
    {"add.rn.f32", "fma.rn.f32 %r1, %r1, %r1, %r1; add.rn.f32", false},
    {"add.rn.f32", "add.f32", false},
    {"add.rn.f32", "add.rz.f32", false},
    {"add.rn.f32", "add.rn.ftz.f32", false},
    {"add.rn.f32", "add.rn.sat.f32", false},
    {"add.rn.f32", "call.uni f, (); add.rn.f32", false},
};

TEST(PTXCheckTest, onlyCountsAreInDoubt) {
  Lowered lowered(getKernel("f32", twoSum), "sm_90");
  std::string ptx = llvm::cantFail(lowered.translate());
  for (const Fault &fault : faults) {
    llvm::Error error = lowered.check(plant(ptx, fault.from, fault.to));
    EXPECT_TRUE(bool(error)) << fault.to.str();
    EXPECT_EQ(error.isA<PTXCountError>(), fault.isCount) << fault.to.str();
    llvm::consumeError(std::move(error));
  }
}

/// A contraction in a later part is detected despite a wrong count in an
/// earlier one.
TEST(PTXCheckTest, certainFaultsOfLaterPartsCount) {
  CompileOptions options;
  options.graph = llvm::cantFail(loadGraph("lamb"));
  options.strategy = "fp32";
  options.target = "sm_90";
  auto kernel = llvm::cantFail(compile(options));
  Lowered lowered(kernel->info->ir, "sm_90");
  std::string ptx = plant(getBytes(*kernel->image).str(), "add.rn.f32",
                          "// add.rn.f32", ".entry tandem_lamb_phase0(");
  llvm::Error error = lowered.check(ptx);
  EXPECT_TRUE(error.isA<PTXCountError>());
  EXPECT_TRUE(StringRef(llvm::toString(std::move(error)))
                  .contains("the PTX of 'lamb_phase0'"));
  error = lowered.check(plant(ptx, "add.rn.f32",
                              "fma.rn.f32 %r1, %r1, %r1, %r1; add.rn.f32",
                              ".entry tandem_lamb("));
  EXPECT_FALSE(error.isA<PTXCountError>());
  EXPECT_TRUE(StringRef(llvm::toString(std::move(error)))
                  .contains("the PTX of 'lamb'"));
}
} // namespace
