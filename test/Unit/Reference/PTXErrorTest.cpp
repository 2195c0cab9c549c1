//===- PTXErrorTest.cpp - Tests of the PTX evaluator's errors -------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests messages about unknown instructions and about faults of
// threads.
//
//===----------------------------------------------------------------------===//

#include "PTXTestUtils.h"

using namespace tandem::reference;

namespace {

/// Fails unless `message` contains `part`.
void expectPart(llvm::StringRef message, llvm::StringRef part) {
  EXPECT_TRUE(message.contains(part))
      << "'" << message.str() << "' lacks '" << part.str() << "'";
}

void expectRefused(llvm::StringRef body, llvm::StringRef part) {
  std::string message = parseFailure(wrap(body));
  expectPart(message, part);
  expectPart(message, "PTX line 7: "); // the body's first line
}

TEST(PTXErrors, UnknownInstructions) {
  expectRefused("frobnicate.s32 %w1, %w2;", "unknown instruction");
  expectRefused("add %w1, %w2, %w3;", "expected a known type, not '.'");
  expectRefused("add.s8 %h1, %h2, %h3;", "no arithmetic on 8 bits");
  expectRefused("add.sat.s32 %w1, %w2, %w3;", "not '.sat'");
  expectRefused("min.u32x2 %d1, %d2, %d3;", "expected a known type");
  expectRefused("prmt.b32.f4e %w1, %w2, %w3, 0;", "modifier '.f4e'");
  expectRefused("setp.lt.b32 %p1, %w2, %w3;", "unknown comparison");
  expectRefused("setp.nan.s32 %p1, %w2, %w3;", "unknown comparison");
  expectRefused("setp.lt.and.s32 %p1, %w2, %w3, %p2;", "known type");
  expectRefused("call.uni foo, ();", "expected a name");
  expectRefused("bar.sync 1;", "only barrier 0 is known");
  expectRefused("shfl.up.b32 %w1, %w2, 1, 0;", "unknown instruction");
  expectRefused("mul.wide.u64 %d1, %d2, %d3;", "unknown instruction");
}

/// PTX has no .sat if the destination can represent every source.
TEST(PTXErrors, SaturationOfWhatFits) {
  expectRefused("cvt.sat.s16.s16 %h1, %h2;", "unknown conversion");
  expectRefused("cvt.sat.u32.u16 %w1, %h2;", "unknown conversion");
  expectRefused("cvt.sat.s32.u16 %w1, %h2;", "unknown conversion");
  EXPECT_EQ(parseFailure(wrap("cvt.sat.s16.u16 %h1, %h2;")), "");
  EXPECT_EQ(parseFailure(wrap("cvt.sat.u64.s16 %d1, %h2;")), "");
}

/// Only 8-bit and 32-bit constants can be in global memory.
TEST(PTXErrors, Constants) {
  expectPart(parseFailure(".version 8.0\n.global .b32 x;"),
             "PTX line 2: expected '=' before ';'");
  expectPart(parseFailure(".global .b32 x[2] = {1, 2, 3};"),
             "'x' has 2 elements and 3 values");
  expectPart(parseFailure(".global .b16 x[2] = {1, 2};"),
             "constants of 8 and 32 bits are known, 'x' has others");
  expectPart(parseFailure(".global .b32 x[1] = {1};\n.shared .b32 x;"),
             "'x' is declared twice");
}

/// Arithmetic that may lose a bit is refused rather than emulated.
TEST(PTXErrors, InexactArithmetic) {
  expectRefused("mul.f32 %w1, %w2, %w3;", "only the .rn form is known");
  expectRefused("add.ftz.f32 %w1, %w2, %w3;", "only the .rn form is known");
  expectRefused("mul.rn.ftz.f32 %w1, %w2, %w3;", "not '.ftz'");
  expectRefused("div.full.f32 %w1, %w2, %w3;", "only the .rn form");
  expectRefused("sqrt.approx.f32 %w1, %w2;", "only the .rn form");
  expectRefused("ex2.approx.ftz.f32 %w1, %w2;", "unknown instruction");
  expectRefused("fma.rz.f32 %w1, %w2, %w3, %w4;", "only the .rn form");
  expectRefused("div.rn.bf16 %h1, %h2, %h3;", "unknown instruction");
  expectRefused("atom.global.add.f32 %w1, [%rd1], %w2;", "unknown instruction");
}

TEST(PTXErrors, Conversions) {
  expectRefused("cvt.bf16.f32 %h1, %w2;", "unknown conversion");
  expectRefused("cvt.rn.f32.bf16 %w1, %h2;", "unknown conversion");
  expectRefused("cvt.f32.s32 %w1, %w2;", "unknown conversion");
  expectRefused("cvt.s32.f32 %w1, %w2;", "unknown conversion");
  expectRefused("cvt.rn.e4m3x2.f32 %h1, %w2, %w3;", "unknown conversion");
  expectRefused("cvt.rn.relu.bf16x2.f32 %w1, %w2, %w3;", "not '.relu'");
  expectRefused("cvt.rna.tf32.f32 %w1, %w2;", "not '.rna'");
}

TEST(PTXErrors, Operands) {
  expectRefused("add.s32 %w1, %w2;", "takes 3 operands, not 2");
  expectRefused("add.s32 %w1, %w2, %w99;", "unknown register '%w99'");
  expectRefused("add.s32 %d1, %w2, %w3;", "register '%d1' has 64 bits");
  expectRefused("add.s32 %w1, %d2, %w3;", "reads 32");
  expectRefused("add.s32 5, %w2, %w3;", "needs a register to write to");
  expectRefused("add.s32 %tid.x, %w2, %w3;", "not a register that can be");
  expectRefused("mov.u32 %w1, %clock;", "unknown register '%clock'");
  expectRefused("add.s32 %w1, %w2, 4294967296;", "does not fit in 32 bits");
  expectRefused("add.rn.f32 %w1, %w2, 1;", "is not of the type");
  expectRefused("add.rn.f64 %d1, %d2, 0f3F800000;", "is not of the type");
  expectRefused("@%w1 mov.b32 %w1, %w2;", "guard '%w1' is not a predicate");
  expectRefused("mov.b32 {%h1, %h2, %h3}, %w1;", "cannot have 3 parts");
  expectRefused("ld.global.v2.b32 {%w1, %w2, %w3}, [%rd1];",
                "needs a vector of 2");
  expectRefused("ld.global.b32 %w1, [%w2];", "is not a 64-bit register");
  expectRefused("ld.param.b64 %rd1, [absent];", "unknown parameter");
  expectRefused("ld.local.b32 %w1, [%rd1];", "not '.local'");
  expectRefused("atom.shared.add.u32 %w1, [%rd1], 1;",
                "atomic access to shared memory is not known");
  expectRefused("ld.relaxed.global.b32 %w1, [%rd1];", "expected a scope");
  expectRefused("ld.global.v8.b64 {%d1, %d2}, [%rd1];", "unknown access");
  expectRefused("bra $nowhere;", "no label '$nowhere'");
}

TEST(PTXErrors, Structure) {
  expectRefused(".local .align 4 .b8 x[4];", "unknown directive '.local'");
  expectRefused(".reg .b32 %w1;", "declared twice");
  expectRefused(".pragma \"fast\";", "unknown pragma");
  expectRefused("x: mov.b32 %w1, 0; x: ret;", "label 'x' stands twice");
  expectRefused("mov.b32 %w1, #;", "expected a name, not '#'");
  expectPart(parseFailure(".version 8.0\n.const .b32 x;"),
             "PTX line 2: unknown directive '.const'");
  expectPart(parseFailure(".shared .b8 x[4];\n.shared .b8 x[4];"),
             "'x' is declared twice");
  expectPart(parseFailure(".shared .align 3 .b8 x[4];"), "not a power of two");
  expectPart(parseFailure(".shared x[4];"), "unknown type of a variable");
  expectPart(parseFailure(".address_size 32\n"), "only 64-bit");
  expectPart(parseFailure(".entry k() {\nret;\n"), "body does not end");
  expectPart(parseFailure(".entry k() { ret; }\n.entry k() { ret; }"),
             "defined twice");
  expectPart(parseFailure(".entry k(.param .align 4 .b8 x[8]) { ret; }"),
             "unknown parameter type");
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

TEST(PTXFaults, Memory) {
  auto error = [](llvm::StringRef body) { return runBody(body, {}).error; };
  expectPart(error("ld.global.b32 %w1, [%rd20+64];"),
             "buffer below, 'in', has 64 bytes and this is at offset 64");
  expectPart(error("ld.global.v4.b32 {%w1, %w2, %w3, %w4}, [%rd20+4];"),
             "load of 16 bytes");
  expectPart(error("ld.global.b32 %w1, [%rd20+2];"), "not aligned");
  expectPart(error("st.global.b32 [%rd20], 1;"), "buffer 'in' is read-only");
  expectPart(error("st.global.b64 [%rd21+64], 1;"), "store of 8 bytes");
  expectPart(error("mov.b64 %rd1, 0; ld.b32 %w1, [%rd1];"),
             "no buffer is registered");
  expectPart(error("ld.global.nc.b32 %w1, [%rd21];"), "non-coherent");
  expectPart(error("atom.global.or.b32 %w1, [%rd20], 1;"), "atomic access");
  EXPECT_EQ(error("ld.global.nc.b32 %w1, [%rd20];"), "");
  EXPECT_EQ(error("ld.b32 %w1, [%rd20+60]; st.b8 [%rd21+63], %h1;"), "");
}

TEST(PTXFaults, NameThePlace) {
  std::string error =
      runBody("mov.b32 %w1, 0;\ndiv.u32 %w2, %w1, %w1;", {}).error;
  expectPart(error, "kernel 'k', PTX line 8, 'div.u32 %w2, %w1, %w1;', block "
                    "(0, 0, 0), thread (0, 0, 0): division by zero");
}

TEST(PTXFaults, Control) {
  expectPart(runBody("x: bra.uni x;", {}).error, "without returning");
  expectPart(runBody("trap;", {}).error, "trap");
  llvm::Expected<PTXModule> module =
      PTXModule::parse(".entry k() { .reg .b32 %a; mov.b32 %a, 1; }");
  ASSERT_TRUE(bool(module));
  MemoryMap memory;
  auto launch = [&](llvm::StringRef name, std::vector<uint64_t> params,
                    Dim3 block) {
    return llvm::toString(module->launch(name, params, Dim3(), block, memory));
  };
  expectPart(launch("k", {}, Dim3()), "runs past the end");
  expectPart(launch("j", {}, Dim3()), "no kernel 'j'; there are: k");
  expectPart(launch("k", {1}, Dim3()), "has 0 parameters, the launch gives 1");
  expectPart(launch("k", {}, Dim3{2048, 1, 1}), "at most 1024");
}

TEST(PTXFaults, BuffersDoNotOverlap) {
  char data[32];
  MemoryMap memory;
  cantFail(memory.addWritable("a", data + 8, 8));
  cantFail(memory.addWritable("b", data + 16, 8));
  expectPart(llvm::toString(memory.addReadOnly("c", data, 9)),
             "buffer 'c' overlaps buffer 'a'");
  expectPart(llvm::toString(memory.addReadOnly("c", data + 23, 4)), "'b'");
  cantFail(memory.addReadOnly("c", data, 8));
}

} // namespace
